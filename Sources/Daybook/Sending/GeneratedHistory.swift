import Domain
import ServiceRuntime

/// Days of made-up people, the same for the same seed: for trying out, loads and drills. Pure.
struct GeneratedHistory: Sendable {
    /// One request body and whose it is.
    struct Request: Sendable {
        let user: UserID
        let body: String
        let days: Int
    }

    let users: [UserID]
    let days: Int
    let lastDay: CalendarDay
    let seed: UInt64
    /// As a phone sends them.
    let daysPerRequest: Int

    init(users: [UserID], days: Int, lastDay: CalendarDay, seed: UInt64, daysPerRequest: Int = 30) {
        self.users = users
        self.days = days
        self.lastDay = lastDay
        self.seed = seed
        self.daysPerRequest = max(1, daysPerRequest)
    }

    /// Users that belong to a seed.
    static func users(_ count: Int, seed: UInt64) -> [UserID] {
        var generator = SplitMix64(seed: seed)
        return (0..<count).map { _ in
            UserID(
                high: generator.next() & ~0xf000 | 0x4000,
                low: generator.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
            )
        }
    }

    /// The oldest days first; each user's phone, and for every second user a second source that disagrees a little.
    var requests: [Request] {
        users.enumerated().flatMap { number, user -> [Request] in
            let sources: [Source] = number % 2 == 0 ? [.appleHealth, .healthConnect] : [.appleHealth]
            return sources.flatMap { source in
                stride(from: 0, to: days, by: daysPerRequest).map { start in
                    let count = min(daysPerRequest, days - start)
                    let list = (0..<count).map { offset in
                        day(lastDay.advanced(by: start + offset - days + 1), user, source)
                    }
                    let body =
                        "{\"source\":\"\(source)\",\"time_zone\":\"UTC\",\"days\":[\(list.joined(separator: ","))]}"
                    return Request(user: user, body: body, days: count)
                }
            }
        }
    }

    private func day(_ day: CalendarDay, _ user: UserID, _ source: Source) -> String {
        // Any day can be made without those before it.
        var generator = SplitMix64(
            seed: seed ^ user.low ^ UInt64(bitPattern: Int64(day.daysSinceEpoch)) &* 0x9e37_79b9_7f4a_7c15
        )
        let steps = 2000 + Int(generator.next() % 14_000)
        let energy = 80 + Int(generator.next() % 9000) / 10
        let sleep = 330 + Int(generator.next() % 180)
        let pulse = 48 + Int(generator.next() % 24)
        let flights = Int(generator.next() % 25) + 1
        // The second source sees about as much, never exactly.
        let difference = source == .appleHealth ? 0 : Int(generator.next() % 400) - 200
        var text = "{\"date\":\"\(day)\",\"steps\":\(steps + difference),\"active_energy_kcal\":\(energy)"
        text += ",\"sleep_minutes\":\(sleep)"
        if source == .appleHealth {
            text += ",\"resting_heart_rate_bpm\":\(pulse),\"flights_climbed\":\(flights)"
            text += ",\"distance_m\":\(steps * 7 / 10).\(generator.next() % 10)"
        }
        return text + "}"
    }
}

import Domain
import Foundation
import MessageContract
import ServiceRuntime

/// Users and their days: everything is a function of its numbers, so that all who are measured get the same.
struct People {
    /// The first record's time; each round is a minute later than the one before. Fixed for a run.
    let start: Instant
    let today: CalendarDay

    init() {
        let now = Int64(Date().timeIntervalSince1970 * 1_000_000)
        start = Instant(microseconds: now).advanced(bySeconds: -3600)
        today = start.day(secondsFromUTC: 0)
    }

    func time(ofRound round: Int) -> Instant { start.advanced(bySeconds: round * 60) }

    static func user(_ index: Int) -> UserID {
        var random = SplitMix64(seed: UInt64(index) &* 0x1_0001)
        let high = random.next() & ~0xf000 | 0x4000
        return UserID(high: high, low: random.next() & ~(3 << 62) | 2 << 62)
    }

    /// Six metrics that everybody here knows. Two rounds differ in every day's steps for certain.
    static func values(_ user: Int, _ day: CalendarDay, round: Int) -> MetricValues {
        var random = SplitMix64(
            seed: UInt64(user) << 32 ^ UInt64(UInt32(bitPattern: day.daysSinceEpoch)) << 8 ^ UInt64(round)
        )
        let word = random.next()
        func number(_ shift: UInt64, _ span: UInt64) -> Int32 { Int32(truncatingIfNeeded: word >> shift % 64 % span) }
        return [
            .steps: (number(0, 20_000) / 64 * 64 + Int32(round % 64) + 100) * 10,
            .activeEnergy: number(8, 8000) + 500,
            .sleepMinutes: (number(16, 300) + 240) * 10,
            .restingHeartRate: (number(24, 40) + 45) * 10,
            .hrvSDNN: number(32, 1000) + 200,
            .distance: number(40, 150_000) + 1000,
        ]
    }

    /// A permutation of `0..<count`, another one for every seed: nobody's records come in the order of the tables.
    static func shuffled(_ count: Int, seed: Int) -> [Int] {
        var random = SplitMix64(seed: UInt64(seed) &+ 77)
        return (0..<count).shuffled(using: &random)
    }
}

/// Which round last changed each of the days that are sent again and again, so that what a re-send calls unchanged is.
struct History {
    static let days = 30
    private var rounds = Array(repeating: 0, count: History.days)

    /// `age` counts from today, 0, backwards.
    func round(ofAge age: Int) -> Int { rounds.indices.contains(age) ? rounds[age] : 0 }

    mutating func change(newest count: Int, to round: Int) {
        for age in rounds.indices.prefix(count) { rounds[age] = round }
    }
}

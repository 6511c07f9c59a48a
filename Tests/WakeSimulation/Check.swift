import Domain
import WakeRules

/// The second model: goes through each user's life once more, from what happened alone, with rules written down again
/// in the plainest way.
extension WakeSimulation {
    mutating func check() {
        for number in phones.indices { check(number) }
    }

    private mutating func check(_ number: Int) {
        let phone = phones[number]
        let spent = phone.sends.filter { $0.outcome != .notSpent }
        report.wakes += spent.count
        report.accepted += spent.count { $0.outcome == .accepted }
        report.unknown += spent.count { $0.outcome == .unknown }
        report.notSpent += phone.sends.count - spent.count
        report.wakesByHabit[phone.habit.rawValue] += spent.count
        if phone.habit == .cloudOnly, !phone.sends.isEmpty { report.fault("cloud data alone is no reason to wake") }
        checkDays(spent)
        checkSpacing(number, spent)
        checkWaiting(number, spent)
    }

    private mutating func checkDays(_ spent: [Phone.Send]) {
        var first = 0
        for place in spent.indices {
            while spent[place].wakeAt - spent[first].wakeAt >= Self.day { first += 1 }
            let inADay = place - first + 1
            report.mostInADay = max(report.mostInADay, inADay)
            if inADay > 6 { report.fault("at most six wakes a day") }
        }
    }

    /// Four hours between wakes and after pushes, a day after three in a row that were accepted and not answered.
    private mutating func checkSpacing(_ number: Int, _ spent: [Phone.Send]) {
        let pushes = applied[number]
        for (place, send) in spent.enumerated() {
            let now = send.wakeAt
            // What had been applied by then.
            let seen = pushes.filter { $0.appliedAt < now }.map(\.receivedAt)
            if let last = seen.max(), now - last < 4 * Self.hour { report.fault("four hours after a push") }
            if seen.isEmpty { report.fault("nobody is woken who never pushed") }
            if lags(phones[number], now - 301 * Self.second), lags(phones[number], now) {
                report.fault("nobody is woken while we lag")
            }
            if outage.contains(now) { report.fault("nobody is woken while there is no worker") }
            if shut.contains(now), now - shut.lowerBound > 301 * Self.second {
                report.fault("nobody is woken while the door is shut")
            }
            guard place > 0 else { continue }
            let distance = now - spent[place - 1].wakeAt
            if distance < 4 * Self.hour { report.fault("never twice in the spacing") }
            let strikes = Self.strikes(before: place, spent, seen.max() ?? 0, forgiven: shut)
            if strikes >= 3, distance < Self.day { report.fault("a day after three unanswered") }
        }
    }

    /// Accepted wakes in a row, back from the one before `place`, since the last push that was seen.
    private static func strikes(before place: Int, _ spent: [Phone.Send], _ lastPush: Int64, forgiven: Range<Int64>)
        -> Int
    {
        var strikes = 0
        for send in spent[..<place].reversed() {
            guard send.wakeAt >= lastPush else { break }
            // Its answer may not have got in.
            let isForgiven = send.wakeAt < forgiven.upperBound && send.wakeAt + 4 * hour > forgiven.lowerBound
            if send.outcome == .accepted, !isForgiven { strikes += 1 }
        }
        return strikes
    }

    /// Whoever is due is woken in the next round: by the plain rules there is a time from which on the user was due;
    /// from there to the wake, nothing but the schedule and our own outages may pass.
    private mutating func checkWaiting(_ number: Int, _ spent: [Phone.Send]) {
        let phone = phones[number]
        guard phone.habit != .cloudOnly, phone.habit != .tokenDies else { return }
        let pushes = applied[number].sorted { $0.receivedAt < $1.receivedAt }
        guard let first = pushes.first else { return }
        var place = 0
        var dueSince = first.receivedAt + 4 * Self.hour
        var next = 1
        var unanswered = 0
        var lastPush = first.receivedAt
        var lastWake: Int64 = 0
        func due() -> Int64 {
            let wakeDue = lastWake == 0 ? 0 : lastWake + (unanswered >= 3 ? Self.day : 4 * Self.hour)
            return max(lastPush + 4 * Self.hour, wakeDue)
        }
        while next < pushes.count || place < spent.count {
            let isPush = next < pushes.count && (place >= spent.count || pushes[next].receivedAt <= spent[place].wakeAt)
            let now = isPush ? pushes[next].receivedAt : spent[place].wakeAt
            waited(from: dueSince, to: now)
            if isPush {
                lastPush = now
                if now > lastWake { unanswered = 0 }
                next += 1
            } else {
                lastWake = now
                if spent[place].outcome == .accepted { unanswered += 1 }
                place += 1
            }
            dueSince = due()
        }
        waited(from: dueSince, to: end)
    }

    private mutating func waited(from due: Int64, to now: Int64) {
        guard now > due else { return }
        var ours: Int64 = 0
        for stretch in [lag, shut, outage, slow] {
            // And a while for who was put off meanwhile.
            let until = stretch.upperBound + 900 * Self.second
            ours += max(0, min(now, until) - max(due, stretch.lowerBound))
        }
        let waited = Int((now - due - ours) / Self.second)
        report.longestWait = max(report.longestWait, waited)
        if waited > longestWaitSeconds { report.fault("nobody is starved") }
    }

    /// The hourly schedule, a push that was refused and tried again, and a scan or two.
    private var longestWaitSeconds: Int {
        let schedule: Int
        if case .hourly = settings.policy.schedule.kind { schedule = 3600 } else { schedule = 0 }
        return schedule + 3 * 1200 + 120
    }
}

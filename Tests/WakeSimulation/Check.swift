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
        checkWaiting(number)
        checkWithoutToken(phone)
    }

    /// While there is no token nobody is woken, and once all else would allow it the user is looked at no more.
    private mutating func checkWithoutToken(_ phone: Phone) {
        guard let gap = phone.withoutToken else { return }
        if phone.sends.contains(where: { gap.contains($0.wakeAt) }) { report.fault("nobody is woken without a token") }
        // A day of spacing at most, and the turn.
        let since = max(gap.lowerBound, phone.lastPushAt ?? 0)
        guard gap.upperBound == .max, since < end - 26 * Self.hour else { return }
        if phone.schedule?.dueAt != WakeSchedule.never { report.fault("who has no token is parked") }
        report.parked += 1
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
            let strikes = strikes(before: place, spent, seen.max() ?? 0)
            if strikes >= 3, distance < Self.day { report.fault("a day after three unanswered") }
        }
    }

    /// Accepted wakes in a row, back from the one before `place`, since the last push that was seen. A push that was
    /// received up to a minute before a wake answers it: it was applied behind it, or there had been no wake.
    private func strikes(before place: Int, _ spent: [Phone.Send], _ lastPush: Int64) -> Int {
        var strikes = 0
        for send in spent[..<place].reversed() {
            guard send.wakeAt > lastPush + Self.minute else { break }
            if isStrike(send) { strikes += 1 }
        }
        return strikes
    }

    /// Accepted, and its answer could have got in.
    private func isStrike(_ send: Phone.Send) -> Bool {
        let isForgiven = send.wakeAt <= shut.upperBound && send.wakeAt + 4 * Self.hour > shut.lowerBound
        return send.outcome == .accepted && !isForgiven
    }

    // MARK: Nobody is starved

    /// By the plain rules there is a time from which on the user is due, after each push and each try. From there to
    /// the next of them, nothing but the schedule, a scan and what is our fault may pass.
    private mutating func checkWaiting(_ number: Int) {
        let phone = phones[number]
        guard phone.habit != .cloudOnly else { return }
        let pushes = applied[number].map(\.receivedAt).sorted()
        guard var lastPush = pushes.first else { return }
        var strikes = 0
        var lastWake: Int64 = 0
        var retryAt: Int64 = 0
        func due() -> Int64 {
            let wakeDue = lastWake == 0 ? 0 : lastWake + (strikes >= 3 ? Self.day : 4 * Self.hour)
            return max(lastPush + 4 * Self.hour, wakeDue, retryAt, phone.firstRegisteredAt)
        }
        var (place, next) = (0, 1)
        while next < pushes.count || place < phone.sends.count {
            let isPush =
                next < pushes.count && (place >= phone.sends.count || pushes[next] <= phone.sends[place].wakeAt)
            let now = isPush ? pushes[next] : phone.sends[place].wakeAt
            waited(phone, from: due(), to: now)
            if isPush {
                lastPush = now
                if now > lastWake { strikes = 0 }
                next += 1
                continue
            }
            let send = phone.sends[place]
            if send.outcome == .notSpent {
                // A quarter of an hour later, unless the token turned out to be dead.
                retryAt = send.endedAt
                if phone.withoutToken?.lowerBound != send.endedAt { retryAt += 900 * Self.second }
            } else {
                lastWake = now
                if isStrike(send), now > lastPush + Self.minute { strikes += 1 }
            }
            place += 1
        }
        waited(phone, from: due(), to: end)
    }

    private mutating func waited(_ phone: Phone, from due: Int64, to now: Int64) {
        guard now > due else { return }
        // Whoever is put off is looked at again after four and a half minutes at most, and a scan's time.
        let again = 290 * Self.second
        // Refusals count for as long as they are most of ten minutes.
        var excuses = [
            shut.lowerBound..<shut.upperBound + 300 * Self.second + again,
            outage.lowerBound..<outage.upperBound + Self.scanSeconds * Self.second,
            slow.lowerBound..<slow.upperBound + Int64(ClockWatch.settlingSeconds) * Self.second,
        ]
        if lags(phone, lag.lowerBound) { excuses.append(lag.lowerBound..<lag.upperBound + again) }
        // From the answer that calls the last token dead until there is another one.
        if let gap = phone.withoutToken { excuses.append(gap) }
        let excused = excuses.reduce(0) { $0 + max(0, min(now, $1.upperBound) - max(due, $1.lowerBound)) }
        let waited = Int((now - due - excused) / Self.second)
        report.longestWait = max(report.longestWait, waited)
        if waited > longestWaitSeconds { report.fault("nobody is starved") }
    }

    /// The user's turn comes within the hour, a scan within its interval; and all workers may have been killed at once,
    /// of which the first is back within five minutes.
    private var longestWaitSeconds: Int {
        let schedule: Int
        if case .hourly = settings.policy.schedule.kind { schedule = 3600 } else { schedule = 0 }
        return schedule + Int(Self.scanSeconds) + settings.workers + 300
    }
}

import Domain
import ServiceRuntime
import WakeRules

/// The wake workers, as the real ones do it: candidates by the index, a decision for each, a claim that is committed
/// before anything is sent.
extension WakeSimulation {
    private func pipeline(_ now: Int64) -> PipelineState {
        let applied = lag.contains(now) ? lag.lowerBound : now - 5 * Self.second
        // Ten minutes' counts follow the door with as much delay.
        let refused = min(
            max(0, min(now, shut.upperBound) - max(now - 600 * Self.second, shut.lowerBound)),
            600 * Self.second
        )
        let requests = 1000
        let answered = requests - Int(refused / Self.second) * requests / 600
        var state = PipelineState(
            appliedThrough: [0: applied, 1: applied, 2: applied, 3: now - 5 * Self.second],
            counts: [4],
            door: DoorCounts(requests: requests, answered: answered)
        )
        if settings.mistake == .ignoresLag {
            for partition in state.appliedThrough.keys { state.appliedThrough[partition] = now }
        }
        if settings.mistake == .ignoresDoor { state.door = DoorCounts() }
        if now >= shut.lowerBound, settings.mistake != .doesNotForgive {
            state.doorShutSince = Instant(microseconds: shut.lowerBound)
            state.doorShutAt = Instant(microseconds: min(now, shut.upperBound))
        }
        return state
    }

    mutating func scan(_ worker: Int, _ now: Int64) {
        var next = now + Self.scanSeconds * Self.second + Int64(worker)
        defer { events.plan(.scan(worker: worker), at: next) }
        guard downUntil[worker] <= now, !outage.contains(now), watchClock(worker, now) else { return }
        var state = pipeline(now)
        state.clockJump = clockJump
        let time = Instant(microseconds: clock(now))
        let policy = policy
        guard !state.isBehindEverywhere(at: time, settings.policy) else { return }
        var claims: [(phone: Int, claim: Int64)] = []
        var looked = 0
        while let (dueAt, phone) = index.first, dueAt <= time.microseconds, looked < 2000 {
            index.removeFirst()
            // An old entry: the row has moved on.
            guard var schedule = phones[phone].schedule, schedule.dueAt == dueAt else { continue }
            looked += 1
            if settings.mistake == .doesNotCountStrikes { schedule.unanswered = 0 }
            if settings.mistake == .losesUsers, phone.isMultiple(of: 50) { continue }
            // As the store does it: device tokens are read of those alone who need them.
            var facts = phones[phone].facts(schedule)
            if facts.needTokens(state, policy, now: time) {
                facts.tokens = phones[phone].tokens()
                if settings.mistake == .keepsDeadTokens { facts.tokens = [phones[phone].token(0)] }
                report.tokensRead += 1
            }
            let decision = WakeDecision(facts, state, policy, now: time)
            var row = decision.schedule
            if decision.settlesClaim {
                report.settled += 1
                finish(phone, schedule.lastWakeAt, .unknown)
            }
            switch decision.action {
            case .wake(let tokens):
                if Set(tokens.map(\.hash)).count != tokens.count { report.fault("each token once") }
                row.open(at: time, leaseSeconds: Self.leaseSeconds)
                claims.append((phone, row.claim))
                phones[phone].sends.append(.init(wakeAt: now))
                if phones[phone].openWakeAt == 0 { phones[phone].openWakeAt = time.microseconds }
            case .wait(let until): row.dueAt = until.microseconds
            case .never: row.dueAt = WakeSchedule.never
            }
            // Also an entry that has the old time again is a new one.
            phones[phone].schedule = row
            index.add(phone, row.dueAt)
        }
        report.looks += looked
        if looked == 2000 { next = now + 1 }
        guard !claims.isEmpty else { return }
        var dies = Int.max
        if random.next() % 1000 < settings.killsPerThousand {
            // Somewhere between the first push and the last.
            dies = Int(random.next() % UInt64(claims.count + 1))
            report.kills += 1
            // The next one knows nothing of the clock.
            watches[worker] = ClockWatch()
            downUntil[worker] = now + Int64.random(in: 5...300, using: &random) * Self.second
        }
        for (place, claim) in claims.enumerated() where place <= dies {
            send(claim.phone, claim.claim, now, isLast: place == dies)
        }
    }

    /// With `isLast` the worker dies with this push on its way: its end reaches nobody.
    private mutating func send(_ phone: Int, _ claim: Int64, _ now: Int64, isLast: Bool) {
        // Of two phones the other one is still there.
        let isDead = phones[phone].diesAt <= now && phones[phone].hasLastToken
        var outcome = Phone.Outcome.accepted
        let chance = random.next() % 1000
        if isDead || chance < 5 { outcome = .notSpent } else if chance < 8 { outcome = .unknown }
        // Some that are unknown did arrive.
        if outcome == .accepted || (outcome == .unknown && chance % 2 == 0) {
            let delay = Int64.random(in: 1...600, using: &random) * Self.second
            var copy = random
            if willAnswer(phone, now + delay, &copy) { events.plan(.answer(phone: phone), at: now + delay) }
            random = copy
        }
        guard !isLast else { return }
        // Few take longer than the lease.
        let late = random.next() % 500 == 0
        let latency =
            late ? Int64(Self.leaseSeconds + 90) * Self.second : Int64.random(in: 20_000...3_000_000, using: &random)
        events.plan(.conclude(phone: phone, claim: claim, wakeAt: now, outcome), at: now + latency)
    }

    mutating func conclude(_ phone: Int, _ claim: Int64, _ wakeAt: Int64, _ outcome: Phone.Outcome, at now: Int64) {
        guard var schedule = phones[phone].schedule else { return }
        let isAnswered = phones[phone].sends.last { $0.wakeAt == wakeAt }.map { $0.answeredAt != 0 } ?? false
        let conclusion: WakeSchedule.Conclusion
        switch outcome {
        case .accepted: conclusion = .accepted(isAnswered: isAnswered)
        case .unknown: conclusion = .unknown
        case .notSpent:
            // A dead token is deactivated at once, else it is tried again a quarter of an hour later.
            let isDead = phones[phone].diesAt <= now && phones[phone].hasLastToken
            let pause = settings.mistake == .doesNotRetry ? 4 * Self.hour : 900 * Self.second
            conclusion = .notSpent(retryAt: Instant(microseconds: clock(isDead ? now : now + pause)))
        }
        guard schedule.conclude(conclusion, claim: claim, wakeAt: clock(wakeAt), by: settings.policy) else {
            report.lateEnds += 1
            return
        }
        finish(phone, clock(wakeAt), outcome)
        if let place = phones[phone].sends.lastIndex(where: { $0.wakeAt == wakeAt }) {
            phones[phone].sends[place].endedAt = now
        }
        if outcome == .notSpent, phones[phone].openWakeAt == clock(wakeAt) { phones[phone].openWakeAt = 0 }
        if phones[phone].diesAt <= wakeAt, outcome != .unknown { bury(phone, now) }
        write(phone, schedule)
    }

    /// The token is gone; the owner of the only one gets another one some days later.
    private mutating func bury(_ phone: Int, _ now: Int64) {
        report.tokensLost += 1
        let wasLast = phones[phone].hasLastToken
        phones[phone].isDeactivated = true
        phones[phone].diesAt = .max
        guard wasLast else { return }
        phones[phone].withoutToken = now..<Int64.max
        events.plan(.register(phone: phone), at: now + Int64.random(in: Self.day..<4 * Self.day, using: &random))
    }

    /// The wake is named by the database's clock.
    private mutating func finish(_ phone: Int, _ wakeAt: Int64, _ outcome: Phone.Outcome) {
        guard let place = phones[phone].sends.lastIndex(where: { clock($0.wakeAt) == wakeAt }) else { return }
        if phones[phone].sends[place].outcome != nil { report.fault("what was settled stays so") }
        phones[phone].sends[place].outcome = outcome
    }
}

import Domain
import Testing
import WakeRules

@Suite struct `Whether to wake` {
    private let user = UserID(high: 0x57a1_e000_0000_4000, low: 0x8000_0000_0000_0001)
    private let start = Instant(microseconds: 1_780_000_000_000_000)
    private var policy = WakePolicy(schedule: SendSchedule(.continuous))

    func at(hours: Double) -> Instant { start.advanced(bySeconds: Int(hours * 3600)) }

    func token(registered: Instant? = nil, sandbox: Bool = false, app: String = "com.example") -> WakeToken {
        WakeToken(
            user: user,
            hash: DeviceTokenHash(InlineArray(repeating: 1)),
            registration: DeviceRegistration(
                token: "t0ken",
                platform: .ios,
                environment: sandbox ? .sandbox : .production,
                appID: app,
                appVersion: "4.2"
            ),
            registered: Version(observedAt: nil, receivedAt: registered ?? start, event: EventID(high: 0, low: 0))
        )
    }

    func facts(
        pushed: Double? = 0,
        disconnected: Double? = nil,
        tokens: [WakeToken]? = nil,
        schedule: WakeSchedule = WakeSchedule(dueAt: 0)
    ) -> WakeFacts {
        let connections = pushed.map {
            [
                WakeFacts.Connection(
                    source: .appleHealth,
                    lastPushAt: at(hours: $0),
                    disconnectedAt: disconnected.map(at(hours:))
                )
            ]
        }
        return WakeFacts(
            user: user,
            bucket: 5,
            connections: connections ?? [],
            tokens: tokens ?? [token()],
            schedule: schedule
        )
    }

    func pipeline(_ now: Double, lag: Int = 10, door: DoorCounts = DoorCounts()) -> PipelineState {
        let applied = at(hours: now).advanced(bySeconds: -lag).microseconds
        return PipelineState(appliedThrough: [0: applied, 1: applied], counts: [2], door: door)
    }

    func decide(_ facts: WakeFacts, _ now: Double, _ state: PipelineState? = nil) -> WakeDecision {
        WakeDecision(facts, state ?? pipeline(now), policy, now: at(hours: now))
    }

    @Test func `W1: who is stale for 30 h is woken every 4 h, until three are unanswered (W2)`() {
        var schedule = WakeSchedule(dueAt: 0)
        var wakes: [Int] = []
        for minute in 0..<(96 * 60) {
            let now = at(hours: Double(minute) / 60)
            let decision = WakeDecision(
                facts(schedule: schedule),
                pipeline(Double(minute) / 60),
                policy,
                now: now
            )
            schedule = decision.schedule
            guard case .wake = decision.action else { continue }
            schedule.open(at: now, leaseSeconds: 60)
            let isConcluded = schedule.conclude(
                .accepted(isAnswered: false),
                claim: schedule.claim,
                wakeAt: now.microseconds,
                by: policy
            )
            #expect(isConcluded)
            wakes.append(minute)
        }
        #expect(wakes.map { $0 / 60 } == [4, 8, 12, 36, 60, 84])
    }

    @Test func `a push of a phone heals the count at once, even one that nobody has noted in the schedule`() {
        let schedule = WakeSchedule(dueAt: 0, lastWakeAt: at(hours: 12).microseconds, unanswered: 3)
        #expect(decide(facts(pushed: 0, schedule: schedule), 17).action == .wait(until: at(hours: 36)))
        guard case .wake = decide(facts(pushed: 13, schedule: schedule), 17).action else {
            Issue.record("not woken")
            return
        }
        // Pushed before the wake: no answer to it.
        #expect(decide(facts(pushed: 11.98, schedule: schedule), 17).action == .wait(until: at(hours: 36)))
    }

    @Test func `a push that another clock puts up to a minute before its wake answers it`() {
        let woken = at(hours: 12)
        let schedule = WakeSchedule(dueAt: 0, lastWakeAt: woken.microseconds, unanswered: 3)
        func unanswered(_ seconds: Int) -> Int {
            var answered = facts(schedule: schedule)
            answered.connections = [
                .init(
                    source: .appleHealth,
                    lastPushAt: woken.advanced(bySeconds: seconds),
                    disconnectedAt: nil
                )
            ]
            return decide(answered, 17).schedule.unanswered
        }
        #expect([-61, -60, -59, 0, 1].map(unanswered) == [3, 3, 0, 0, 0])
    }

    @Test func `a clock that was put back: wakes of the future count as of now, and their users are not left alone`() {
        func decide(_ schedule: WakeSchedule, _ hours: Double) -> WakeDecision {
            self.decide(facts(schedule: schedule), hours)
        }
        let future = WakeSchedule(
            dueAt: 0,
            lastWakeAt: at(hours: 500).microseconds,
            previousWakeAt: at(hours: 500).microseconds,
            struckAt: at(hours: 500).microseconds
        )
        let clamped = decide(future, 30)
        #expect(clamped.action == .wait(until: at(hours: 34)))
        #expect(clamped.schedule.lastWakeAt == at(hours: 30).microseconds)
        #expect(clamped.schedule.previousWakeAt == at(hours: 30).microseconds)
        #expect(clamped.schedule.struckAt == at(hours: 30).microseconds)
        guard case .wake = decide(clamped.schedule, 34).action else {
            Issue.record("left alone")
            return
        }
        // Five minutes are two clocks that differ.
        let near = WakeSchedule(dueAt: 0, lastWakeAt: at(hours: 30).advanced(bySeconds: 299).microseconds)
        #expect(decide(near, 30).schedule.lastWakeAt == near.lastWakeAt)
        // The name of an open claim stays; its lease ends in time.
        let claimed = WakeSchedule(
            dueAt: 0,
            lastWakeAt: at(hours: 500).microseconds,
            claim: 3,
            claimedUntil: at(hours: 501).microseconds
        )
        let open = decide(claimed, 30)
        #expect(open.action == .wait(until: at(hours: 30).advanced(bySeconds: 900)))
        #expect(open.schedule.lastWakeAt == claimed.lastWakeAt && open.schedule.isClaimed)
        let settled = decide(open.schedule, 30.25)
        #expect(settled.settlesClaim && settled.action == .wait(until: at(hours: 34.25)))
    }

    @Test func `a clock that went forward: wakes of before are not taken for older than they are`() {
        // At hour 10 the clock went on from hour 13.
        let jump = ClockJump(through: at(hours: 10), by: 3 * 3_600_000_000)
        func decide(_ hours: Double, woken: Double, unanswered: Int = 0) -> WakeDecision {
            var state = pipeline(hours)
            state.clockJump = jump
            let schedule = WakeSchedule(dueAt: 0, lastWakeAt: at(hours: woken).microseconds, unanswered: unanswered)
            return WakeDecision(facts(schedule: schedule), state, policy, now: at(hours: hours))
        }
        // Woken at hour 9, an hour before: that is hour 12 by the present clock.
        #expect(decide(14, woken: 9).action == .wait(until: at(hours: 16)))
        #expect(decide(14, woken: 9, unanswered: 3).action == .wait(until: at(hours: 36)))
        // Woken since.
        #expect(decide(16, woken: 13.5).action == .wait(until: at(hours: 17.5)))
        guard case .wake = decide(16, woken: 9).action else {
            Issue.record("four hours have passed")
            return
        }
    }

    @Test func `who has no device with a credential waits a spacing, others some minutes`() {
        func wait(_ codes: [(lane: String, code: String)]) -> Int {
            var state = pipeline(30)
            state.stops = codes.map { WakeStop(lane: $0.lane, topic: nil, code: $0.code, until: nil) }
            let decision = decide(facts(tokens: [token(), token(sandbox: true)]), 30, state)
            guard case .wait(let until) = decision.action, decision.heldBack == .sendable else { return -1 }
            return at(hours: 30).seconds(until: until)
        }
        let missing = wait([("apns_production", "not_configured"), ("apns_sandbox", "not_configured")])
        #expect((14_400...14_700).contains(missing), "\(missing)")
        let stopped = wait([("apns_production", "credential_refused"), ("apns_sandbox", "not_configured")])
        #expect((600...900).contains(stopped), "\(stopped)")
        #expect(wait([("apns_production", "not_configured")]) == -1)
    }

    @Test func `each condition that only an event can mend parks the user`() {
        #expect(decide(facts(pushed: nil), 30).action == .never)
        #expect(decide(facts(tokens: []), 30).action == .never)
        #expect(decide(facts(pushed: 0, disconnected: 1), 30).action == .never)
        #expect(decide(facts(pushed: 0, disconnected: 1), 30).reason == .connected)
        // A later push has connected again.
        #expect(decide(facts(pushed: 2, disconnected: 1), 5).action == .wait(until: at(hours: 6)))
    }

    @Test func `W10: while the workers lag nobody is woken, and nothing is counted`() {
        for lag in [299, 300] { #expect(decide(facts(), 30, pipeline(30, lag: lag)).heldBack == nil) }
        let woken = WakeSchedule(dueAt: 0, lastWakeAt: at(hours: 20).microseconds, unanswered: 1)
        let held = decide(facts(schedule: woken), 30, pipeline(30, lag: 301))
        #expect(held.heldBack == .applied && held.schedule.unanswered == 1)
        guard case .wait(let until) = held.action else {
            Issue.record("\(held.action)")
            return
        }
        #expect(until > at(hours: 30) && until <= at(hours: 30).advanced(bySeconds: 300))
    }

    @Test func `only the partitions that can hold the user's records count, of earlier counts too`() {
        var state = pipeline(30)
        state.appliedThrough[0] = 0
        // Bucket 5 of two partitions is partition 1.
        #expect(decide(facts(), 30, state).heldBack == nil)
        state.counts = [2, 1]
        #expect(decide(facts(), 30, state).heldBack == .applied)
        state.counts = [8]
        #expect(decide(facts(), 30, state).heldBack == .applied)
    }

    @Test func `W13: a door that refuses most requests holds back, few requests say nothing`() {
        func held(_ requests: Int, _ answered: Int) -> WakeCondition.Name? {
            decide(facts(), 30, pipeline(30, door: DoorCounts(requests: requests, answered: answered))).heldBack
        }
        #expect(held(19, 0) == nil)
        #expect(held(20, 9) == .door)
        #expect(held(20, 10) == nil)
        #expect(held(21, 10) == .door)
        #expect(held(0, 0) == nil)
    }

    @Test func `a wake behind which the door was shut is forgiven, an older one is not`() {
        let struck = thirdStrike(hours: 12)
        // The row itself comes up in time for it.
        #expect(struck.unanswered == 3 && struck.dueAt == at(hours: 16).microseconds)
        var state = pipeline(16)
        state.doorShutAt = at(hours: 13)
        let forgiven = decide(facts(schedule: struck), 16, state)
        #expect(forgiven.schedule.unanswered == 2)
        guard case .wake = forgiven.action else {
            Issue.record("\(forgiven.action)")
            return
        }
        for hours in [11.9, 16.1] {
            state.doorShutAt = at(hours: hours)
            let kept = decide(facts(schedule: struck), 16, state)
            #expect(kept.schedule.unanswered == 3 && kept.action == .wait(until: at(hours: 36)))
        }
    }

    /// The row as the third wake leaves it that is accepted and not answered.
    private func thirdStrike(hours: Double) -> WakeSchedule {
        var schedule = WakeSchedule(dueAt: 0, lastWakeAt: at(hours: hours - 4).microseconds, unanswered: 2)
        schedule.open(at: at(hours: hours), leaseSeconds: 60)
        let isConcluded = schedule.conclude(
            .accepted(isAnswered: false),
            claim: schedule.claim,
            wakeAt: at(hours: hours).microseconds,
            by: policy
        )
        #expect(isConcluded)
        return schedule
    }

    @Test func `a door that was shut for longer than the spacing forgives what was sent before and while it was shut`()
    {
        var state = pipeline(30)
        for minute in 0...(10 * 60) {
            let now = at(hours: 14).advanced(bySeconds: minute * 60)
            state.noteDoorShut(since: now, at: now)
        }
        #expect(state.doorShutSince == at(hours: 14) && state.doorShutAt == at(hours: 24))
        func left(_ hours: Double) -> Int {
            decide(facts(schedule: thirdStrike(hours: hours)), 30, state).schedule.unanswered
        }
        // Its four hours ended before, reach into it, lie within it, begin in it, begin behind it.
        #expect([9.9, 10.1, 18, 23.9, 24.1].map(left) == [3, 2, 2, 2, 3])
        // An opening in which no wake has all of its time is none; a longer one is.
        state.noteDoorShut(since: at(hours: 28), at: at(hours: 28.5))
        #expect(state.doorShutSince == at(hours: 14) && left(24) == 2)
        state.noteDoorShut(since: at(hours: 33), at: at(hours: 33))
        #expect(state.doorShutSince == at(hours: 33) && state.doorShutAt == at(hours: 33))
    }

    @Test func `no figure of the database's overflows`() {
        for extreme in [Int64.min, .max] {
            var schedule = WakeSchedule(
                dueAt: extreme,
                lastWakeAt: extreme,
                previousWakeAt: extreme,
                unanswered: Int(Int16.max),
                struckAt: extreme,
                claim: extreme,
                claimedUntil: extreme
            )
            var state = pipeline(30, door: DoorCounts(requests: .max, answered: Int(extreme)))
            state.doorShutAt = Instant(microseconds: extreme)
            state.doorShutSince = Instant(microseconds: extreme)
            state.noteDoorShut(since: at(hours: 30), at: at(hours: 30))
            state.clockJump = ClockJump(through: Instant(microseconds: extreme), by: extreme)
            var watch = ClockWatch()
            for clock in [0, extreme, 0] {
                _ = watch.look(Instant(microseconds: extreme), between: clock, and: extreme)
                _ = watch.time(at: extreme)
            }
            _ = decide(facts(schedule: schedule), 30, state)
            schedule.open(at: at(hours: 30), leaseSeconds: .max)
            schedule.settle(by: policy)
            #expect(schedule.claimedUntil == 0)
            _ = DoorCounts(requests: 20, answered: Int(extreme)).isShut
        }
    }

    @Test func `a pause, a stop of every token's lane, and clocks that disagree hold back`() {
        var paused = pipeline(30)
        paused.pausedAt = at(hours: 29)
        #expect(decide(facts(), 30, paused).heldBack == .running)
        var skewed = pipeline(30)
        skewed.clockSkewMilliseconds = -60_001
        #expect(decide(facts(), 30, skewed).heldBack == .clock)
        var unsteady = pipeline(30)
        unsteady.isClockSteady = false
        #expect(decide(facts(), 30, unsteady).heldBack == .clock)
        // These hold for everybody: nobody need be looked at.
        #expect(paused.heldBackForAll == .running && pipeline(30).heldBackForAll == nil)
        #expect(pipeline(30, door: DoorCounts(requests: 20, answered: 9)).heldBackForAll == .door)
        var stopped = pipeline(30)
        stopped.stops = [WakeStop(lane: "apns_production", topic: "com.example", code: "topic_refused", until: nil)]
        #expect(decide(facts(), 30, stopped).heldBack == .sendable)
        let other = token(sandbox: true)
        #expect(decide(facts(tokens: [token(), other]), 30, stopped).action == .wake([other]))
        stopped.stops = [WakeStop(lane: "apns_production", topic: nil, code: "paused", until: at(hours: 30))]
        #expect(decide(facts(), 30, stopped).heldBack == nil)
    }

    @Test
    func `a claim of somebody else's is waited for, and settled by time: it counts for the spacing, not as a strike`() {
        var schedule = WakeSchedule(dueAt: 0, unanswered: 1)
        schedule.open(at: at(hours: 10), leaseSeconds: 60)
        let number = schedule.claim
        let during = WakeDecision(facts(schedule: schedule), pipeline(10), policy, now: at(hours: 10))
        #expect(during.action == .wait(until: at(hours: 10).advanced(bySeconds: 60)) && !during.settlesClaim)
        let after = decide(facts(schedule: schedule), 10.1)
        #expect(after.settlesClaim && after.action == .wait(until: at(hours: 14)))
        #expect(after.schedule.unanswered == 1 && !after.schedule.isClaimed)
        var late = after.schedule
        let isAccepted = late.conclude(
            .accepted(isAnswered: false),
            claim: number,
            wakeAt: at(hours: 10).microseconds,
            by: policy
        )
        #expect(!isAccepted && late == after.schedule)
    }

    @Test func `W6, W12: what was not spent leaves no trace, what is unknown counts for the spacing alone`() {
        let before = WakeSchedule(dueAt: 0, lastWakeAt: at(hours: 4).microseconds, unanswered: 2, claim: 7)
        var refused = before
        refused.open(at: at(hours: 10), leaseSeconds: 60)
        let retry = at(hours: 10.25)
        let wakeAt = at(hours: 10).microseconds
        let isWritten = refused.conclude(.notSpent(retryAt: retry), claim: 8, wakeAt: wakeAt, by: policy)
        #expect(isWritten)
        #expect(refused.lastWakeAt == before.lastWakeAt && refused.unanswered == 2)
        #expect(refused.dueAt == retry.microseconds)
        var unknown = before
        unknown.open(at: at(hours: 10), leaseSeconds: 60)
        let isUnknown = unknown.conclude(.unknown, claim: 8, wakeAt: wakeAt, by: policy)
        #expect(isUnknown)
        #expect(unknown.lastWakeAt == at(hours: 10).microseconds && unknown.unanswered == 2)
        let isTwice = unknown.conclude(.unknown, claim: 8, wakeAt: wakeAt, by: policy)
        #expect(!isTwice)
    }

    @Test func `quiet hours are the user's, and what falls into them is passed on`() {
        var policy = WakePolicy(schedule: SendSchedule(.continuous))
        policy.quietHours = QuietHours("22:00-07:00")
        var night = facts()
        // 2026-05-28T20:26:40Z; in Athens it is 23:26.
        night.secondsFromUTC = 3 * 3600
        let now = start
        night.connections = [.init(source: .appleHealth, lastPushAt: at(hours: -30), disconnectedAt: nil)]
        let decision = WakeDecision(night, pipeline(0), policy, now: now)
        #expect(decision.reason == .quietHours)
        #expect(decision.action == .wait(until: Instant(rfc3339: "2026-05-29T04:00:00Z") ?? .earliest))
        night.secondsFromUTC = -5 * 3600
        guard case .wake = WakeDecision(night, pipeline(0), policy, now: now).action else {
            Issue.record("it is not night there")
            return
        }
    }

    @Test func `printing facts and decisions shows no token`() {
        let facts = facts()
        let shown = "\(facts) \(String(reflecting: facts)) \(decide(facts, 30))"
        #expect(!shown.contains("t0ken"))
    }
}

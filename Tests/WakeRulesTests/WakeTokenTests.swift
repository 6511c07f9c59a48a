import Domain
import ServiceRuntime
import Testing
import WakeRules

extension `Whether to wake` {
    /// Tokens are read of those alone who need them.
    @Test
    func `where no tokens are needed they change nothing; who is woken, or parked for want of one, needs them`() {
        var random = SplitMix64(seed: 4)
        func time() -> Int64 { random.next() % 4 == 0 ? 0 : at(hours: Double(random.next() % 72) / 2).microseconds }
        var counts = [0, 0]
        for _ in 0..<20_000 {
            var schedule = WakeSchedule(dueAt: 0, lastWakeAt: time(), previousWakeAt: time(), struckAt: time())
            schedule.unanswered = Int(random.next() % 5)
            if random.next() % 3 == 0 { schedule.claimedUntil = time() }
            var bare = facts(
                pushed: random.next() % 8 == 0 ? nil : Double(random.next() % 64) / 2,
                disconnected: random.next() % 4 == 0 ? Double(random.next() % 64) / 2 : nil,
                tokens: [],
                schedule: schedule
            )
            var policy = WakePolicy(schedule: SendSchedule(random.next() % 2 == 0 ? .continuous : .hourly(minute: 20)))
            if random.next() % 2 == 0 { policy.quietHours = QuietHours("22:00-07:00") }
            var state = pipeline(30, lag: random.next() % 4 == 0 ? 400 : 10)
            if random.next() % 4 == 0 { state.pausedAt = at(hours: 29) }
            if random.next() % 4 == 0 { state.doorShutAt = at(hours: Double(random.next() % 31)) }
            let without = WakeDecision(bare, state, policy, now: at(hours: 30))
            let needs = bare.needTokens(state, policy, now: at(hours: 30))
            bare.tokens = [token(registered: at(hours: Double(random.next() % 80))), token(sandbox: true)]
            bare.secondsFromUTC = Int(random.next() % 24) * 3600
            let with = WakeDecision(bare, state, policy, now: at(hours: 30))
            #expect(without.schedule == with.schedule && without.settlesClaim == with.settlesClaim)
            counts[needs ? 1 : 0] += 1
            if needs {
                #expect(without.action == .never && with.action != .never)
            } else {
                #expect(without.action == with.action && without.heldBack == nil && with.heldBack == nil)
                if case .wake = with.action { Issue.record("woken without a look at the tokens") }
            }
        }
        #expect(counts.allSatisfy { $0 > 2000 }, "\(counts)")
    }

    @Test func `who has pushed lately is waited for with a token or without, and is parked once stale`() {
        for tokens in [[], [token()]] {
            #expect(decide(facts(pushed: 28, tokens: tokens), 30).action == .wait(until: at(hours: 32)))
        }
        #expect(decide(facts(pushed: 28, tokens: []), 32).action == .never)
    }

    @Test func `W14: a new token makes a stale user due at once`() {
        let late = token(registered: at(hours: 500))
        let parked = WakeSchedule(dueAt: WakeSchedule.never, lastWakeAt: at(hours: 8).microseconds, unanswered: 1)
        let decision = decide(facts(tokens: [late], schedule: parked), 500)
        #expect(decision.action == .wake([late]))
    }
}

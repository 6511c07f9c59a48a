import Domain
import ServiceRuntime
import Storage
import TestSupport
import Testing
import WakeRules

/// The rows of the database beside the pure rows, which the simulation runs through weeks: both have to be the same
/// after every step.
@Suite struct `Wakes, row by row` {
    private struct Model {
        var lastPushAt: Int64
        var schedule: WakeSchedule
        var openWakeAt: Int64 = 0
        var sends: [(wakeAt: Int64, outcome: String?, answered: Bool)] = []

        mutating func push(_ time: Int64) {
            lastPushAt = max(lastPushAt, time)
            // A minute, as two clocks are in it.
            let answered = time + 60_000_000
            guard openWakeAt != 0, answered > openWakeAt else { return }
            var (struck, open) = (0, Int64(0))
            for place in sends.indices {
                let send = sends[place]
                guard !send.answered, send.outcome == nil || send.outcome == "accepted" || send.outcome == "unknown"
                else { continue }
                if send.wakeAt < answered {
                    sends[place].answered = true
                } else {
                    if send.outcome == "accepted" { struck += 1 }
                    if open == 0 { open = send.wakeAt }
                }
            }
            openWakeAt = open
            schedule.heal(pushedAt: time, struckSince: struck)
        }
    }

    private static let users = 12
    private let policy = WakePolicy(schedule: SendSchedule(.continuous))

    @Test(arguments: [1, 2, 3] as [UInt64]) func `random pushes, scans and ends in any order`(_ seed: UInt64) throws {
        let database = try WakesUnderTest()
        try database.add(0..<Self.users, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let store = try database.store()
        var random = SplitMix64(seed: seed)
        var models = (0..<Self.users).map { _ in
            Model(
                lastPushAt: database.at(hours: 0).microseconds,
                schedule: WakeSchedule(dueAt: database.at(hours: 4).microseconds)
            )
        }
        var open: [WakeClaim] = []
        var now = database.at(hours: 3)
        var (claimed, settled, refused) = (0, 0, 0)
        for step in 0..<250 {
            now = now.advanced(bySeconds: Int(random.next() % 2400) + 1)
            switch random.next() % 4 {
            case 0:
                // Applied late, some of them.
                let number = Int(random.next() % UInt64(Self.users))
                let time = now.advanced(bySeconds: -Int(random.next() % 3) * 1800)
                try database.push(number, time, steps: Int32(random.next() % 5 + 1))
                models[number].push(time.microseconds)
            case 1, 2:
                try database.setApplied(now)
                let round = try database.round(now)
                let scan = try store.scan(limit: 100, wakes: 100, round, now: now)
                claimed += scan.claims.count
                settled += scan.settled
                open += scan.claims
                for number in models.indices where models[number].schedule.dueAt <= now.microseconds {
                    let claim = scan.claims.first { $0.user == WakeUsers.user(number) }
                    scanModel(&models[number], number, database, round, now, claim)
                }
            default:
                guard !open.isEmpty else { continue }
                let claim = open.remove(at: Int(random.next() % UInt64(open.count)))
                let kinds: [(WakeEnd.Kind, String)] = [
                    (.accepted, "accepted"), (.accepted, "accepted"), (.unknown, "unknown"),
                    (.notSpent(retryAt: now.advanced(bySeconds: 900).microseconds), "refused"),
                ]
                let (kind, outcome) = kinds[Int(random.next() % 4)]
                let end = WakeEnd(claim: claim, kind: kind, outcome: outcome)
                let done = try store.conclude([end], policy, now: now)
                let isRefused = !concludeModel(&models, end, now)
                #expect(done.refused.isEmpty != isRefused, "step \(step)")
                refused += done.refused.count
            }
            for number in models.indices {
                #expect(
                    try database.schedule(number) == models[number].schedule,
                    "user \(number), step \(step), seed \(seed)"
                )
                #expect(try database.openWake(number) == models[number].openWakeAt, "user \(number), step \(step)")
            }
        }
        // It has to have met what it is about.
        #expect(claimed > 20 && settled > 3 && refused > 1, "\(claimed) \(settled) \(refused)")
        for number in models.indices {
            let wakes = try database.wakes(number).reversed()
            #expect(wakes.map(\.outcome) == models[number].sends.suffix(100).map(\.outcome))
            #expect(wakes.map { $0.answeredAt != nil } == models[number].sends.suffix(100).map(\.answered))
        }
    }

    private func scanModel(
        _ model: inout Model,
        _ number: Int,
        _ database: WakesUnderTest,
        _ round: WakeRound,
        _ now: Instant,
        _ claim: WakeClaim?
    ) {
        let facts = WakeFacts(
            user: WakeUsers.user(number),
            bucket: number,
            connections: [
                .init(
                    source: .appleHealth,
                    lastPushAt: Instant(microseconds: model.lastPushAt),
                    disconnectedAt: nil
                )
            ],
            tokens: [
                WakeToken(
                    user: WakeUsers.user(number),
                    hash: DeviceTokenHash(InlineArray(repeating: 0)),
                    registration: DeviceRegistration(token: "", platform: .ios),
                    registered: Version(
                        observedAt: nil,
                        receivedAt: database.at(hours: 0),
                        event: EventID(high: 0, low: 0)
                    )
                )
            ],
            schedule: model.schedule
        )
        let decision = WakeDecision(facts, round.pipeline, round.policy, now: now)
        if decision.settlesClaim, let place = model.sends.lastIndex(where: { $0.wakeAt == model.schedule.lastWakeAt }) {
            model.sends[place].outcome = "unknown"
        }
        var schedule = decision.schedule
        switch decision.action {
        case .wake:
            schedule.open(at: now, leaseSeconds: round.leaseSeconds)
            model.sends.append((now.microseconds, nil, false))
            if model.openWakeAt == 0 { model.openWakeAt = now.microseconds }
        case .wait(let until): schedule.dueAt = until.microseconds
        case .never: schedule.dueAt = WakeSchedule.never
        }
        #expect((claim != nil) == (schedule.lastWakeAt == now.microseconds && schedule.isClaimed))
        model.schedule = schedule
    }

    private func concludeModel(_ models: inout [Model], _ end: WakeEnd, _ now: Instant) -> Bool {
        guard let number = (0..<Self.users).first(where: { WakeUsers.user($0) == end.claim.user }),
            let place = models[number].sends.lastIndex(where: { $0.wakeAt == end.claim.wakeAt && $0.outcome == nil })
        else { return false }
        let conclusion: WakeSchedule.Conclusion =
            switch end.kind {
            case .accepted: .accepted(isAnswered: models[number].sends[place].answered)
            case .unknown, .waits: .unknown
            case .notSpent(let retryAt): .notSpent(retryAt: Instant(microseconds: retryAt))
            }
        let isWritten = models[number].schedule.conclude(
            conclusion,
            claim: end.claim.number,
            wakeAt: end.claim.wakeAt,
            by: policy
        )
        guard isWritten else { return false }
        models[number].sends[place].outcome = end.outcome
        if case .notSpent = end.kind, models[number].openWakeAt == end.claim.wakeAt { models[number].openWakeAt = 0 }
        return true
    }
}

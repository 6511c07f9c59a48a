import Aggregation
import Domain
import MessageContract
import Postgres
import Storage
import Synchronization
import TestSupport
import Testing
import WakeRules

/// Claims, answers and ends in real rows.
@Suite struct `Wakes on PostgreSQL` {
    private let policy = WakePolicy(schedule: SendSchedule(.continuous))

    @Test func `a scan claims who is due, moves on who is fresh, and parks who can't be woken`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<3, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        try database.add(3..<5, pushedAt: database.at(hours: 9), dueAt: database.at(hours: 4))
        try database.add(5..<6, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4), token: false)
        try database.add(6..<7, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 11))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let scan = try store.scan(limit: 100, wakes: 100, try database.round(now), now: now)
        #expect(scan.candidates == 6 && scan.postponed == 2 && scan.parked == 1 && scan.heldBack.isEmpty)
        #expect(Set(scan.claims.map(\.user)) == Set((0..<3).map(WakesUnderTest.user)))
        #expect(scan.claims.allSatisfy { $0.tokens.count == 1 && $0.tokens[0].registration.token.utf8.count == 64 })
        #expect(try database.schedule(3).dueAt == database.at(hours: 13).microseconds)
        #expect(try database.schedule(5).dueAt == WakeSchedule.never)
        #expect(try database.schedule(6).dueAt == database.at(hours: 11).microseconds)
        let claimed = try database.schedule(0)
        #expect(claimed.lastWakeAt == now.microseconds && claimed.isClaimed && claimed.claim == 1)
        #expect(try database.wakes(0).map(\.outcome) == [nil])
        #expect(try database.openWake(0) == now.microseconds)
        // At once again: there is nobody left.
        #expect(try store.scan(limit: 100, wakes: 100, try database.round(now), now: now).candidates == 0)
    }

    @Test func `more due than may be sent: the others stay due`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<10, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let scan = try store.scan(limit: 100, wakes: 4, try database.round(now), now: now)
        #expect(scan.claims.count == 4 && scan.overPace == 6)
        let rest = try store.scan(limit: 100, wakes: 100, try database.round(now), now: now)
        #expect(rest.claims.count == 6)
    }

    @Test func `W7: workers that scan at the same time claim each user once`() async throws {
        let database = try WakesUnderTest()
        try database.add(0..<600, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let round = try database.round(now)
        let claims = try await withThrowingTaskGroup(of: [UserID].self) { group in
            for _ in 0..<4 {
                let store = UnsafeOnce(try database.store())
                group.addTask {
                    var users: [UserID] = []
                    for _ in 0..<20 {
                        users += try store.value.scan(limit: 50, wakes: 50, round, now: now).claims.map(\.user)
                    }
                    return users
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(claims.count == 600 && Set(claims).count == 600)
    }

    @Test func `who is locked by a batch is passed over and not waited for`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<3, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let holder = try PostgresConnection(url: database.url, applicationName: "holder")
        try holder.simpleQuery(
            "BEGIN; SELECT FROM accounts WHERE user_id = '\(WakesUnderTest.user(1))' FOR NO KEY UPDATE"
        )
        let store = try database.store()
        let scan = try store.scan(limit: 100, wakes: 100, try database.round(now), now: now)
        #expect(Set(scan.claims.map(\.user)) == [WakesUnderTest.user(0), WakesUnderTest.user(2)])
        try holder.simpleQuery("COMMIT")
        #expect(try store.scan(limit: 100, wakes: 100, try database.round(now), now: now).claims.count == 1)
    }

    @Test func `W7: what a frozen worker writes after its lease is refused; the wake counts as unknown`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(database.at(hours: 10.1))
        let (frozen, other) = (try database.store(), try database.store())
        let claim = try #require(
            try frozen.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims.first
        )
        let later = now.advanced(bySeconds: 61)
        let scan = try other.scan(limit: 10, wakes: 10, try database.round(later, worker: 2), now: later)
        #expect(scan.settled == 1 && scan.claims.isEmpty && scan.candidates == 1)
        let settled = try database.schedule(0)
        let end = WakeEnd(claim: claim, kind: .accepted, outcome: "accepted")
        let late = try frozen.conclude([end], policy, now: later)
        #expect(late.written == 0 && late.refused == [claim])
        #expect(try database.schedule(0) == settled)
        #expect(settled.unanswered == 0 && settled.dueAt == now.advanced(bySeconds: 4 * 3600).microseconds)
        #expect(try database.wakes(0).map(\.outcome) == ["unknown"])
        // Not even one that says that nothing was sent makes the user due again.
        let unsent = WakeEnd(claim: claim, kind: .notSpent(retryAt: 0), outcome: "lease_ended")
        #expect(try frozen.conclude([unsent], policy, now: later).refused.count == 1)
    }

    @Test func `W3: the phone answers with unchanged days: answered, without new data, and the count heals (W2)`()
        throws
    {
        let database = try WakesUnderTest()
        try database.push(0, database.at(hours: 0))
        try database.add(1..<2, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        try database.connection.simpleQuery(
            """
            UPDATE device_tokens SET user_id = '\(WakesUnderTest.user(0))';
            UPDATE wake_schedule SET unanswered = 2, last_wake_at = \(database.at(hours: 2).microseconds) WHERE user_id = '\(WakesUnderTest.user(0))'
            """
        )
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
        #expect(claims.map(\.user) == [WakesUnderTest.user(0)])
        _ = try store.conclude(
            claims.map { WakeEnd(claim: $0, kind: .accepted, outcome: "accepted") },
            policy,
            now: now
        )
        #expect(try database.schedule(0).unanswered == 3)
        // Looked at behind the short spacing, and then moved on to the long one.
        let next = database.at(hours: 14)
        #expect(try database.schedule(0).dueAt == next.microseconds)
        let look = try store.look(at: WakesUnderTest.user(0), try database.round(next), now: next)
        #expect(look?.decision.action == .wait(until: database.at(hours: 34)))
        // Older than the wake, though it is applied after it.
        try database.push(0, database.at(hours: 9.9), steps: 11)
        #expect(try database.wakes(0).first?.answeredAt == nil)
        // W11: cloud data heals nothing.
        try database.push(0, database.at(hours: 10.1), from: .oura)
        #expect(try database.wakes(0).first?.answeredAt == nil && database.schedule(0).unanswered == 3)
        try database.push(0, database.at(hours: 10.2), steps: 11)
        let wake = try #require(try database.wakes(0).first)
        #expect(wake.answeredAt == database.at(hours: 10.2) && wake.broughtData == false)
        #expect(try database.schedule(0).unanswered == 0)
        #expect(try database.schedule(0).dueAt == next.microseconds)
        #expect(try database.openWake(0) == 0)
        try database.push(0, database.at(hours: 10.3), steps: 12)
        #expect(try database.wakes(0).first?.answeredAt == database.at(hours: 10.2))
        let campaign = try #require(try WakeReports(database.connection).campaigns(since: database.at(hours: 0)).first)
        #expect(campaign.sent == 1 && campaign.accepted == 1 && campaign.broughtData == 0)
        #expect(campaign.within10Minutes == 0 && campaign.within1Hour == 1 && campaign.appVersion == "4.2")
    }

    @Test func `two pushes that are applied together answer the wakes before each, and heal as the last one does`()
        throws
    {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let store = try database.store()
        for hours in [10.0, 20, 30] {
            let now = database.at(hours: hours)
            try database.setApplied(now)
            let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
            let end = WakeEnd(claim: try #require(claims.first), kind: .accepted, outcome: "accepted")
            #expect(try store.conclude([end], policy, now: now).written == 1)
        }
        #expect(try database.schedule(0).unanswered == 3)
        // Behind the first wake and behind the second; the third one stays open.
        let records = [21.0, 11].map { WakesUnderTest.days(of: 0, database.at(hours: $0)) }
        _ = try database.runner.run(records, fence: nil)
        #expect(
            try database.wakes(0).map(\.answeredAt) == [nil, database.at(hours: 21), database.at(hours: 11)]
        )
        let schedule = try database.schedule(0)
        #expect(schedule.unanswered == 1 && schedule.dueAt == database.at(hours: 25).microseconds)
        #expect(try database.openWake(0) == database.at(hours: 30).microseconds)
    }

    @Test func `a push that the door's clock puts less than a minute before its wake answers it, at the wake's time`()
        throws
    {
        for (seconds, isAnswer) in [(-61, false), (-59, true)] {
            let database = try WakesUnderTest()
            try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
            let now = database.at(hours: 10)
            try database.setApplied(now)
            let store = try database.store()
            let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
            let end = WakeEnd(claim: try #require(claims.first), kind: .accepted, outcome: "accepted")
            _ = try store.conclude([end], policy, now: now)
            try database.push(0, now.advanced(bySeconds: seconds))
            #expect(try database.wakes(0).map(\.answeredAt) == [isAnswer ? now : nil])
            #expect(try database.schedule(0).unanswered == (isAnswer ? 0 : 1))
            #expect(try database.openWake(0) == (isAnswer ? 0 : now.microseconds))
        }
    }

    @Test func `a round of sends counts as sent what a push server took up, and the rest apart`() throws {
        let database = try WakesUnderTest()
        let outcomes =
            WakeReports.unsentOutcomes + ["accepted", "unknown", "too_many_requests", "unregistered", "failed"]
        try database.add(0..<outcomes.count + 1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let claims = try store.scan(limit: 100, wakes: 100, try database.round(now), now: now).claims
        #expect(claims.count == outcomes.count + 1)
        // The last one is under way.
        let ends = zip(claims, outcomes).map { claim, outcome in
            WakeEnd(claim: claim, kind: outcome == "accepted" ? .accepted : .unknown, outcome: outcome)
        }
        _ = try store.conclude(ends, policy, now: now)
        let round = try #require(try WakeReports(database.connection).campaigns(since: database.at(hours: 0)).first)
        #expect(round.sent == 5 && round.accepted == 1 && round.notSent == WakeReports.unsentOutcomes.count)
    }

    @Test func `an answer that is faster than its wake's outcome is no strike, and new data is noted`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
        try database.push(0, database.at(hours: 10.001))
        _ = try store.conclude(
            claims.map { WakeEnd(claim: $0, kind: .accepted, outcome: "accepted") },
            policy,
            now: now
        )
        #expect(try database.schedule(0).unanswered == 0)
        let wake = try #require(try database.wakes(0).first)
        #expect(wake.answeredAt == database.at(hours: 10.001) && wake.broughtData == true && wake.outcome == "accepted")
    }

    @Test func `W6: what was refused leaves no strike and no wake; W12: what is unknown counts for the spacing`() throws
    {
        let database = try WakesUnderTest()
        try database.add(0..<2, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
        let retry = database.at(hours: 10.5)
        _ = try store.conclude(
            claims.map { claim in
                claim.user == WakesUnderTest.user(0)
                    ? WakeEnd(claim: claim, kind: .notSpent(retryAt: retry.microseconds), outcome: "refused")
                    : WakeEnd(claim: claim, kind: .unknown, outcome: "unknown")
            },
            policy,
            now: now
        )
        let (refused, unknown) = (try database.schedule(0), try database.schedule(1))
        #expect(refused.lastWakeAt == 0 && refused.unanswered == 0 && refused.dueAt == retry.microseconds)
        #expect(try database.openWake(0) == 0)
        #expect(unknown.lastWakeAt == now.microseconds && unknown.unanswered == 0)
        #expect(unknown.dueAt == database.at(hours: 14).microseconds)
        try database.setApplied(retry)
        let again = try store.scan(limit: 10, wakes: 10, try database.round(retry), now: retry)
        #expect(again.claims.map(\.user) == [WakesUnderTest.user(0)])
    }

    @Test func `W14: the last token dies; weeks later a new one is registered: due again at once`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
        try store.deactivate(claims.flatMap(\.tokens).map { ($0, now) })
        let dead = claims.map {
            WakeEnd(claim: $0, kind: .notSpent(retryAt: now.microseconds), outcome: "unregistered")
        }
        #expect(try store.conclude(dead, policy, now: now).written == 1)
        #expect(try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).parked == 1)
        #expect(try database.schedule(0).dueAt == WakeSchedule.never)

        let later = database.at(hours: 500)
        let registration = DeviceRegistration(token: "fresh", platform: .ios, appID: "com.example")
        let record = DecodedDevice(
            hash: DeviceTokenHash(InlineArray(repeating: 9)),
            record: DeviceRecord(user: WakesUnderTest.user(0), registration: registration),
            envelope: Envelope(event: EventID(high: 0, low: 0), receivedAt: later)
        )
        _ = try database.runner.run([record], fence: nil)
        try database.setApplied(later)
        let again = try store.scan(limit: 10, wakes: 10, try database.round(later), now: later)
        #expect(again.claims.map(\.user) == [WakesUnderTest.user(0)])
        #expect(again.claims.first?.tokens.map(\.registration.token) == ["fresh"])
    }

    @Test func `a deletion takes the records of wakes with it`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
        let envelope = Envelope(event: EventID(high: 0, low: 0), receivedAt: database.at(hours: 11))
        let deletion = DecodedAccount(user: WakesUnderTest.user(0), record: .delete, envelope: envelope)
        _ = try database.runner.run([deletion], fence: nil)
        #expect(try database.wakes(0).isEmpty)
        let end = WakeEnd(claim: try #require(claims.first), kind: .accepted, outcome: "accepted")
        #expect(try store.conclude([end], policy, now: now).refused.count == 1)
    }

    @Test func `a deletion that comes late takes the wakes of before it, and leaves those of after it`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let store = try database.store()
        for hours in [10.0, 20] {
            let now = database.at(hours: hours)
            try database.setApplied(now)
            let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
            let end = WakeEnd(claim: try #require(claims.first), kind: .accepted, outcome: "accepted")
            #expect(try store.conclude([end], policy, now: now).written == 1)
        }
        // Pushed since the deletion, which is applied late: the user stays on the schedule.
        try database.connection.simpleQuery(
            "UPDATE connections SET last_push_at = \(database.at(hours: 19).microseconds)"
        )
        #expect(try database.openWake(0) == database.at(hours: 10).microseconds)
        let envelope = Envelope(event: EventID(high: 0, low: 0), receivedAt: database.at(hours: 15))
        let deletion = DecodedAccount(user: WakesUnderTest.user(0), record: .delete, envelope: envelope)
        _ = try database.runner.run([deletion], fence: nil)
        #expect(try database.wakes(0).map(\.wakeAt) == [database.at(hours: 20)])
        #expect(try database.openWake(0) == database.at(hours: 20).microseconds)
    }

    @Test func `a device token that can't be read is passed over and counted, and all others are woken`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<3, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        try database.connection.simpleQuery(
            "UPDATE device_tokens SET environment = 'elsewhere' WHERE user_id = '\(WakesUnderTest.user(1))'"
        )
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let scan = try database.store().scan(limit: 10, wakes: 10, try database.round(now), now: now)
        #expect(scan.unreadable == 1 && scan.parked == 1)
        #expect(Set(scan.claims.map(\.user)) == [WakesUnderTest.user(0), WakesUnderTest.user(2)])
    }

    @Test func `the door's counts come from heartbeats, each minute once, whatever the number of partitions (W13)`()
        throws
    {
        let database = try WakesUnderTest(partitions: 2)
        let minute = database.at(hours: 10).microseconds / 60_000_000
        let owner = WakeUsers.user(1)
        for (number, partition) in [(0, Int32(0)), (1, 0), (0, 1)] {
            let fence = Fence(
                name: PartitionName(topic: WakesUnderTest.topic, partition: partition),
                owner: owner,
                epoch: 1,
                position: Int64(number),
                nextOffset: Int64(number) + 1,
                lastRecord: nil,
                appliedThrough: database.at(hours: 10).microseconds,
                brake: nil,
                brakedAt: nil,
                door: [DoorMinute(minute: minute, requests: 30, answered: number == 0 ? 0 : 25)]
            )
            guard case .applied = try database.runner.run([] as [DecodedDays], fence: fence) else {
                Issue.record("the fence did not hold")
                return
            }
        }
        let rows = try database.connection.executeUnprepared(
            "SELECT partition, requests::int8, answered::int8 FROM door_counts ORDER BY partition"
        )
        #expect(try rows.rowCount == 2 && rows.int8(0, 1) == 60 && rows.int8(0, 2) == 25 && rows.int8(1, 1) == 30)
        let store = try database.store()
        let present = try store.serverTime().microseconds / 60_000_000
        try database.connection.simpleQuery("UPDATE door_counts SET minute = \(present - 5)")
        #expect(
            try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.door == DoorCounts(requests: 60, answered: 25)
        )
        try database.connection.simpleQuery("UPDATE door_counts SET minute = \(present - 11)")
        #expect(try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.door == DoorCounts())
    }
}

/// Hands something that belongs to one thread over to another, once.
struct UnsafeOnce<Value>: @unchecked Sendable {
    // Only the task that got it uses it.
    let value: Value

    init(_ value: Value) {
        self.value = value
    }
}

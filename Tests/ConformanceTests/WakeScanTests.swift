import Domain
import Postgres
import Storage
import TestSupport
import Testing
import WakeRules

/// What a scan costs, what all workers share, and what the role may.
@Suite struct `Scans and what workers share` {
    private func pages(_ plan: [String]) -> Int {
        // The first line of buffers is the whole statement's.
        let line = plan.first { $0.contains("Buffers: shared") } ?? ""
        return line.split(separator: " ").compactMap { word -> Int? in
            guard word.hasPrefix("hit=") || word.hasPrefix("read=") else { return nil }
            return Int(word.drop { $0 != "=" }.dropFirst())
        }.reduce(0, +)
    }

    @Test func `a scan reads the pages that its candidates need, however many users there are`() throws {
        let database = try WakesUnderTest()
        let store = try database.store()
        let now = database.at(hours: 10)
        try database.add(0..<200, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        var costs: [Int] = []
        var users = 200
        for more in [1800, 38_000] {
            try database.add(users..<users + more, pushedAt: now, dueAt: database.at(hours: 14), token: false)
            users += more
            for table in ["wake_schedule", "accounts"] {
                try database.connection.simpleQuery("VACUUM ANALYZE \(table)")
            }
            // Once for the cache, once to count.
            _ = try store.explainScan(limit: 1000, now: now)
            let plan = try store.explainScan(limit: 1000, now: now)
            #expect(plan.contains { $0.contains("wake_schedule_due") }, "\(plan)")
            #expect(plan.contains { $0.contains("rows=200") }, "\(plan)")
            #expect(!plan.contains { $0.contains("Seq Scan") }, "\(plan)")
            costs.append(pages(plan))
        }
        // Twenty times as many users: a level more of the index at most.
        #expect(costs[0] > 0 && Double(costs[1]) <= Double(costs[0]) * 1.5, "\(costs)")
    }

    @Test func `of who has pushed lately no token is read: who has none is moved on, and parked once stale`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 9), dueAt: database.at(hours: 4), token: false)
        try database.add(1..<2, pushedAt: database.at(hours: 9), dueAt: database.at(hours: 4))
        try database.connection.simpleQuery("UPDATE device_tokens SET environment = 'elsewhere'")
        let store = try database.store()
        func scan(_ hours: Double) throws -> WakeScan {
            let now = database.at(hours: hours)
            try database.setApplied(now)
            return try store.scan(limit: 10, wakes: 10, try database.round(now), now: now)
        }
        let early = try scan(10)
        #expect(early.candidates == 2 && early.postponed == 2 && early.parked == 0 && early.unreadable == 0)
        for number in 0..<2 { #expect(try database.schedule(number).dueAt == database.at(hours: 13).microseconds) }
        // Whoever only looks reads them, and decides the same.
        let now = database.at(hours: 10)
        for number in 0..<2 {
            let look = try #require(
                try store.look(at: WakesUnderTest.user(number), try database.round(now), now: now)
            )
            #expect(look.decision.action == .wait(until: database.at(hours: 13)))
            #expect(look.decision.conditions.contains { $0.name == .token && !$0.holds })
        }
        let stale = try scan(13)
        #expect(stale.candidates == 2 && stale.parked == 2 && stale.unreadable == 1 && stale.claims.isEmpty)
        for number in 0..<2 { #expect(try database.schedule(number).dueAt == WakeSchedule.never) }
    }

    @Test func `rows of the schedule are read and written where the scan's index says, by the worker's role too`()
        throws
    {
        let database = try WakesUnderTest()
        try database.add(0..<20, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        try database.add(20..<40, pushedAt: database.at(hours: 9), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let round = try database.round(now)
        func scans() throws -> [Int64] {
            // What a session has done is counted once it has ended.
            let counts = try database.connection.executeUnprepared(
                """
                SELECT (SELECT sum(seq_scan)::int8 FROM pg_stat_user_tables WHERE relname = 'wake_schedule'),
                    (SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'wake_schedule_pkey'),
                    (SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'wake_schedule_due')
                """
            )
            return try (0..<3).map { try counts.int8(0, $0) }
        }
        try database.connection.simpleQuery("SELECT pg_stat_force_next_flush()")
        let before = try scans()
        let store = try database.store(role: "daybook_wake")
        let scan = try store.scan(limit: 100, wakes: 100, round, now: now)
        #expect(scan.claims.count == 20 && scan.postponed == 20)
        store.disconnect()
        try Eventually.holds("the scan is counted") { try scans()[2] > before[2] }
        let after = try scans()
        #expect(after[0] == before[0] && after[1] == before[1] && after[2] == before[2] + 1, "\(before) \(after)")
    }

    @Test func `a claim whose row was not met is not sent, nor is anything of its scan: time settles the rest`() throws
    {
        let database = try WakesUnderTest()
        try database.add(0..<3, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        // As if somebody had written the row who holds no lock of the account.
        try database.connection.simpleQuery(
            """
            CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
            CREATE TRIGGER lose BEFORE UPDATE ON wake_schedule FOR EACH ROW
            WHEN (OLD.user_id = '\(WakesUnderTest.user(1))') EXECUTE FUNCTION lose()
            """
        )
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store()
        #expect(throws: StorageError.self) {
            try store.scan(limit: 10, wakes: 10, try database.round(now), now: now)
        }
        try database.connection.simpleQuery("DROP TRIGGER lose ON wake_schedule")
        let later = now.advanced(bySeconds: 61)
        try database.setApplied(later)
        let scan = try store.scan(limit: 10, wakes: 10, try database.round(later), now: later)
        #expect(scan.settled == 2 && scan.claims.map(\.user) == [WakesUnderTest.user(1)])
    }

    @Test func `how long the door was shut, or nothing got in, is written down as a stretch that grows`() throws {
        let database = try WakesUnderTest(partitions: 1)
        let store = try database.store()
        func stretch() throws -> [Instant?] {
            let state = try store.shared(ownClock: 0, retentionSeconds: 1).pipeline
            return [state.doorShutSince, state.doorShutAt]
        }
        func note(applied: Double, _ hours: Double) throws {
            try database.setApplied(database.at(hours: applied))
            let state = try store.shared(ownClock: 0, retentionSeconds: 1).pipeline
            try store.noteNothingGetsIn(state, now: database.at(hours: hours))
        }
        #expect(try stretch() == [nil, nil])
        try note(applied: 10, 11)
        #expect(try stretch() == [database.at(hours: 10), database.at(hours: 11)])
        try note(applied: 10, 16)
        #expect(try stretch() == [database.at(hours: 10), database.at(hours: 16)])
        try note(applied: 19, 20)
        #expect(try stretch() == [database.at(hours: 10), database.at(hours: 20)])
        try note(applied: 25, 26)
        #expect(try stretch() == [database.at(hours: 25), database.at(hours: 26)])
    }

    @Test func `who only looks writes nothing: a new partition count and a shut door are seen all the same`() throws {
        let database = try WakesUnderTest(partitions: 2)
        try database.add(0..<3, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = try database.store().serverTime()
        let minute = now.microseconds / 60_000_000
        try database.connection.simpleQuery(
            "INSERT INTO door_counts VALUES ('\(WakesUnderTest.topic)', 0, \(minute % 16), \(minute), 100, 3)"
        )
        let settings = BatchStore.sessionSettings + [("default_transaction_read_only", "on")]
        let connection = try PostgresConnection(url: database.url, applicationName: "looks", settings: settings)
        let store = WakeStore(connection, topic: WakesUnderTest.topic) { _, _ in 0 }
        let shared = try store.shared(ownClock: 0, retentionSeconds: 1)
        #expect(shared.pipeline.counts == [2] && shared.pipeline.door.isShut)
        #expect(shared.pipeline.doorShutAt == shared.now && shared.pipeline.doorShutSince == shared.now)
        let round = WakeRound(
            policy: WakePolicy(schedule: SendSchedule(.continuous)),
            pipeline: shared.pipeline,
            leaseSeconds: 60,
            worker: UUID128(high: 0, low: 0)
        )
        #expect(try store.look(limit: 10, round, now: now).count == 3)
        #expect(try store.look(at: WakesUnderTest.user(0), round, now: now) != nil)
        _ = try WakeReports(connection).wakes(of: WakesUnderTest.user(0), limit: 10)
        #expect(throws: PostgresError.self) { try store.note(shared) }
        // A worker writes both down.
        let worker = try database.store()
        try worker.note(try worker.shared(ownClock: 0, retentionSeconds: 1))
        let rows = try database.connection.executeUnprepared(
            "SELECT door_shut_at > 0, (SELECT count(*) FROM partition_counts) FROM wake_control"
        )
        #expect(try rows.bool(0, 0) && rows.int8(0, 1) == 1)
    }

    @Test func `wakes can be paused whatever else can't be read, the row itself included`() throws {
        let database = try WakesUnderTest(partitions: 1)
        let store = try database.store()
        try database.connection.simpleQuery("DELETE FROM wake_control; ALTER TABLE consumer_offsets RENAME TO lost")
        #expect(throws: PostgresError.self) { try store.shared(ownClock: 0, retentionSeconds: 1) }
        let since = try store.pause()
        #expect(try store.pause() == since)
        try database.connection.simpleQuery("ALTER TABLE lost RENAME TO consumer_offsets")
        #expect(try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.pausedAt == since)
    }

    @Test func `a jump of the clock is written down once by all who saw it, added to, and taken back`() throws {
        let database = try WakesUnderTest(partitions: 1)
        let (store, other) = (try database.store(), try database.store())
        let policy = WakePolicy()
        func held() throws -> ClockJump? { try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.clockJump }
        let now = try store.serverTime()
        func ago(_ seconds: Int) -> Instant { now.advanced(bySeconds: -seconds) }
        #expect(try held() == nil)
        // An hour forward, seen by one after 2 and by the other after 5 seconds.
        try store.note(ClockJump(through: ago(18_000), by: 3_600_000_000), lastSeen: ago(18_002), policy)
        try other.note(ClockJump(through: ago(17_997), by: 3_600_000_000), lastSeen: ago(18_002), policy)
        #expect(try held() == ClockJump(through: ago(18_000), by: 3_600_000_000))
        // Two minutes more, three hours later: for what is older than the first, both.
        try other.note(ClockJump(through: ago(600), by: 120_000_000), lastSeen: ago(601), policy)
        #expect(try held() == ClockJump(through: ago(600), by: 3_720_000_000))
        try store.note(try store.shared(ownClock: 0, retentionSeconds: 1))
        #expect(try held() == ClockJump(through: ago(600), by: 3_720_000_000))
        // The clock is put back behind where that ended.
        for _ in 0..<2 {
            try store.note(ClockJump(through: ago(-7200), by: -7_200_000_000), lastSeen: ago(-7199), policy)
        }
        #expect(try held() == ClockJump(through: ago(600), by: 600_000_000))
        // A day later the next one stands alone.
        try database.connection.simpleQuery(
            "UPDATE wake_control SET clock_jumped_through = \(ago(90_000).microseconds)"
        )
        try store.note(ClockJump(through: ago(100), by: 90_000_000), lastSeen: ago(101), policy)
        #expect(try held() == ClockJump(through: ago(100), by: 90_000_000))
        // A century is the most. Back from there while nobody looked:
        try store.note(ClockJump(through: ago(5), by: .max), lastSeen: ago(6), policy)
        #expect(try held().map { $0.by < .max / 2 } == true)
        try store.note(try store.shared(ownClock: 0, retentionSeconds: 1))
        #expect(try held().map { $0.by < 60_000_000 } == true)
    }

    @Test func `a pause of a credential that has ended is no stop`() throws {
        let database = try WakesUnderTest(partitions: 1)
        let store = try database.store()
        let rows = ProviderTokenRows(database.connection)
        let now = try store.serverTime()
        try rows.pause(keyID: "KEY1234567", until: now.advanced(bySeconds: -1))
        #expect(try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.stops.isEmpty)
        try rows.pause(keyID: "KEY1234567", until: now.advanced(bySeconds: 600))
        #expect(try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.stops.count == 2)
    }

    @Test func `how far the workers are, earlier partition counts, pauses and stops are seen by all`() throws {
        let database = try WakesUnderTest(partitions: 2)
        let store = try database.store()
        let other = try database.store()
        let first = try store.shared(ownClock: 0, retentionSeconds: 30 * 86_400)
        #expect(first.pipeline.counts == [2] && first.pipeline.appliedThrough == [0: 0, 1: 0])
        #expect(first.pipeline.pausedAt == nil && first.pipeline.stops.isEmpty && first.resumes == 0)
        try store.note(first)
        try database.connection.simpleQuery(
            """
            INSERT INTO consumer_offsets (topic, partition, cluster_id, owner, epoch, next_offset, applied_through)
            SELECT topic, 3, cluster_id, owner, 1, 0, 7 FROM consumer_offsets WHERE partition = 0
            """
        )
        let doubled = try store.shared(ownClock: 0, retentionSeconds: 30 * 86_400)
        #expect(doubled.pipeline.counts == [4, 2])
        try store.note(doubled)
        let counts = try database.connection.executeUnprepared("SELECT count(*) FROM partition_counts")
        #expect(try counts.int8(0, 0) == 2)
        #expect(try other.shared(ownClock: 0, retentionSeconds: 30 * 86_400).pipeline.counts == [4, 2])

        let paused = try store.pause()
        #expect(try other.pause() == paused)
        let stop = WakeStop(lane: "apns_production", topic: "com.example", code: "topic_refused", until: nil)
        try store.addStop(stop, now: database.at(hours: 1))
        try store.addStop(stop, now: database.at(hours: 2))
        let seen = try other.shared(ownClock: 0, retentionSeconds: 1)
        #expect(seen.pipeline.pausedAt == paused && seen.pipeline.stops == [stop])
        #expect(try other.resume() == 1)
        let after = try store.shared(ownClock: 0, retentionSeconds: 1)
        #expect(after.pipeline.pausedAt == nil && after.pipeline.stops.isEmpty && after.resumes == 1)

        let tokens = ProviderTokenRows(database.connection)
        let end = try store.serverTime().advanced(bySeconds: 900)
        try tokens.pause(keyID: "K", until: end)
        try tokens.pause(keyID: "K", until: end.advanced(bySeconds: -60))
        let lanes = try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.stops
        #expect(lanes.map(\.lane) == ["apns_production", "apns_sandbox"])
        #expect(lanes.allSatisfy { $0.until == end })
    }

    @Test func `the rate is one for all workers`() throws {
        let database = try WakesUnderTest()
        let stores = [try database.store(), try database.store()]
        let now = database.at(hours: 1)
        #expect(try stores[0].takePace(80, perSecond: 100, now: now) == 80)
        #expect(try stores[1].takePace(80, perSecond: 100, now: now) == 20)
        #expect(try stores[0].takePace(80, perSecond: 100, now: now) == 0)
        _ = try stores[1].takePace(-15, perSecond: 100, now: now)
        #expect(try stores[0].takePace(80, perSecond: 100, now: now) == 15)
        #expect(try stores[1].takePace(500, perSecond: 100, now: now.advanced(bySeconds: 60)) == 100)
        #expect(try stores[1].takePace(500, perSecond: 0, now: now) == 500)
    }

    @Test func `W8: of two workers that renew a provider token one wins, and never within 20 minutes`() throws {
        let database = try WakesUnderTest()
        let one = ProviderTokenRows(database.connection)
        let two = ProviderTokenRows(try PostgresConnection(url: database.url, applicationName: "two"))
        let start = database.at(hours: 0)
        #expect(try one.row(keyID: "K") == ProviderTokenRow())
        #expect(try one.renew(keyID: "K", from: nil, jwt: "a", issuedAt: start).jwt == "a")
        #expect(try two.renew(keyID: "K", from: nil, jwt: "b", issuedAt: start.advanced(bySeconds: 1)).jwt == "a")
        let soon = start.advanced(bySeconds: 1199)
        #expect(try two.renew(keyID: "K", from: start, jwt: "b", issuedAt: soon).jwt == "a")
        let later = start.advanced(bySeconds: 2700)
        #expect(try two.renew(keyID: "K", from: start, jwt: "b", issuedAt: later).jwt == "b")
        #expect(try one.renew(keyID: "K", from: start, jwt: "c", issuedAt: later).jwt == "b")
        #expect(!"\(try one.row(keyID: "K"))".contains("jwt"))
    }

    @Test func `months of wakes are made ahead and dropped by age, never young ones`() throws {
        let database = try WakesUnderTest()
        let months = WakeMonths(database.connection)
        let old = CalendarDay(daysSinceEpoch: 19_000)
        try months.ensureAhead(of: old)
        let today = CalendarDay(daysSinceEpoch: 20_606)
        try database.connection.simpleQuery(
            """
            INSERT INTO push_sends (user_id, wake_at, campaign, claim, worker, tokens, platform, app_version)
            VALUES ('\(WakesUnderTest.user(1))', \(Int64(19_000) * 86_400_000_000), 0, 1, '\(WakesUnderTest.user(1))', 1,
                'ios', '')
            """
        )
        #expect(try months.drop(olderThan: 180, today: today) == 2)
        #expect(try database.wakes(1).isEmpty)
        // Asked to keep nothing it keeps what may still be answered.
        let now = try database.store().serverTime().day(secondsFromUTC: 0)
        try months.ensureAhead(of: now)
        _ = try months.drop(olderThan: 0, today: now.advanced(by: 40))
        let left = try database.connection.executeUnprepared(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass('push_sends')"
        )
        #expect(try left.int8(0, 0) == 2)
    }

    @Test func `the role of the wake worker can do its work, and sees nothing of what phones sent`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<2, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let store = try database.store(role: "daybook_wake")
        _ = try store.shared(ownClock: 0, retentionSeconds: 1)
        #expect(try store.takePace(10, perSecond: 100, now: now) == 10)
        let claims = try store.scan(limit: 10, wakes: 10, try database.round(now), now: now).claims
        #expect(claims.count == 2)
        let policy = WakePolicy(schedule: SendSchedule(.continuous))
        let ends = claims.map { WakeEnd(claim: $0, kind: .accepted, outcome: "accepted") }
        #expect(try store.conclude(ends, policy, now: now).written == 2)
        try store.deactivate(claims.flatMap(\.tokens).map { ($0, now) })
        try store.addStop(WakeStop(lane: "fcm", topic: nil, code: "x", until: nil), now: now)
        let settings = PostgresConnection.recommendedSettings + [("role", "daybook_wake")]
        let connection = try PostgresConnection(url: database.url, applicationName: "wake", settings: settings)
        try SchemaGate.check(connection, build: 2)
        try WakeMonths(connection).ensureAhead(of: WakesUnderTest.today)
        _ = try WakeMonths(connection).drop(olderThan: 180, today: WakesUnderTest.today)
        let stored = try ProviderTokenRows(connection).renew(
            keyID: "K",
            from: nil,
            jwt: "a",
            issuedAt: now,
            signer: "s"
        )
        #expect(stored.jwt == "a" && stored.signer == "s")
        _ = try WakeReports(connection).answers(now: now)
        for sql in [
            "SELECT * FROM source_days", "SELECT * FROM canonical_days", "SELECT recent_window FROM connections",
            "SELECT preferences FROM accounts", "UPDATE accounts SET deleted_version = 0", "DELETE FROM push_sends",
            "DELETE FROM device_tokens", "INSERT INTO accounts (user_id, bucket) VALUES (gen_random_uuid(), 1)",
            "UPDATE consumer_offsets SET next_offset = 0", "SELECT ensure_month('2026-07-01')",
        ] {
            do {
                try connection.simpleQuery(sql)
                Issue.record("may: \(sql)")
            } catch {
                #expect(error.sqlState == "42501", "\(sql)")
            }
        }
    }

    @Test func `the worker's role answers wakes and counts the door`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let now = database.at(hours: 10)
        try database.setApplied(now)
        _ = try database.store().scan(limit: 10, wakes: 10, try database.round(now), now: now)
        let settings =
            PostgresConnection.recommendedSettings + BatchStore.sessionSettings + [("role", "daybook_worker")]
        let worker = try PostgresConnection(url: database.url, applicationName: "worker", settings: settings)
        try worker.simpleQuery("BEGIN")
        try worker.simpleQuery("UPDATE push_sends SET answered_at = 1; DELETE FROM push_sends")
        try worker.simpleQuery(
            "INSERT INTO door_counts VALUES ('t', 0, 0, 0, 1, 1); UPDATE accounts SET open_wake_at = 0; ROLLBACK"
        )
    }
}

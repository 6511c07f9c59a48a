import Aggregation
import Domain
import Foundation
import MessageContract
import Postgres
import ServiceRuntime
import Storage
import Synchronization
import TestSupport
import Testing

/// The batch against a real PostgreSQL: what the pure merge promises has to hold once rows come and go.
@Suite struct `The batch on PostgreSQL` {
    private typealias Database = AggregationDatabase

    private let today = AggregationDatabase.today
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)

    @Test func `a day goes in, a later reading corrects it, an older one does not (A2, A3)`() throws {
        let database = try Database()
        try database.apply([record(alice, .appleHealth, minute: 60, [(0, [.steps: 129_000, .hrvSDNN: 511])])])
        try database.apply([record(alice, .appleHealth, minute: 10, [(0, [.steps: 31_000, .sleepMinutes: 4310])])])
        try database.apply([record(alice, .appleHealth, minute: 90, [(0, [.steps: 128_000])])])
        let days = try database.reads.canonicalDays(of: alice, today...today)
        #expect(days.count == 1)
        #expect(days.first?.day.values == [.steps: 128_000, .hrvSDNN: 511, .sleepMinutes: 4310])
        let rows = try database.reads.sourceRows(of: alice, today...today).first?.rows ?? []
        #expect(rows.count == 1)
        #expect(rows.first?.state.version(of: .sleepMinutes) != rows.first?.state.version(of: .steps))
        #expect(try database.drift(of: [alice]) == 0)
    }

    @Test func `every value of the ledger's ranges comes back exactly`() throws {
        let database = try Database()
        var generator = SplitMix64(seed: 5)
        var expected: [CalendarDay: MetricValues] = [:]
        var days: [(Int, MetricValues)] = []
        for offset in 0..<30 {
            var values = MetricValues()
            for metric in Metric.allCases {
                let range = MetricLedger[metric].tenths
                let tenths = Int32.random(in: range, using: &generator)
                values[metric] = MetricLedger[metric].isWhole ? tenths / 10 * 10 : tenths
                if offset == 0 { values[metric] = range.upperBound }
                if offset == 1 { values[metric] = range.lowerBound }
            }
            expected[today.advanced(by: -offset)] = values
            days.append((offset, values))
        }
        try database.apply([record(alice, .healthConnect, minute: 0, origin: "wätch \"1\" \\", days)])
        let stored = try database.reads.canonicalDays(of: alice, today.advanced(by: -30)...today)
        #expect(stored.count == 30)
        for day in stored {
            #expect(day.day.values == expected[day.key.day])
            #expect(day.day.winners.allSatisfy { $0.origin == "wätch \"1\" \\" })
        }
    }

    @Test func `an unchanged re-send moves the push and the versions, not the values (A15)`() throws {
        let database = try Database()
        let days: [(Int, MetricValues)] = (0..<15).map { ($0, [.steps: 80_000]) }
        try database.apply([record(alice, .appleHealth, minute: 0, days)])
        let before = try database.reads.connections(of: alice)
        let result = try database.apply([record(alice, .appleHealth, minute: 30, days)])
        guard case .applied(let counts) = result else { Issue.record("not applied"); return }
        #expect(counts.confirmed == 15 && counts.changed == 0)
        #expect(counts.sourceRowsWritten == 0 && counts.canonicalWritten == 0)
        let after = try database.reads.connections(of: alice)
        #expect(after.first?.lastPushAt == (before.first?.lastPushAt ?? 0) + 1_800_000_000)
        #expect(after.first?.lastDataAt == before.first?.lastDataAt)
    }

    @Test func `a record without days proves that the phone is awake`() throws {
        let database = try Database()
        try database.apply([record(alice, .appleHealth, minute: 0, [])])
        let connections = try database.reads.connections(of: alice)
        #expect(connections.count == 1 && connections.first?.lastDataAt == 0)
        #expect(try database.reads.canonicalDays(of: alice, today...today).isEmpty)
    }

    @Test func `two batches at once on one day make one row (A16)`() async throws {
        let database = try Database()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<4 {
                let url = database.url
                let records = (0..<25).map { round in
                    record(
                        alice,
                        .appleHealth,
                        minute: round * 4 + lane,
                        [(0, [.steps: Int32(round * 40 + lane) * 10])]
                    )
                }
                group.addTask {
                    let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
                    let connection = try PostgresConnection(url: url, applicationName: "lane", settings: settings)
                    let runner = BatchRunner(store: BatchStore(connection))
                    for record in records { _ = try runner.run([record], fence: nil) }
                }
            }
            try await group.waitForAll()
        }
        let rows = try database.reads.sourceRows(of: alice, today...today)
        #expect(rows.first?.rows.count == 1)
        #expect(rows.first?.rows.first?.state.values[.steps] == Int32(24 * 40 + 3) * 10)
        #expect(try database.drift(of: [alice]) == 0)
    }

    @Test func `a fence that is not as expected writes nothing (D2)`() throws {
        let database = try Database()
        let offsets = OffsetsStore(database.connection)
        let name = PartitionName(topic: "daybook.days.live.v1", partition: 3)
        let owner = UUID128(high: 1, low: 1)
        let claim = try offsets.claim(name, owner: owner, clusterID: "one")
        #expect(claim.isNew && claim.state.epoch == 1 && claim.state.nextOffset == 0)
        func fence(epoch: Int64, position: Int64, owner: UUID128 = owner) -> Fence {
            Fence(
                name: name,
                owner: owner,
                epoch: epoch,
                position: position,
                nextOffset: position + 5,
                lastRecord: 77,
                appliedThrough: 99,
                brake: nil,
                brakedAt: nil
            )
        }
        let days = [record(alice, .appleHealth, minute: 0, [(0, [.steps: 10])])]
        #expect(try database.apply(days, fence: fence(epoch: 2, position: 0)) == .fenceLost)
        #expect(try database.apply(days, fence: fence(epoch: 1, position: 4)) == .fenceLost)
        #expect(
            try database.apply(days, fence: fence(epoch: 1, position: 0, owner: UUID128(high: 2, low: 2))) == .fenceLost
        )
        #expect(try database.reads.canonicalDays(of: alice, today...today).isEmpty)
        guard case .applied = try database.apply(days, fence: fence(epoch: 1, position: 0)) else {
            Issue.record("the right fence was refused")
            return
        }
        #expect(try database.apply(days, fence: fence(epoch: 1, position: 0)) == .fenceLost)
        let other = PartitionName(topic: name.topic, partition: 4)
        #expect(try offsets.claim(other, owner: owner, clusterID: "one", startingAt: 40).state.nextOffset == 40)
        #expect(try offsets.claim(other, owner: owner, clusterID: "one", startingAt: 50).state.nextOffset == 40)
        let again = try offsets.claim(name, owner: UUID128(high: 9, low: 9), clusterID: "one")
        #expect(!again.isNew && again.state.epoch == 2 && again.state.nextOffset == 5 && again.state.lastRecord == 77)
        #expect(again.state.appliedThrough == 99)
        #expect(try database.apply(days, fence: fence(epoch: 1, position: 5)) == .fenceLost)
    }

    @Test func `a day of a month without partitions fails as that, and goes in once they are made (C22)`() throws {
        let database = try Database()
        let far = record(alice, .garmin, minute: 0, [(200, [.steps: 10])])
        do {
            try database.apply([far])
            Issue.record("there should be no partition")
        } catch let error as PostgresError {
            #expect(error.disposition == .missingPartition)
        }
        let other = try PostgresConnection(url: database.url, applicationName: "months")
        #expect(try MonthPartitions(other).ensure(containing: today.advanced(by: -200)))
        #expect(try !MonthPartitions(other).ensure(containing: today.advanced(by: -2000)))
        try database.apply([far])
        #expect(try database.reads.canonicalDays(of: alice, today.advanced(by: -200)...today).count == 1)
    }

    @Test func `retention drops whole months, raises the floor, and what comes back is suppressed (C24)`() throws {
        let database = try Database()
        for back in [100, 140, 180] {
            try MonthPartitions(database.connection).ensure(containing: today.advanced(by: -back))
        }
        let old = [(180, [.steps: 10] as MetricValues), (100, [.steps: 20]), (0, [.steps: 30])]
        try database.apply([record(alice, .garmin, minute: 0, old)])
        let maintenance = try PostgresConnection(url: database.url, applicationName: "retention")
        let outcome = try Retention(maintenance, databaseDate: today).enforce(days: 120, today: today)
        #expect(outcome.floor == today.advanced(by: -120).firstOfMonth)
        #expect(!outcome.dropped.isEmpty && outcome.dropped.count % 2 == 0)
        let left = try database.reads.canonicalDays(of: alice, today.advanced(by: -400)...today)
        #expect(left.map(\.key.day) == [100, 0].map { today.advanced(by: -$0) })
        let again = try database.apply([record(alice, .garmin, minute: 5, old)])
        guard case .applied(let counts) = again else { Issue.record("not applied"); return }
        #expect(counts.belowFloor == 1 && counts.confirmed == 2)
        // The floor never moves down.
        #expect(try Retention(maintenance, databaseDate: today).enforce(days: 400, today: today).floor == outcome.floor)
        #expect(try Retention(maintenance, databaseDate: today).enforce(days: 120, today: today).dropped.isEmpty)
        #expect(try database.drift(of: [alice]) == 0)
    }

    @Test func `days below the retention floor are suppressed and counted (C24)`() throws {
        let database = try Database()
        let result = try database.apply([record(alice, .garmin, minute: 0, [(2000, [.steps: 10]), (0, [.steps: 20])])])
        guard case .applied(let counts) = result else { Issue.record("not applied"); return }
        #expect(counts.belowFloor == 1 && counts.changed == 1)
    }

    @Test func `a late older reading does not win over what a re-send confirmed (the window)`() throws {
        let database = try Database()
        try database.apply([record(alice, .appleHealth, minute: 600, [(0, [.steps: 50])])])
        try database.apply([record(alice, .appleHealth, minute: 720, [(0, [.steps: 50])])])
        try database.apply([record(alice, .appleHealth, minute: 660, [(0, [.steps: 40])])])
        #expect(try database.reads.canonicalDays(of: alice, today...today).first?.day.values == [.steps: 50])
        let row = try database.reads.sourceRows(of: alice, today...today).first?.rows.first
        #expect(row?.state.version(of: .steps) == record(alice, .appleHealth, minute: 720, []).version)
    }

    /// Runs `body` while another session holds the account's lock, and `meanwhile` once a batch waits for it.
    private func behindTheLock(
        of user: UserID,
        on database: Database,
        meanwhile: (PostgresConnection) throws -> Void,
        _ body: @escaping @Sendable () throws -> Void
    ) throws {
        let holder = try PostgresConnection(url: database.url, applicationName: "holder")
        let other = try PostgresConnection(url: database.url, applicationName: "other")
        try holder.simpleQuery("BEGIN; SELECT FROM accounts WHERE user_id = '\(user)' FOR NO KEY UPDATE")
        // A thread of its own: the test's may be the only one of the pool.
        let outcome = Outcome()
        Thread.detachNewThread { outcome.result.withLock { $0 = Result { try body() } } }
        try Eventually.holds("the batch waits for the lock") {
            let waiting = try other.executeUnprepared(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return try waiting.int8(0, 0) > 0
        }
        try meanwhile(other)
        try holder.simpleQuery("COMMIT")
        try Eventually.holds("the batch is done") { outcome.result.withLock { $0 != nil } }
        try outcome.result.withLock { $0 }?.get()
    }

    private final class Outcome: Sendable {
        let result = Mutex<Result<Void, any Error>?>(nil)
    }

    @Test func `a rule version raised while a batch waits for a user counts for that batch (D6)`() throws {
        let database = try Database()
        try database.connection.simpleQuery("UPDATE control SET rule_version = 0")
        try database.apply([record(alice, .appleHealth, minute: 0, [(0, [.steps: 10])])])
        let later = record(alice, .appleHealth, minute: 1, [(0, [.steps: 20])])
        let url = database.url
        try behindTheLock(of: alice, on: database) { other in
            try other.simpleQuery("UPDATE control SET rule_version = 1")
        } _: {
            let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
            let connection = try PostgresConnection(url: url, applicationName: "waiting", settings: settings)
            _ = try BatchRunner(store: BatchStore(connection)).run([later], fence: nil)
        }
        #expect(try database.reads.canonicalDays(of: alice, today...today).first?.ruleVersion == 1)
    }

    @Test func `a database whose default is another isolation loses no update`() throws {
        let database = try Database()
        let name = try database.connection.executeUnprepared("SELECT current_database()::text").text(0, 0)
        try database.connection.simpleQuery(
            "ALTER DATABASE \"\(name)\" SET default_transaction_isolation = 'repeatable read'"
        )
        try database.apply([record(alice, .appleHealth, minute: 0, [(0, [.steps: 10])])])
        let later = record(alice, .oura, minute: 1, [(0, [.hrvRMSSD: 400])])
        let url = database.url
        try behindTheLock(of: alice, on: database) { other in
            // Under the lock that `holder` has: the row of another source.
            try other.simpleQuery(
                "SET default_transaction_isolation = 'read committed'; UPDATE source_days SET steps = 3"
            )
        } _: {
            let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
            let connection = try PostgresConnection(url: url, applicationName: "waiting", settings: settings)
            _ = try BatchRunner(store: BatchStore(connection)).run([later], fence: nil)
        }
        let day = try database.reads.canonicalDays(of: alice, today...today).first?.day
        #expect(day?.values == [.steps: 30, .hrvRMSSD: 400])
    }

    @Test func `the wake schedule has a row for every user with a phone, brought forward and never pushed back`() throws
    {
        let database = try Database()
        func due() throws -> [Int64] {
            let result = try database.connection.executeUnprepared("SELECT due_at FROM wake_schedule")
            return try (0..<result.rowCount).map { try result.int8($0, 0) }
        }
        let hour = { (hours: Int64) in 1_780_000_000_000_000 + hours * 3_600_000_000 }
        try database.apply([record(alice, .garmin, minute: 0, [(0, [.steps: 10])])])
        #expect(try due().isEmpty)
        try database.apply([record(alice, .appleHealth, minute: 120, [(0, [.steps: 10])])])
        #expect(try due() == [hour(6)])
        try database.apply([record(alice, .appleHealth, minute: 180, [(0, [.steps: 10])])])
        #expect(try due() == [hour(6)])
        try database.apply([record(alice, .healthConnect, minute: 60, [(0, [.steps: 10])])])
        #expect(try due() == [hour(5)])
        let received = Instant(microseconds: hour(10))
        let envelope = Envelope(event: EventID(high: 0, low: 0), receivedAt: received)
        _ = try database.runner.run([DecodedAccount(user: alice, record: .delete, envelope: envelope)], fence: nil)
        #expect(try due().isEmpty)
        #expect(try database.reads.connections(of: alice).isEmpty)
    }

    @Test func `the view for people shows values with their winners`() throws {
        let database = try Database()
        try database.apply([
            record(alice, .appleHealth, minute: 0, [(0, [.steps: 70_500, .water: 15_005])]),
            record(alice, .oura, minute: 1, origin: "ring", [(0, [.steps: 62_000, .restingHeartRate: 580])]),
        ])
        let result = try database.connection.executeUnprepared(
            "SELECT metric, value::text, source, origin FROM canonical_values ORDER BY metric"
        )
        let rows = try (0..<result.rowCount).map { row in
            try (0..<4).map { try result.text(row, $0) }.joined(separator: " ")
        }
        #expect(
            rows == [
                "resting_heart_rate_bpm 58 oura ring", "steps 7050 apple_health ", "water_ml 1500.5 apple_health ",
            ]
        )
    }

    @Test func `migrations run once, are checked, and notice an edited step`() throws {
        let database = try Database()
        let connection = try PostgresConnection(url: database.url, applicationName: "migrate")
        #expect(try Migrator(connection).migrate(today: today).isEmpty)
        try Migrator(connection).check()
        try SchemaGate.check(connection, build: 2)
        #expect(throws: SchemaGate.Refusal.self) { try SchemaGate.check(connection, build: 0) }
        try connection.simpleQuery("UPDATE schema_migrations SET checksum = checksum + 1")
        #expect(throws: Migrator.Failure.self) { try Migrator(connection).check() }
    }
}

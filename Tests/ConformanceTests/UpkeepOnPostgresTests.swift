import Aggregation
import Domain
import Foundation
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// What keeps the database in order beside the batches: months, the floor, prepared statements, the oldest build.
@Suite struct `The upkeep of the database` {
    private let today = AggregationDatabase.today
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)
    private var realToday: CalendarDay { CalendarDay(daysSinceEpoch: Int32(Date().timeIntervalSince1970 / 86_400)) }

    private func migrated(_ database: AggregationDatabase) throws -> PostgresConnection {
        let owner = try PostgresConnection(url: database.url, applicationName: "owner")
        // Whatever the day on which this runs.
        try owner.simpleQuery("UPDATE control SET retention_floor = '2025-01-01'")
        return owner
    }

    private func floor(_ connection: PostgresConnection) throws -> String {
        try connection.executeUnprepared("SELECT retention_floor::text FROM control").text(0, 0)
    }

    private func exists(_ table: String, _ connection: PostgresConnection) throws -> Bool {
        try connection.executeUnprepared("SELECT to_regclass('\(table)') IS NOT NULL").bool(0, 0)
    }

    @Test(arguments: ["postgres", "daybook_worker"])
    func `a month that was detached and not dropped is dropped by the next turn`(role: String) throws {
        let database = try AggregationDatabase()
        let owner = try migrated(database)
        for back in [0, 180, 200] { try MonthPartitions(owner).ensure(containing: today.advanced(by: -back)) }
        try database.apply([record(alice, .garmin, minute: 0, [(200, [.steps: 10]), (0, [.steps: 20])])])
        try owner.simpleQuery(
            """
            ALTER TABLE source_days DETACH PARTITION source_days_y2025m11;
            ALTER TABLE canonical_days DETACH PARTITION canonical_days_y2025m12;
            ALTER TABLE source_days DETACH PARTITION source_days_y2026m06;
            CREATE TABLE old_source_days_y2025m11 ();
            CREATE TABLE source_days_y2025m11_copy ()
            """
        )
        let settings = PostgresConnection.recommendedSettings + (role == "postgres" ? [] : [("role", role)])
        let worker = try PostgresConnection(url: database.url, applicationName: "retention", settings: settings)
        let retention = Retention(worker, databaseDate: today)
        let dropped = try retention.enforce(days: 100, today: today).dropped
        let months = ["y2025m11", "y2025m12"]
        #expect(dropped == months.map { "canonical_days_\($0)" } + months.map { "source_days_\($0)" })
        for name in dropped { #expect(try !exists(name, owner), "\(name)") }
        // Neither what lies above the floor nor what only looks alike.
        for name in ["source_days_y2026m06", "old_source_days_y2025m11", "source_days_y2025m11_copy"] {
            #expect(try exists(name, owner), "\(name)")
        }
        #expect(try retention.enforce(days: 100, today: today).dropped.isEmpty)
    }

    @Test func `where two clocks are more than a day apart nothing is dropped`() throws {
        let database = try AggregationDatabase()
        let owner = try migrated(database)
        try MonthPartitions(owner).ensure(containing: today.advanced(by: -200))
        for (here, there) in [(today.advanced(by: 365), today), (today, today.advanced(by: 2))] {
            #expect(throws: Retention.Failure.clocksApart(here: here, database: there)) {
                try Retention(owner, databaseDate: there).enforce(days: 100, today: here)
            }
        }
        // It is PostgreSQL's clock that is asked.
        let wrong = realToday.advanced(by: 365)
        #expect(throws: Retention.Failure.self) { try Retention(owner).enforce(days: 100, today: wrong) }
        #expect(try floor(owner) == "2025-01-01" && exists("source_days_y2025m11", owner))
    }

    @Test func `of two clocks that are a day apart the earlier one counts`() throws {
        let database = try AggregationDatabase()
        let owner = try migrated(database)
        let day = try #require(CalendarDay(year: 2026, month: 2, day: 1)).advanced(by: 119)
        for (here, there) in [(day.advanced(by: 1), day), (day, day.advanced(by: 1))] {
            _ = try Retention(owner, databaseDate: there).enforce(days: 120, today: here)
            #expect(try floor(owner) == "2026-01-01")
        }
    }

    @Test func `the first floor lies as far back as the setting says, and one that is there stays`() throws {
        let owner = try PostgresConnection(url: PrivatePostgres.freshDatabase(), applicationName: "owner")
        let today = realToday
        try Migrator(owner).migrate(today: today, retentionDays: 800)
        #expect(try floor(owner) == today.advanced(by: -800).firstOfMonth.description)
        #expect(try MonthPartitions(owner).ensure(containing: today.advanced(by: -790)))
        try Migrator(owner).migrate(today: today, retentionDays: 3000)
        #expect(try floor(owner) == today.advanced(by: -800).firstOfMonth.description)
    }

    @Test func `statements that could not all be prepared are prepared on the next try`() throws {
        let database = try AggregationDatabase()
        let settings =
            PostgresConnection.recommendedSettings + BatchStore.sessionSettings + [("lock_timeout", "200ms")]
        let store = BatchStore(try PostgresConnection(url: database.url, applicationName: "batch", settings: settings))
        let runner = BatchRunner(store: store)
        let blocker = try PostgresConnection(url: database.url, applicationName: "blocker")
        try blocker.simpleQuery("BEGIN; LOCK TABLE connections IN ACCESS EXCLUSIVE MODE")
        let day = record(alice, .appleHealth, minute: 0, [(0, [.steps: 10])])
        do {
            _ = try runner.run([day], fence: nil)
            Issue.record("prepared behind a lock")
        } catch let error as PostgresError {
            #expect(error.sqlState == "55P03" && error.disposition == .retry)
        }
        try blocker.simpleQuery("ROLLBACK")
        // As a lane does.
        if store.isBroken { try store.reconnect() }
        guard case .applied(let counts) = try runner.run([day], fence: nil) else {
            Issue.record("not applied")
            return
        }
        #expect(counts.changed == 1)
    }

    @Test func `a build that becomes too old while it runs writes nothing more`() throws {
        let database = try AggregationDatabase()
        let runner = BatchRunner(store: BatchStore(database.connection), build: 2)
        _ = try runner.run([record(alice, .appleHealth, minute: 0, [(0, [.steps: 10])])], fence: nil)
        let owner = try migrated(database)
        try owner.simpleQuery("UPDATE schema_migrations SET oldest_build = 3 WHERE version = 10")
        do {
            _ = try runner.run([record(alice, .appleHealth, minute: 1, [(0, [.steps: 20])])], fence: nil)
            Issue.record("written by a build that must not")
        } catch SchemaGate.Refusal.tooOld(let build, let oldest) {
            #expect(build == 2 && oldest == 3)
        }
        #expect(try database.reads.canonicalDays(of: alice, today...today).first?.day.values == [.steps: 10])
        // As is one that comes by a later step.
        try owner.simpleQuery(
            "INSERT INTO schema_migrations (version, name, checksum, oldest_build) VALUES (99, 'later', 0, 7)"
        )
        #expect(try owner.executeUnprepared("SELECT oldest_build FROM control").int4(0, 0) == 7)
    }

    @Test func `a session that takes no writes is found before a batch is tried`() throws {
        let database = try AggregationDatabase()
        try SchemaGate.checkWrites(database.connection)
        let settings = PostgresConnection.recommendedSettings + [("default_transaction_read_only", "on")]
        let standby = try PostgresConnection(url: database.url, applicationName: "standby", settings: settings)
        do {
            try SchemaGate.checkWrites(standby)
            Issue.record("taken for a primary")
        } catch {
            #expect(error.sqlState == "25006" && error.disposition == .unavailable)
        }
    }

    @Test func `lost records are counted through an offset, until it is another log (C10)`() throws {
        let database = try AggregationDatabase()
        let offsets = OffsetsStore(database.connection)
        let name = PartitionName(topic: "live", partition: 0)
        let (me, other) = (UUID128(high: 1, low: 1), UUID128(high: 1, low: 2))
        let first = try offsets.claim(name, owner: me, clusterID: "a", startingAt: 5)
        #expect(first.isNew && first.state.lostThrough == 0)
        #expect(try offsets.countLoss(name, owner: me, epoch: 1, of: 35, through: 40))
        #expect(try !offsets.countLoss(name, owner: other, epoch: 1, of: 35, through: 40))
        let again = try offsets.claim(name, owner: other, clusterID: "a")
        #expect(!again.isNew && again.state.nextOffset == 5 && again.state.lostThrough == 40)
        let lost = { try database.connection.executeUnprepared("SELECT lost_records FROM consumer_offsets").int8(0, 0) }
        #expect(try lost() == 35)
        #expect(try offsets.move(name, owner: other, epoch: 2, clusterID: "a", to: 40, keepsLoss: true))
        #expect(try offsets.look(name)?.lostThrough == 40)
        #expect(try offsets.move(name, owner: other, epoch: 2, clusterID: "b", to: 0, keepsLoss: false))
        #expect(try offsets.look(name)?.lostThrough == 0 && lost() == 35)
    }

    @Test(arguments: ["accounts", "account_sources", "connections", "device_tokens", "wake_schedule"])
    func `a table that grows with its users is vacuumed before a fifth of it is dead`(table: String) throws {
        let database = try AggregationDatabase()
        let options = try database.connection.executeUnprepared(
            "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = '\(table)'::regclass"
        ).text(0, 0)
        #expect(options.contains("autovacuum_vacuum_scale_factor=0.0"), "\(options)")
    }
}

import Aggregation
import DevelopmentStack
import Domain
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// Who may do what in the database, asked of a real PostgreSQL.
@Suite struct `Roles of the database` {
    private let today = CalendarDay(daysSinceEpoch: 20_606)
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)
    private let bob = UserID(high: 0xB0B0_0000_0000_4000, low: 0x8000_0000_0000_0002)
    private static let tables = ["accounts", "account_sources", "connections", "source_days", "canonical_days"]

    private func record(_ user: UserID, _ day: CalendarDay, _ steps: Int32) -> DecodedDays {
        let received = Instant(microseconds: 1_780_000_000_000_000)
        let version = Version(observedAt: nil, receivedAt: received, event: EventID(high: 0, low: 0))
        return DecodedDays(
            user: user,
            source: .appleHealth,
            origin: "",
            event: EventID(high: 0, low: 0),
            receivedAt: received,
            version: version,
            localDate: today,
            readings: [Reading(day: day, values: [.steps: steps], version: version, closed: false)]
        )
    }

    private func migrated() throws -> (url: String, owner: PostgresConnection) {
        let url = try PrivatePostgres.freshDatabase()
        let owner = try PostgresConnection(url: url, applicationName: "owner")
        try Migrator(owner).migrate(today: today)
        // Whatever the day on which this runs.
        try owner.simpleQuery("UPDATE control SET retention_floor = '2025-01-01'")
        try MonthPartitions(owner).ensureAhead(of: today)
        return (url, owner)
    }

    private func worker(_ url: String) throws -> PostgresConnection {
        let settings =
            PostgresConnection.recommendedSettings + BatchStore.sessionSettings + [("role", "daybook_worker")]
        return try PostgresConnection(url: url, applicationName: "worker", settings: settings)
    }

    private func count(_ connection: PostgresConnection, _ table: String) throws -> Int64 {
        try connection.executeUnprepared("SELECT count(*) FROM \(table)").int8(0, 0)
    }

    private func expectDenied(_ connection: PostgresConnection, _ sql: String) {
        do {
            try connection.simpleQuery(sql)
            Issue.record("may: \(sql)")
        } catch {
            #expect(error.sqlState == "42501", "\(sql)")
        }
    }

    @Test func `a reader sees one user's rows, none without a user, no partition, and writes nothing`() throws {
        let (url, owner) = try migrated()
        let runner = BatchRunner(store: BatchStore(owner))
        _ = try runner.run([record(alice, today, 10_000), record(bob, today, 20_000)], fence: nil)
        try owner.simpleQuery(
            "INSERT INTO account_sources SELECT user_id, 1, 0, 0 FROM accounts"
        )
        let reader = try PostgresConnection(url: url, applicationName: "reader")
        try reader.simpleQuery("SET ROLE daybook_reader")
        for table in Self.tables + ["canonical_values"] { #expect(try count(reader, table) == 0, "\(table)") }
        try reader.simpleQuery("SELECT set_config('daybook.user_id', '\(alice)', false)")
        for table in Self.tables + ["canonical_values"] { #expect(try count(reader, table) == 1, "\(table)") }
        let mine = try reader.executeUnprepared("SELECT user_id::text, value::text FROM canonical_values")
        #expect(try mine.text(0, 0) == alice.description && mine.text(0, 1) == "1000")
        try reader.simpleQuery("SELECT set_config('daybook.user_id', '', false)")
        for table in Self.tables { #expect(try count(reader, table) == 0, "\(table)") }
        try reader.simpleQuery("SELECT set_config('daybook.user_id', '\(alice)', false)")
        let month = "y2026m06"
        #expect(try count(owner, "source_days_\(month)") == 2)
        expectDenied(reader, "SELECT count(*) FROM source_days_\(month)")
        expectDenied(reader, "SELECT count(*) FROM canonical_days_\(month)")
        for table in Self.tables {
            expectDenied(reader, "UPDATE \(table) SET user_id = user_id")
            expectDenied(reader, "DELETE FROM \(table)")
        }
        expectDenied(reader, "INSERT INTO accounts (user_id, bucket) VALUES ('\(bob)', 1)")
        expectDenied(reader, "SELECT ensure_month('2026-07-01')")
        expectDenied(reader, "SELECT drop_month('source_days', '2026-06-01')")
        expectDenied(reader, "SELECT count(*) FROM consumer_offsets")
        expectDenied(reader, "SELECT count(*) FROM control")
    }

    @Test func `the reader's days are found by the key`() throws {
        let (url, owner) = try migrated()
        _ = try BatchRunner(store: BatchStore(owner)).run([record(alice, today, 10_000)], fence: nil)
        let settings = PostgresConnection.recommendedSettings + [("role", "daybook_reader"), ("enable_seqscan", "off")]
        let reader = try PostgresConnection(url: url, applicationName: "reader", settings: settings)
        try reader.simpleQuery("SELECT set_config('daybook.user_id', '\(alice)', false)")
        let plan = try reader.executeUnprepared(
            "EXPLAIN SELECT * FROM canonical_values WHERE day BETWEEN '2026-06-01' AND '2026-06-30'"
        )
        let lines = try (0..<plan.rowCount).map { try plan.text($0, 0) }
        // User and day both in the condition of the index.
        #expect(lines.contains { $0.contains("Index Cond: ((user_id = $0) AND (day >=") }, "\(lines)")
    }

    @Test func `a worker that owns nothing claims, makes and drops months, and runs batches`() throws {
        let (url, owner) = try migrated()
        let worker = try worker(url)
        try SchemaGate.check(worker, build: 2)
        let old = today.advanced(by: -200)
        #expect(try MonthPartitions(worker).ensure(containing: old))
        try MonthPartitions(worker).ensureAhead(of: today)
        let name = PartitionName(topic: "live", partition: 0)
        let me = UUID128(high: 1, low: 1)
        let claim = try OffsetsStore(worker).claim(name, owner: me, clusterID: "a")
        let fence = Fence(
            name: name,
            owner: me,
            epoch: claim.state.epoch,
            position: 0,
            nextOffset: 2,
            lastRecord: 1,
            appliedThrough: 1,
            brake: nil,
            brakedAt: nil
        )
        let runner = BatchRunner(store: BatchStore(worker))
        guard case .applied = try runner.run([record(alice, today, 10_000), record(bob, old, 20_000)], fence: fence)
        else {
            Issue.record("not applied")
            return
        }
        #expect(try count(owner, "source_days") == 2 && count(worker, "source_days") == 2)
        #expect(try DayReads(worker).tableHashes().sources == DayReads(owner).tableHashes().sources)
        let received = Instant(microseconds: 1_780_000_001_000_000)
        let change = DecodedAccount(
            user: alice,
            record: .delete,
            envelope: Envelope(event: EventID(high: 0, low: 0), receivedAt: received)
        )
        _ = try runner.run([change], fence: nil)
        #expect(try count(owner, "source_days") == 1)
        let kept = try Retention(worker, databaseDate: today).enforce(days: 100, today: today)
        #expect(kept.dropped.contains("source_days_y2025m11") && kept.dropped.contains("canonical_days_y2025m11"))
        #expect(try count(owner, "source_days") == 0)
        let gone = try owner.executeUnprepared("SELECT to_regclass('source_days_y2025m11') IS NULL")
        #expect(try gone.bool(0, 0))
        // The floor holds for whoever asks.
        #expect(try worker.executeUnprepared("SELECT drop_month('source_days', '\(today)')").bool(0, 0) == false)
        #expect(try worker.executeUnprepared("SELECT drop_month('accounts', '2025-01-01')").bool(0, 0) == false)
        #expect(try PositionKeeper(worker).move([name: 0], allowsSkip: false).map(\.epoch) == [2])
        for sql in [
            "DROP TABLE source_days", "UPDATE control SET rule_version = 2", "DELETE FROM accounts",
            "DELETE FROM consumer_offsets", "SELECT count(*) FROM source_days_y2026m06",
            "UPDATE schema_migrations SET checksum = 0", "SELECT grant_daybook_roles()",
            "ALTER TABLE accounts DISABLE ROW LEVEL SECURITY",
        ] {
            expectDenied(worker, sql)
        }
    }

    @Test func `an owner who may not make roles is told what to run, and it works then`() throws {
        let cluster = try PrivatePostgres.makeCluster()
        try cluster.start()
        defer { cluster.stop() }
        let url = try cluster.createDatabase(named: "plain")
        let admin = try PostgresConnection(url: url, applicationName: "admin")
        try admin.simpleQuery("CREATE ROLE plain NOLOGIN; ALTER DATABASE plain OWNER TO plain")
        let settings = PostgresConnection.recommendedSettings + [("role", "plain")]
        let owner = try PostgresConnection(url: url, applicationName: "owner", settings: settings)
        var warnings: [String] = []
        owner.noticeHandler = { if $0.severity == "WARNING" { warnings.append($0.message) } }
        try Migrator(owner).migrate(today: today)
        #expect(warnings.count == 3)
        #expect(warnings.first?.contains("CREATE ROLE daybook_reader NOLOGIN") == true, "\(warnings)")
        // The owner goes on without them.
        _ = try BatchRunner(store: BatchStore(owner)).run([record(alice, today, 10_000)], fence: nil)
        for role in ["daybook_reader", "daybook_worker", "daybook_wake"] {
            try admin.simpleQuery("CREATE ROLE \(role) NOLOGIN")
        }
        try owner.simpleQuery("SELECT grant_daybook_roles(); SELECT grant_daybook_roles()")
        #expect(try count(try worker(url), "source_days") == 1)
        let reader = try PostgresConnection(url: url, applicationName: "reader")
        try reader.simpleQuery("SET ROLE daybook_reader")
        #expect(try count(reader, "source_days") == 0)
        let wake = try PostgresConnection(url: url, applicationName: "wake")
        try wake.simpleQuery("SET ROLE daybook_wake")
        #expect(try count(wake, "wake_schedule") == 1)
        expectDenied(wake, "SELECT count(*) FROM source_days")
    }

    @Test func `positions move together or not at all, and forward only if told to`() throws {
        let (_, owner) = try migrated()
        let offsets = OffsetsStore(owner)
        let keeper = PositionKeeper(owner)
        let names = (0..<2).map { PartitionName(topic: "live", partition: $0) }
        for name in names {
            _ = try offsets.claim(name, owner: UUID128(high: 1, low: 1), clusterID: "a", startingAt: 50)
        }
        try owner.simpleQuery("UPDATE consumer_offsets SET last_record = 7")
        #expect(throws: PositionKeeper.Failure.wouldSkip(names[1], from: 50, to: 51)) {
            try keeper.move([names[0]: 10, names[1]: 51], allowsSkip: false)
        }
        let missing = PartitionName(topic: "live", partition: 9)
        #expect(throws: PositionKeeper.Failure.noPosition(missing)) {
            try keeper.move([names[0]: 10, missing: 0], allowsSkip: true)
        }
        #expect(try offsets.all().map(\.state.nextOffset) == [50, 50])
        #expect(try offsets.all().map(\.state.epoch) == [1, 1])
        let moves = try keeper.move([names[1]: 60, names[0]: 10], allowsSkip: true)
        #expect(
            moves == [
                .init(name: names[0], from: 50, to: 10, epoch: 2), .init(name: names[1], from: 50, to: 60, epoch: 2),
            ]
        )
        #expect(try offsets.look(names[0])?.lastRecord == nil)
        #expect(try offsets.look(names[0])?.nextOffset == 10)
    }

    @Test func `the brake is taken off where it is on`() throws {
        let (_, owner) = try migrated()
        let offsets = OffsetsStore(owner)
        let keeper = PositionKeeper(owner)
        let names = (0..<3).map { PartitionName(topic: "live", partition: $0) }
        for name in names { _ = try offsets.claim(name, owner: UUID128(high: 1, low: 1), clusterID: "a") }
        try owner.simpleQuery(
            "UPDATE consumer_offsets SET brake_recent = '\\x01', braked_at = 5 WHERE partition <> 1"
        )
        #expect(try keeper.release(names[1]).isEmpty)
        #expect(try keeper.release(names[2]).map(\.name) == [names[2]])
        #expect(try keeper.release().map(\.since) == [5])
        #expect(try offsets.all().allSatisfy { $0.state.brakedAt == nil && $0.state.brake == nil })
        #expect(try offsets.all().map(\.state.epoch) == [1, 1, 1])
    }

    @Test func `months that are missing are found`() throws {
        let (_, owner) = try migrated()
        #expect(try MonthPartitions(owner).missingAhead(of: today).isEmpty)
        try owner.simpleQuery("DROP TABLE canonical_days_y2026m07")
        #expect(try MonthPartitions(owner).missingAhead(of: today).map(\.description) == ["2026-07-01"])
        try Migrator(owner).migrate(today: today)
        #expect(try MonthPartitions(owner).missingAhead(of: today).isEmpty)
    }
}

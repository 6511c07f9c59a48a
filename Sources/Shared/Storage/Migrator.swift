public import Domain
public import Postgres

/// The schema, in numbered steps that only go forward.
///
/// Steps run one by one, each in its own transaction, under an advisory lock, so that several programs may start at
/// once. A step that was applied is never changed: its checksum is kept and compared.
public struct Migrator {
    public struct Migration: Sendable {
        public let version: Int32
        public let name: String
        /// The oldest build of a worker that may still run once this step is applied.
        public let oldestBuild: Int32
        fileprivate let sql: [UInt8]

        /// FNV-1a of the text, to notice a step that was edited after it was applied.
        var checksum: Int64 {
            var hash: UInt64 = 0xcbf2_9ce4_8422_2325
            for byte in sql { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
            return Int64(bitPattern: hash)
        }
    }

    public enum Failure: Error, CustomStringConvertible {
        case changed(version: Int32)
        case newerSchema(version: Int32, known: Int32)
        case behind(version: Int32, needed: Int32)

        public var description: String {
            switch self {
            case .changed(let version):
                "migration \(version) was applied with another text: this build is not the one that made the database; "
                    + "use that build, or restore the file"
            case .newerSchema(let version, let known):
                "the database is at migration \(version), this build knows \(known): run a build that is as new"
            case .behind(let version, let needed):
                "the database is at migration \(version), this build needs \(needed): run 'daybook migrate'"
            }
        }
    }

    public static let migrations: [Migration] = [
        Migration(version: 1, name: "days", oldestBuild: 1, sql: PackageResources.V0001_days_sql),
        Migration(version: 2, name: "roles", oldestBuild: 1, sql: PackageResources.V0002_roles_sql),
        Migration(version: 3, name: "wake_schedule", oldestBuild: 1, sql: PackageResources.V0003_wake_schedule_sql),
        Migration(version: 4, name: "device_tokens", oldestBuild: 1, sql: PackageResources.V0004_device_tokens_sql),
        Migration(version: 5, name: "window_format", oldestBuild: 2, sql: PackageResources.V0005_window_format_sql),
        Migration(version: 6, name: "wake", oldestBuild: 2, sql: PackageResources.V0006_wake_sql),
        Migration(version: 7, name: "operations", oldestBuild: 2, sql: PackageResources.V0007_operations_sql),
        Migration(version: 8, name: "wake_answers", oldestBuild: 2, sql: PackageResources.V0008_wake_answers_sql),
        Migration(version: 9, name: "wake_privileges", oldestBuild: 2, sql: PackageResources.V0009_wake_privileges_sql),
        Migration(version: 10, name: "upkeep", oldestBuild: 2, sql: PackageResources.V0010_upkeep_sql),
    ]

    /// The step that this build's statements are written for.
    public static var newest: Int32 { migrations.last?.version ?? 0 }

    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// The newest step that the database has; 0 for an empty one.
    public func appliedVersion() throws -> Int32 {
        try applied().last?.version ?? 0
    }

    /// Applies what is missing and makes the months' partitions that are needed soon.
    ///
    /// - Parameters:
    ///   - today: the date, of which the months are made.
    ///   - retentionDays: how many days are kept, where the tables are made by this call; nil for 400. A floor that is there
    ///     never goes down: what lies below it may have been dropped.
    /// - Returns: the steps applied.
    /// - Throws: `PostgresError` or `Failure`; the steps before stay applied.
    @discardableResult
    public func migrate(today: CalendarDay, retentionDays: Int? = nil) throws -> [Migration] {
        try connection.simpleQuery(
            """
            SELECT pg_advisory_lock(hashtextextended('daybook.migrations', 0));
            CREATE TABLE IF NOT EXISTS schema_migrations (
                version integer PRIMARY KEY,
                name text NOT NULL,
                checksum bigint NOT NULL,
                oldest_build integer NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT now()
            )
            """
        )
        defer {
            _ = try? connection.simpleQuery("SELECT pg_advisory_unlock(hashtextextended('daybook.migrations', 0))")
        }
        let missing = try pending()
        for migration in missing {
            try apply(migration) {
                if migration.version == 1, let retentionDays { try setFirstFloor(days: retentionDays, today) }
            }
        }
        try MonthPartitions(connection).ensureAhead(of: today)
        return missing
    }

    /// Throws where the database is behind, ahead, or was made by another text of a step.
    public func check() throws {
        let missing = try pending()
        if !missing.isEmpty { throw Failure.behind(version: try appliedVersion(), needed: Self.newest) }
    }

    /// What `migrate` would apply.
    public func pending() throws -> [Migration] {
        let applied = try applied()
        for step in applied {
            guard let known = Self.migrations.first(where: { $0.version == step.version }) else {
                throw Failure.newerSchema(version: step.version, known: Self.newest)
            }
            if known.checksum != step.checksum { throw Failure.changed(version: step.version) }
        }
        return Self.migrations.filter { migration in !applied.contains { $0.version == migration.version } }
    }

    private func applied() throws -> [(version: Int32, checksum: Int64)] {
        let exists = try connection.executeUnprepared("SELECT to_regclass('schema_migrations') IS NOT NULL")
        guard try exists.bool(0, 0) else { return [] }
        let result = try connection.executeUnprepared(
            "SELECT version, checksum FROM schema_migrations ORDER BY version"
        )
        return try (0..<result.rowCount).map { (try result.int4($0, 0), try result.int8($0, 1)) }
    }

    /// Nothing was dropped yet, so the floor may lie as low as the setting says.
    private func setFirstFloor(days: Int, _ today: CalendarDay) throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.append(date: today.daysSinceEpoch)
        parameters.append(int4: Int32(clamping: days))
        try connection.executeUnprepared(
            """
            UPDATE control SET retention_floor =
                date_trunc('month', least($1::date, (now() AT TIME ZONE 'UTC')::date) - $2::int4)::date
            """,
            parameters
        )
    }

    /// `more` is done in the step's transaction.
    private func apply(_ migration: Migration, _ more: () throws -> Void) throws {
        try connection.simpleQuery("BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '30s'")
        do {
            try connection.simpleQuery(String(decoding: migration.sql, as: UTF8.self))
            try more()
            var parameters = PostgresParameters()
            parameters.append(int4: migration.version)
            parameters.append(text: migration.name)
            parameters.append(int8: migration.checksum)
            parameters.append(int4: migration.oldestBuild)
            try connection.executeUnprepared(
                """
                INSERT INTO schema_migrations (version, name, checksum, oldest_build)
                VALUES ($1::int4, $2::text, $3::int8, $4::int4)
                """,
                parameters
            )
            try connection.simpleQuery("COMMIT")
        } catch {
            _ = try? connection.simpleQuery("ROLLBACK")
            throw error
        }
    }
}

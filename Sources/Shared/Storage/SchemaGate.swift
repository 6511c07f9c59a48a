internal import Domain
public import Postgres

/// Whether a worker may write to this database: it refuses a schema that asks for a newer build, and a rule version
/// or a window format that it does not know, and says which.
public enum SchemaGate {
    public enum Refusal: Error, CustomStringConvertible {
        case notMigrated
        case tooOld(build: Int32, oldestAllowed: Int32)
        case unknownRules(active: Int32, known: Int32)
        case unknownWindow(format: Int16, known: Int16)

        /// Waiting helps: somebody is about to run the migrations.
        public var isCuredByMigrating: Bool {
            if case .notMigrated = self { return true }
            return false
        }

        public var description: String {
            switch self {
            case .notMigrated:
                "the database has no schema, or an older one: run 'daybook migrate'"
            case .tooOld(let build, let oldest):
                "the schema allows builds from \(oldest) on, this is build \(build): deploy a newer worker"
            case .unknownRules(let active, let known):
                "rule version \(active) is active, this build knows up to \(known): deploy a newer worker"
            case .unknownWindow(let format, let known):
                "windows are written in format \(format), this build knows up to \(known): deploy a newer worker"
            }
        }
    }

    /// The newest window format that this build reads.
    public static let windowFormat = Int16(Window.newestFormat)

    public static func check(_ connection: PostgresConnection, build: Int32) throws {
        let exists = try connection.executeUnprepared(
            "SELECT to_regclass('schema_migrations') IS NOT NULL AND to_regclass('control') IS NOT NULL"
        )
        guard try exists.bool(0, 0) else { throw Refusal.notMigrated }
        let result = try connection.executeUnprepared(
            """
            SELECT max(version), max(oldest_build), (SELECT rule_version FROM control),
                (SELECT window_format FROM control)
            FROM schema_migrations
            """
        )
        guard result.rowCount == 1, try !result.isNull(0, 0), try !result.isNull(0, 2) else {
            throw Refusal.notMigrated
        }
        if try result.int4(0, 0) < Migrator.newest { throw Refusal.notMigrated }
        let oldest = try result.int4(0, 1)
        try check(rules: try result.int4(0, 2), window: try result.int2(0, 3), oldestBuild: oldest, build: build)
    }

    /// Also asked by every batch, since all of it may be raised while a worker runs.
    public static func check(rules: Int32, window: Int16, oldestBuild: Int32, build: Int32) throws(Refusal) {
        if build < oldestBuild { throw .tooOld(build: build, oldestAllowed: oldestBuild) }
        try check(rules: rules, window: window)
    }

    /// The part of it for those who read, or have asked for the rest.
    public static func check(rules: Int32, window: Int16) throws(Refusal) {
        if rules > MetricLedger.ruleVersion {
            throw .unknownRules(active: rules, known: MetricLedger.ruleVersion)
        }
        if window > windowFormat { throw .unknownWindow(format: window, known: windowFormat) }
    }
}

extension SchemaGate {
    /// For whoever is there to write: a standby, or a server that was demoted, answers everything else.
    ///
    /// - Throws: `PostgresError`, as a write would (25006), where the session takes none.
    public static func checkWrites(_ connection: PostgresConnection) throws(PostgresError) {
        let isReadOnly = try connection.executeUnprepared("SELECT current_setting('transaction_read_only') = 'on'")
        guard try isReadOnly.bool(0, 0) else { return }
        throw PostgresError(
            sqlState: "25006",
            message: "the database takes no writes; check that this is the primary, and default_transaction_read_only"
        )
    }

    /// For tools that compute by the rules and write through no batch.
    ///
    /// - Throws: `Refusal` where this build does not know the active rules.
    public static func checkRules(_ connection: PostgresConnection) throws {
        let control = try connection.executeUnprepared("SELECT rule_version FROM control")
        guard control.rowCount == 1 else { throw Refusal.notMigrated }
        try check(rules: try control.int4(0, 0), window: 0)
    }
}

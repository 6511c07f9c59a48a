public import Postgres

/// What an operator wants to know of the database at a glance.
public struct DatabaseHealth: Hashable, Sendable {
    /// Sessions of this database, this one included.
    public let sessions: Int
    /// Sessions that wait for a lock.
    public let waiting: Int
    /// Of the oldest transaction that is open, in seconds; sees only those that this role may see.
    public let oldestTransaction: Int
    public let bytes: Int64
    /// The active rules.
    public let rules: Int
    /// Users who can be woken some time.
    public let wakesScheduled: Int
    /// Of these, whose time has come.
    public let wakesDue: Int

    /// Counts stop here, so that a look stays cheap.
    public static let countLimit = 100_000

    public init(
        sessions: Int,
        waiting: Int,
        oldestTransaction: Int,
        bytes: Int64,
        rules: Int,
        wakesScheduled: Int,
        wakesDue: Int
    ) {
        self.sessions = sessions
        self.waiting = waiting
        self.oldestTransaction = oldestTransaction
        self.bytes = bytes
        self.rules = rules
        self.wakesScheduled = wakesScheduled
        self.wakesDue = wakesDue
    }

    /// `now` is in microseconds since 1970.
    public static func read(_ connection: PostgresConnection, now: Int64) throws(PostgresError) -> DatabaseHealth {
        var parameters = PostgresParameters()
        parameters.append(int8: now)
        parameters.append(int8: Int64(countLimit))
        let result = try connection.executeUnprepared(
            """
            SELECT
                (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
                (SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'),
                (SELECT COALESCE(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::int8
                    FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()),
                pg_database_size(current_database()),
                (SELECT rule_version FROM control)::int8,
                (SELECT count(*) FROM (SELECT FROM wake_schedule LIMIT $2::int8) AS scheduled),
                (SELECT count(*) FROM (
                    SELECT FROM wake_schedule WHERE due_at <= $1::int8 LIMIT $2::int8) AS due)
            """,
            parameters
        )
        return DatabaseHealth(
            sessions: Int(try result.int8(0, 0)),
            waiting: Int(try result.int8(0, 1)),
            oldestTransaction: Int(max(0, try result.int8(0, 2))),
            bytes: try result.int8(0, 3),
            rules: Int(try result.isNull(0, 4) ? 0 : try result.int8(0, 4)),
            wakesScheduled: Int(try result.int8(0, 5)),
            wakesDue: Int(try result.int8(0, 6))
        )
    }
}

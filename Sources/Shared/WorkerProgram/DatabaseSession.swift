public import Configuration
public import Postgres

/// A session as every worker has it: with the time-outs by which a frozen owner of locks loses them.
public enum DatabaseSession {
    /// - Parameters:
    ///   - database: where it is, and the time-outs.
    ///   - name: the session's in PostgreSQL, behind `daybook-`: the program and what it is for.
    ///   - more: settings of the session besides.
    /// - Returns: an open connection.
    /// - Throws: `PostgresError`.
    public static func open(
        _ database: DatabaseConfiguration,
        name: String,
        _ more: [(String, String)] = []
    ) throws(PostgresError) -> PostgresConnection {
        let settings: [(String, String)] = [
            ("statement_timeout", "\(database.statementTimeoutMilliseconds)"),
            ("lock_timeout", "\(database.lockTimeoutMilliseconds)"),
            ("idle_in_transaction_session_timeout", "\(database.idleTransactionTimeoutMilliseconds)"),
            ("tcp_user_timeout", "\(database.tcpUserTimeoutMilliseconds)"),
            ("tcp_keepalives_idle", "10"), ("tcp_keepalives_interval", "5"), ("tcp_keepalives_count", "3"),
            ("TimeZone", "UTC"),
        ]
        let connection = try PostgresConnection(
            url: database.url.reveal(),
            applicationName: "daybook-\(name)",
            settings: settings + more,
            connectTimeout: .milliseconds(database.connectTimeoutMilliseconds)
        )
        // A server that is frozen rather than gone says nothing even when its own time-outs have passed.
        connection.silenceLimit = .milliseconds(database.statementTimeoutMilliseconds + 5000)
        return connection
    }
}

internal import Configuration
internal import Postgres
internal import Storage

/// A session as every worker has it: with the time-outs by which a frozen owner of locks loses them.
enum DatabaseSession {
    static func open(_ database: DatabaseConfiguration, name: String) throws(PostgresError) -> PostgresConnection {
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
            applicationName: "daybook-wake \(name)",
            settings: settings + BatchStore.sessionSettings,
            connectTimeout: .milliseconds(database.connectTimeoutMilliseconds)
        )
        connection.silenceLimit = .milliseconds(database.statementTimeoutMilliseconds + 5000)
        return connection
    }
}

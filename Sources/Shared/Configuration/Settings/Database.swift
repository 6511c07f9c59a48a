extension Settings {
    public enum Database {
        public static let url = Setting(
            "DAYBOOK_DATABASE_URL",
            .databaseURL,
            .required,
            for: [.aggregator, .wake, .tool],
            "PostgreSQL, as a libpq URL; any libpq option may stand in it (sslmode, sslrootcert, …)."
        )
        public static let connectTimeout = Setting(
            "DAYBOOK_DATABASE_CONNECT_TIMEOUT_MS",
            .integer(100...60_000, "ms"),
            .defaults(to: "5000"),
            for: [.aggregator, .wake, .tool],
            "How long making a connection may take."
        )
        public static let statementTimeout = Setting(
            "DAYBOOK_DATABASE_STATEMENT_TIMEOUT_MS",
            .integer(100...600_000, "ms"),
            .defaults(to: "30000"),
            for: [.aggregator, .wake],
            "The longest that one statement may run; the batch is retried."
        )
        public static let lockTimeout = Setting(
            "DAYBOOK_DATABASE_LOCK_TIMEOUT_MS",
            .integer(100...600_000, "ms"),
            .defaults(to: "5000"),
            for: [.aggregator, .wake],
            "The longest that a statement waits for a lock; the batch is retried."
        )
        public static let idleTransactionTimeout = Setting(
            "DAYBOOK_DATABASE_IDLE_TRANSACTION_TIMEOUT_MS",
            .integer(1000...600_000, "ms"),
            .defaults(to: "10000"),
            for: [.aggregator, .wake],
            "How long a frozen worker may hold its locks before PostgreSQL ends its session."
        )
        public static let tcpUserTimeout = Setting(
            "DAYBOOK_DATABASE_TCP_USER_TIMEOUT_MS",
            .integer(1000...600_000, "ms"),
            .defaults(to: "10000"),
            for: [.aggregator, .wake],
            "How long sent data may stay unacknowledged before the connection counts as lost."
        )

        static let all = [
            url.description, connectTimeout.description, statementTimeout.description, lockTimeout.description,
            idleTransactionTimeout.description, tcpUserTimeout.description,
        ]
    }
}

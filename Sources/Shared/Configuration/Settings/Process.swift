extension Settings {
    /// What every program has: logs, and how it ends.
    public enum Process {
        public static let configurationFile = Setting(
            "DAYBOOK_CONFIG_FILE",
            .text("a path", longest: 4096),
            .optional,
            for: Program.allCases,
            "A file of KEY=VALUE lines with more settings; what the environment sets wins."
        )
        public static let logLevel = Setting(
            "DAYBOOK_LOG_LEVEL",
            .choice(placeholder: LogVerbosity.info),
            .defaults(to: "info"),
            for: Program.allCases,
            "The lowest level that is logged, as JSON lines on standard error."
        )
        public static let adminAddress = Setting(
            "DAYBOOK_ADMIN_ADDRESS",
            .address,
            .defaultsPerProgram([
                .ingest: "127.0.0.1:8081", .aggregator: "127.0.0.1:8082", .wake: "127.0.0.1:8087",
            ]),
            for: [.ingest, .aggregator, .wake],
            "Where /livez, /readyz and /metrics are served; keep it off the public network."
        )
        public static let drainDelay = Setting(
            "DAYBOOK_DRAIN_DELAY_MS",
            .integer(0...120_000, "ms"),
            .defaults(to: "0"),
            for: [.ingest],
            "After SIGTERM, how long to go on serving while /readyz already says no: the time that a load balancer"
                + " needs to notice. A part of the grace period."
        )
        public static let gracePeriod = Setting(
            "DAYBOOK_GRACE_PERIOD_MS",
            .integer(100...600_000, "ms"),
            // The aggregator's: less than the 15 s in which it has promised to end.
            .defaultsPerProgram([.ingest: "15000", .aggregator: "12000", .wake: "15000"]),
            for: [.ingest, .aggregator, .wake],
            "How long an orderly end may take before the process ends itself by force."
        )

        static let all = [
            configurationFile.description, logLevel.description, adminAddress.description, drainDelay.description,
            gracePeriod.description,
        ]
    }
}

/// The levels of the log, as in the setting.
public enum LogVerbosity: String, CaseIterable, Sendable {
    case debug
    case info
    case warning
    case error
}

extension Settings {
    public enum Aggregator {
        public static let consumerGroup = Setting(
            "DAYBOOK_CONSUMER_GROUP",
            .name("a name without spaces", longest: 200),
            .defaults(to: "daybook-aggregator"),
            for: [.aggregator, .tool],
            "The consumer group that shares the partitions out among workers."
        )
        public static let consumerInstance = Setting(
            "DAYBOOK_CONSUMER_INSTANCE",
            .name("a name without spaces", longest: 100),
            .optional,
            for: [.aggregator],
            "A name that this process keeps over restarts and shares with no other (static membership): it gets its"
                + " partitions back without a rebalance if it returns within DAYBOOK_SESSION_TIMEOUT_MS. Until then"
                + " nobody else reads them, after a clean stop too."
        )
        public static let workerLanes = Setting(
            "DAYBOOK_WORKER_LANES",
            .integer(1...256),
            .derived("one per processor"),
            for: [.aggregator],
            "How many lanes work on live partitions, with one thread and one database connection each."
        )
        public static let historyLanes = Setting(
            "DAYBOOK_HISTORY_LANES",
            .integer(1...64),
            .defaults(to: "1"),
            for: [.aggregator],
            "How many further lanes work on the history partitions, so that back-fills can't delay today."
        )
        public static let batchDays = Setting(
            "DAYBOOK_BATCH_DAYS",
            .integer(1...100_000, "days"),
            .defaults(to: "2000"),
            for: [.aggregator],
            "About how many days one transaction holds."
        )
        public static let batchRecords = Setting(
            "DAYBOOK_BATCH_RECORDS",
            .integer(1...100_000, "records"),
            .defaults(to: "2000"),
            for: [.aggregator],
            "How many records one transaction holds at most."
        )
        public static let batchBytes = Setting(
            "DAYBOOK_BATCH_BYTES",
            .integer(65_536...268_435_456, "bytes"),
            .defaults(to: "8388608"),
            for: [.aggregator],
            "About how many bytes of records one transaction holds; a longer record is taken alone."
        )
        public static let batchWait = Setting(
            "DAYBOOK_BATCH_WAIT_MS",
            .integer(0...10_000, "ms"),
            .defaults(to: "5"),
            for: [.aggregator],
            "How long a batch that is not full waits for more records."
        )
        public static let bufferBytes = Setting(
            "DAYBOOK_BUFFER_BYTES",
            .integer(16_777_216...17_179_869_184, "bytes"),
            .defaults(to: "134217728"),
            for: [.aggregator],
            "The memory for records that were fetched and are not applied yet, in the whole process: half of it for what"
                + " lanes hold, half for what is fetched ahead, of which a partition has at least 128 KiB."
        )
        public static let sessionTimeout = Setting(
            "DAYBOOK_SESSION_TIMEOUT_MS",
            .integer(6000...300_000, "ms"),
            .defaults(to: "10000"),
            for: [.aggregator],
            "How long a silent worker keeps its partitions."
        )
        public static let maxPollInterval = Setting(
            "DAYBOOK_MAX_POLL_INTERVAL_MS",
            .integer(10_000...3_600_000, "ms"),
            .defaults(to: "300000"),
            for: [.aggregator],
            "How long a worker that is alive but does not poll keeps its partitions."
        )
        public static let lostLogPolicy = Setting(
            "DAYBOOK_LOST_LOG_POLICY",
            .choice(placeholder: LostLogPolicy.stop),
            .defaults(to: "stop"),
            for: [.aggregator],
            "What to do when records were deleted from the log before they were applied: stop the partition and say"
                + " so, or resume at the log's start. The loss is recorded either way."
        )
        public static let brakeShare = Setting(
            "DAYBOOK_BRAKE_SHARE_PERCENT",
            .integer(1...100, "%"),
            .defaults(to: "20"),
            for: [.aggregator],
            "A partition stops when more than this share of its window's records are dead letters."
        )
        public static let brakeWindow = Setting(
            "DAYBOOK_BRAKE_WINDOW",
            .integer(10...100_000, "records"),
            .defaults(to: "1000"),
            for: [.aggregator],
            "How many records that share is taken over."
        )
        public static let brakeRun = Setting(
            "DAYBOOK_BRAKE_RUN",
            .integer(1...100_000, "records"),
            .defaults(to: "100"),
            for: [.aggregator],
            "A partition also stops after this many dead letters in a row."
        )
        public static let retentionDays = Setting(
            "DAYBOOK_RETENTION_DAYS",
            .integer(60...3650, "days"),
            .defaults(to: "400"),
            for: [.aggregator, .tool],
            "How many days are kept; whole months are dropped once all of their days are older."
        )

        static let all = [
            consumerGroup.description, consumerInstance.description, workerLanes.description, historyLanes.description,
            batchDays.description, batchRecords.description, batchBytes.description, batchWait.description,
            bufferBytes.description, sessionTimeout.description, maxPollInterval.description, lostLogPolicy.description,
            brakeShare.description,
            brakeWindow.description, brakeRun.description, retentionDays.description,
        ]
    }
}

/// What to do about records that the log lost before they were applied.
public enum LostLogPolicy: String, CaseIterable, Sendable {
    case stop
    case resume
}

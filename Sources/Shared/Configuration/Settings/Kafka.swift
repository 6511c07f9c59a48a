extension Settings {
    public enum Kafka {
        public static let brokers = Setting(
            "DAYBOOK_KAFKA_BROKERS",
            .brokers,
            .required,
            for: [.ingest, .aggregator, .tool],
            "The brokers to ask first."
        )
        public static let partitions = Setting(
            "DAYBOOK_KAFKA_PARTITIONS",
            Format<Int>.powerOfTwo(1...4096),
            .defaults(to: "32"),
            for: [.tool],
            "How many partitions `daybook migrate` gives the topics that are keyed by user. They can be doubled later."
        )
        public static let replication = Setting(
            "DAYBOOK_KAFKA_REPLICATION",
            .integer(1...15),
            .defaults(to: "3"),
            for: [.tool],
            "How many brokers hold each record, in topics that `daybook migrate` makes."
        )
        public static let topicPrefix = Setting(
            "DAYBOOK_TOPIC_PREFIX",
            .name("letters, digits, dots, dashes and underscores", longest: 100, alphabet: "._-"),
            .defaults(to: ""),
            for: Program.allCases,
            "Stands before the name of every topic, so that several installations can share a Kafka."
        )
        public static let allowWeakTopics = Setting(
            "DAYBOOK_ALLOW_WEAK_TOPICS",
            .boolean,
            .defaults(to: "false"),
            // Not the workers: what a topic loses, a worker that stands still can't keep.
            for: [.ingest, .tool],
            "Accept topics that could lose acknowledged records (one replica, unclean election). For development."
        )
        public static let developmentBroker = Setting(
            "DAYBOOK_DEVELOPMENT_BROKER",
            .boolean,
            .defaults(to: "false"),
            for: [.ingest, .aggregator, .tool],
            "The broker is `daybook broker`, whose append times are made up: clocks are not compared with them."
        )
        public static let clockTolerance = Setting(
            "DAYBOOK_CLOCK_TOLERANCE_MS",
            .integer(1000...60_000, "ms"),
            .defaults(to: "30000"),
            for: [.ingest],
            "How far this machine's clock may be from the brokers' append times before ingest takes itself out."
        )

        static let all = [
            brokers.description, partitions.description, replication.description, topicPrefix.description,
            allowWeakTopics.description, developmentBroker.description, clockTolerance.description,
        ]
    }
}

extension Format where Value == Int {
    static func powerOfTwo(_ range: ClosedRange<Int>) -> Format {
        let plain = Format.integer(range)
        return Format(
            type: plain.type,
            rule: "a power of two from \(range.lowerBound) to \(range.upperBound)",
            range: "a power of two, \(plain.range)",
            placeholder: plain.placeholder
        ) { text in
            guard let value = plain.parse(text), value > 0, value & (value - 1) == 0 else { return nil }
            return value
        }
    }
}

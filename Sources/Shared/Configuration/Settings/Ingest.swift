extension Settings {
    public enum Ingest {
        public static let address = Setting(
            "DAYBOOK_INGEST_ADDRESS",
            .address,
            .defaults(to: "127.0.0.1:8080"),
            for: [.ingest],
            "Where the public HTTP interface listens."
        )
        public static let loops = Setting(
            "DAYBOOK_INGEST_LOOPS",
            .integer(1...64),
            .defaults(to: "1"),
            for: [.ingest],
            "How many event loops share the port, one thread each; a second pays from some 50,000 requests a second."
        )
        public static let requestDeadline = Setting(
            "DAYBOOK_REQUEST_DEADLINE_MS",
            .integer(100...300_000, "ms"),
            .defaults(to: "10000"),
            for: [.ingest],
            "How long a complete request waits for Kafka's acknowledgement before it is answered 503."
        )
        public static let arrivalDeadline = Setting(
            "DAYBOOK_REQUEST_ARRIVAL_DEADLINE_MS",
            .integer(100...300_000, "ms"),
            .defaults(to: "15000"),
            for: [.ingest],
            "How long a request may take to arrive, from its first byte to its last, before it is answered 408."
        )
        public static let idleTimeout = Setting(
            "DAYBOOK_IDLE_TIMEOUT_MS",
            .integer(1000...3_600_000, "ms"),
            .defaults(to: "75000"),
            for: [.ingest],
            "How long a connection is kept between requests."
        )
        public static let answerReadTimeout = Setting(
            "DAYBOOK_ANSWER_READ_TIMEOUT_MS",
            .integer(100...300_000, "ms"),
            .defaults(to: "30000"),
            for: [.ingest],
            "How long a client may take to read an answer before its connection is closed."
        )
        public static let maxConnections = Setting(
            "DAYBOOK_MAX_CONNECTIONS",
            .integer(1...1_000_000),
            .defaults(to: "10000"),
            for: [.ingest],
            "How many connections are open at once, over all loops; further ones are closed at once."
        )
        public static let listenBacklog = Setting(
            "DAYBOOK_LISTEN_BACKLOG",
            .integer(1...65_535),
            .defaults(to: "1024"),
            for: [.ingest],
            "How many new connections may wait for each loop to take them in; the system's net.core.somaxconn bounds it."
        )
        public static let maxHeaderBytes = Setting(
            "DAYBOOK_MAX_HEADER_BYTES",
            .integer(1024...262_144, "bytes"),
            .defaults(to: "16384"),
            for: [.ingest],
            "The longest request line and headers together."
        )
        public static let maxHeaders = Setting(
            "DAYBOOK_MAX_HEADERS",
            .integer(8...1024),
            .defaults(to: "64"),
            for: [.ingest],
            "How many headers a request may have; more are answered 431. Each connection has 16 bytes for each."
        )
        public static let maxTargetBytes = Setting(
            "DAYBOOK_MAX_TARGET_BYTES",
            .integer(256...262_144, "bytes"),
            .defaults(to: "4096"),
            for: [.ingest],
            "The longest path and query, within DAYBOOK_MAX_HEADER_BYTES; more is answered 414."
        )
        public static let maxBodyBytes = Setting(
            "DAYBOOK_MAX_BODY_BYTES",
            .integer(1024...67_108_864, "bytes"),
            .defaults(to: "1048576"),
            for: [.ingest],
            "The longest body on the wire; more is answered 413."
        )
        public static let maxDecompressedBytes = Setting(
            "DAYBOOK_MAX_DECOMPRESSED_BYTES",
            .integer(1024...268_435_456, "bytes"),
            .defaults(to: "8388608"),
            for: [.ingest],
            "The longest body after decompression; more is answered 413."
        )
        public static let rateLimit = Setting(
            "DAYBOOK_RATE_LIMIT_PER_MINUTE",
            .integer(0...60_000),
            .defaults(to: "600"),
            for: [.ingest],
            "How many writing requests a user may make a minute in the long run; more are answered 429. 0: no limit."
        )
        public static let rateBurst = Setting(
            "DAYBOOK_RATE_LIMIT_BURST",
            .integer(1...1_000_000),
            .defaults(to: "300"),
            for: [.ingest],
            "How many writing requests a user who has rested may make at once."
        )
        public static let maxInFlightBytes = Setting(
            "DAYBOOK_MAX_IN_FLIGHT_BYTES",
            .integer(1_048_576...4_294_967_296, "bytes"),
            .defaults(to: "67108864"),
            for: [.ingest],
            "How much of records, and of the answers that wait with them, may wait for Kafka's acknowledgement, in the"
                + " whole process; more is answered 503."
        )
        public static let maxArrivingBytes = Setting(
            "DAYBOOK_MAX_ARRIVING_BYTES",
            .integer(1_048_576...17_179_869_184, "bytes"),
            .defaults(to: "134217728"),
            for: [.ingest],
            "The memory for requests that are arriving and for answers that clients are slow to read, in the whole process:"
                + " beyond it, a request that needs more than 16 KiB is answered 503, and such an answer is cut off."
        )
        public static let fallbackZone = Setting(
            "DAYBOOK_FALLBACK_ZONE",
            .name("the name of a time zone, as in America/New_York", longest: 64, alphabet: "/_+-"),
            .defaults(to: "America/New_York"),
            for: [.ingest],
            "The IANA time zone of a request that names none."
        )
        public static let heartbeatInterval = Setting(
            "DAYBOOK_HEARTBEAT_INTERVAL_MS",
            .integer(100...60_000, "ms"),
            .defaults(to: "10000"),
            for: [.ingest],
            "How often each live partition gets a heartbeat record."
        )

        static let all = [
            address.description, loops.description, requestDeadline.description, arrivalDeadline.description,
            idleTimeout.description, answerReadTimeout.description, maxConnections.description,
            listenBacklog.description, maxHeaderBytes.description, maxHeaders.description,
            maxTargetBytes.description, maxBodyBytes.description, maxDecompressedBytes.description,
            rateLimit.description,
            rateBurst.description, maxInFlightBytes.description, maxArrivingBytes.description,
            fallbackZone.description,
            heartbeatInterval.description,
        ]
    }
}

/// Everything that the ingest service can be told.
public struct IngestConfiguration: Sendable {
    public struct HTTP: Sendable {
        public let address: SocketAddress
        public let loops: Int
        public let requestDeadlineMilliseconds: Int
        public let arrivalDeadlineMilliseconds: Int
        public let idleTimeoutMilliseconds: Int
        public let answerReadTimeoutMilliseconds: Int
        public let maxConnections: Int
        public let listenBacklog: Int
        public let maxHeaderBytes: Int
        public let maxHeaders: Int
        public let maxTargetBytes: Int
        public let maxBodyBytes: Int
        public let maxDecompressedBytes: Int

        init(_ reader: inout ConfigurationReader) {
            address = reader.read(Settings.Ingest.address)
            loops = reader.read(Settings.Ingest.loops)
            requestDeadlineMilliseconds = reader.read(Settings.Ingest.requestDeadline)
            arrivalDeadlineMilliseconds = reader.read(Settings.Ingest.arrivalDeadline)
            idleTimeoutMilliseconds = reader.read(Settings.Ingest.idleTimeout)
            answerReadTimeoutMilliseconds = reader.read(Settings.Ingest.answerReadTimeout)
            maxConnections = reader.read(Settings.Ingest.maxConnections)
            listenBacklog = reader.read(Settings.Ingest.listenBacklog)
            maxHeaderBytes = reader.read(Settings.Ingest.maxHeaderBytes)
            maxHeaders = reader.read(Settings.Ingest.maxHeaders)
            maxTargetBytes = reader.read(Settings.Ingest.maxTargetBytes)
            maxBodyBytes = reader.read(Settings.Ingest.maxBodyBytes)
            maxDecompressedBytes = reader.read(Settings.Ingest.maxDecompressedBytes)
            reader.require(
                maxDecompressedBytes >= maxBodyBytes,
                Settings.Ingest.maxDecompressedBytes.key,
                "must not be less than \(Settings.Ingest.maxBodyBytes.key)"
            )
        }
    }

    /// What keeps one user, and Kafka's slowness, from using the process up.
    public struct Limits: Sendable {
        /// 0: no limit.
        public let requestsPerMinute: Int
        public let burst: Int
        public let inFlightBytes: Int
        public let arrivingBytes: Int

        init(_ reader: inout ConfigurationReader) {
            requestsPerMinute = reader.read(Settings.Ingest.rateLimit)
            burst = reader.read(Settings.Ingest.rateBurst)
            inFlightBytes = reader.read(Settings.Ingest.maxInFlightBytes)
            arrivingBytes = reader.read(Settings.Ingest.maxArrivingBytes)
        }
    }

    public let process: ProcessConfiguration
    public let http: HTTP
    public let limits: Limits
    public let tokens: TokenConfiguration
    public let kafka: KafkaConfiguration
    public let allowsWeakTopics: Bool
    /// An IANA name; whether this machine knows the zone is for the service to find out.
    public let fallbackZone: String
    public let heartbeatIntervalMilliseconds: Int
    public let clockToleranceMilliseconds: Int

    public init(_ reader: inout ConfigurationReader) {
        process = ProcessConfiguration(&reader)
        http = HTTP(&reader)
        limits = Limits(&reader)
        tokens = TokenConfiguration(&reader)
        kafka = KafkaConfiguration(&reader)
        allowsWeakTopics = reader.read(Settings.Kafka.allowWeakTopics)
        fallbackZone = reader.read(Settings.Ingest.fallbackZone)
        heartbeatIntervalMilliseconds = reader.read(Settings.Ingest.heartbeatInterval)
        clockToleranceMilliseconds = reader.read(Settings.Kafka.clockTolerance)
    }

    /// Reads all of it.
    ///
    /// - Throws: `ConfigurationErrors` with everything that is wrong.
    public static func read(
        environment: [String: String] = Environment.current()
    ) throws(ConfigurationErrors) -> IngestConfiguration {
        var reader = ConfigurationReader(program: .ingest, environment: environment)
        let configuration = IngestConfiguration(&reader)
        try reader.finish()
        return configuration
    }
}

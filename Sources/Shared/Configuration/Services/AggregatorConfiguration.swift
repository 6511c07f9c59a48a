import Glibc

/// Everything that the aggregator worker can be told.
public struct AggregatorConfiguration: Sendable {
    public struct Consumer: Sendable {
        public let group: String
        /// Nil: a member of the group leaves it when it stops, and comes as a new one.
        public let instance: String?
        public let sessionTimeoutMilliseconds: Int
        public let maxPollIntervalMilliseconds: Int
        public let lostLogPolicy: LostLogPolicy

        init(_ reader: inout ConfigurationReader) {
            group = reader.read(Settings.Aggregator.consumerGroup)
            instance = reader.readOptional(Settings.Aggregator.consumerInstance)
            sessionTimeoutMilliseconds = reader.read(Settings.Aggregator.sessionTimeout)
            maxPollIntervalMilliseconds = reader.read(Settings.Aggregator.maxPollInterval)
            lostLogPolicy = reader.read(Settings.Aggregator.lostLogPolicy)
            reader.require(
                maxPollIntervalMilliseconds >= sessionTimeoutMilliseconds,
                Settings.Aggregator.maxPollInterval.key,
                "must not be less than \(Settings.Aggregator.sessionTimeout.key)"
            )
        }
    }

    public struct Batch: Sendable {
        public let days: Int
        public let records: Int
        public let bytes: Int
        public let waitMilliseconds: Int

        init(_ reader: inout ConfigurationReader) {
            days = reader.read(Settings.Aggregator.batchDays)
            records = reader.read(Settings.Aggregator.batchRecords)
            bytes = reader.read(Settings.Aggregator.batchBytes)
            waitMilliseconds = reader.read(Settings.Aggregator.batchWait)
        }
    }

    public struct Brake: Sendable {
        public let sharePercent: Int
        public let window: Int
        public let run: Int

        init(_ reader: inout ConfigurationReader) {
            sharePercent = reader.read(Settings.Aggregator.brakeShare)
            window = reader.read(Settings.Aggregator.brakeWindow)
            run = reader.read(Settings.Aggregator.brakeRun)
        }
    }

    public let process: ProcessConfiguration
    public let kafka: KafkaConfiguration
    public let consumer: Consumer
    public let database: DatabaseConfiguration
    public let liveLanes: Int
    public let historyLanes: Int
    public let batch: Batch
    public let bufferBytes: Int
    public let brake: Brake
    public let retentionDays: Int

    public init(_ reader: inout ConfigurationReader) {
        process = ProcessConfiguration(&reader)
        kafka = KafkaConfiguration(&reader)
        consumer = Consumer(&reader)
        database = DatabaseConfiguration(&reader)
        liveLanes = reader.readOptional(Settings.Aggregator.workerLanes) ?? Self.processors
        historyLanes = reader.read(Settings.Aggregator.historyLanes)
        batch = Batch(&reader)
        bufferBytes = reader.read(Settings.Aggregator.bufferBytes)
        brake = Brake(&reader)
        retentionDays = reader.read(Settings.Aggregator.retentionDays)
    }

    /// Reads all of it.
    ///
    /// - Throws: `ConfigurationErrors` with everything that is wrong.
    public static func read(
        environment: [String: String] = Environment.current()
    ) throws(ConfigurationErrors) -> AggregatorConfiguration {
        var reader = ConfigurationReader(program: .aggregator, environment: environment)
        let configuration = AggregatorConfiguration(&reader)
        try reader.finish()
        return configuration
    }

    private static var processors: Int {
        min(max(sysconf(Int32(_SC_NPROCESSORS_ONLN)), 1), 256)
    }
}

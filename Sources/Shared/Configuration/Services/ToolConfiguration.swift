/// What the operator's program can be told. Which of it a command needs is for the command to say, so servers and
/// secrets are optional here.
public struct ToolConfiguration: Sendable {
    public let logLevel: LogVerbosity
    /// Nil: the running stack's, or a development broker of its own.
    public let brokers: String?
    public let kafkaProperties: [KafkaProperty]
    public let topicPrefix: String
    public let partitions: Int
    public let replication: Int
    public let allowsWeakTopics: Bool
    public let isDevelopmentBroker: Bool
    public let consumerGroup: String
    public let databaseURL: Secret?
    public let databaseConnectTimeoutMilliseconds: Int
    public let tokenSecret: Secret?
    public let tokenIssuer: String?
    public let tokenAudience: String?
    public let retentionDays: Int
    public let stateFolder: String?
    public let workers: Int
    public let ingestURL: String?
    public let token: Secret?
    /// What a worker that has the same environment decides by.
    public let wake: WakeRulesConfiguration
    /// Whether `wake`'s schedule was set, or is the default.
    public let wakeScheduleIsGiven: Bool

    public init(_ reader: inout ConfigurationReader) {
        logLevel = reader.read(Settings.Process.logLevel)
        brokers = reader.readOptional(Settings.Kafka.brokers)
        kafkaProperties = reader.readKafkaProperties()
        topicPrefix = reader.read(Settings.Kafka.topicPrefix)
        partitions = reader.read(Settings.Kafka.partitions)
        replication = reader.read(Settings.Kafka.replication)
        allowsWeakTopics = reader.read(Settings.Kafka.allowWeakTopics)
        isDevelopmentBroker = reader.read(Settings.Kafka.developmentBroker)
        consumerGroup = reader.read(Settings.Aggregator.consumerGroup)
        databaseURL = reader.readOptional(Settings.Database.url)
        databaseConnectTimeoutMilliseconds = reader.read(Settings.Database.connectTimeout)
        tokenSecret = reader.readOptional(Settings.Tokens.secret)
        tokenIssuer = reader.readOptional(Settings.Tokens.issuer)
        tokenAudience = reader.readOptional(Settings.Tokens.audience)
        retentionDays = reader.read(Settings.Aggregator.retentionDays)
        stateFolder = reader.readOptional(Settings.Development.state)
        workers = reader.read(Settings.Development.workers)
        ingestURL = reader.readOptional(Settings.Development.url)
        token = reader.readOptional(Settings.Development.token)
        wake = WakeRulesConfiguration(&reader)
        wakeScheduleIsGiven = reader.isGiven(Settings.Wake.schedule)
    }

    /// Reads all of it.
    ///
    /// - Throws: `ConfigurationErrors` with everything that is wrong.
    public static func read(
        environment: [String: String] = Environment.current()
    ) throws(ConfigurationErrors) -> ToolConfiguration {
        var reader = ConfigurationReader(program: .tool, environment: environment)
        let configuration = ToolConfiguration(&reader)
        try reader.finish()
        return configuration
    }
}

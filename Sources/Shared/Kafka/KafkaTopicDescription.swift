/// A topic to be made.
public struct KafkaTopicSpecification: Sendable, Hashable {
    public let name: String
    public let partitions: Int32
    /// −1: the broker's default.
    public let replicationFactor: Int32
    public let settings: [String: String]

    public init(name: String, partitions: Int32, replicationFactor: Int32 = -1, settings: [String: String] = [:]) {
        self.name = name
        self.partitions = partitions
        self.replicationFactor = replicationFactor
        self.settings = settings
    }
}

/// A topic as the cluster has it.
public struct KafkaTopicDescription: Sendable, Hashable {
    public let name: String
    public let partitions: Int
    /// Replicas of the partition that has the fewest.
    public let replicationFactor: Int
    /// All settings that the cluster tells, defaults included; `nil` where it can't tell (the development broker).
    public let settings: [String: String]?

    public init(name: String, partitions: Int, replicationFactor: Int, settings: [String: String]?) {
        self.name = name
        self.partitions = partitions
        self.replicationFactor = replicationFactor
        self.settings = settings
    }

    public var minInSyncReplicas: Int? { settings?["min.insync.replicas"].flatMap { Int($0) } }
    public var cleanupPolicy: String? { settings?["cleanup.policy"] }
    /// `LogAppendTime` or `CreateTime`.
    public var timestampType: String? { settings?["message.timestamp.type"] }
    public var allowsUncleanLeader: Bool? {
        settings?["unclean.leader.election.enable"].map { $0 == "true" }
    }
    public var maxMessageBytes: Int? { settings?["max.message.bytes"].flatMap { Int($0) } }
    public var retentionMilliseconds: Int64? { settings?["retention.ms"].flatMap { Int64($0) } }
}

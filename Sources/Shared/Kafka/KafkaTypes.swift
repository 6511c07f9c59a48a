/// One partition of a topic.
public struct TopicPartition: Sendable, Hashable, Comparable {
    public let topic: String
    public let partition: Int32

    public init(topic: String, partition: Int32) {
        self.topic = topic
        self.partition = partition
    }

    public static func < (left: TopicPartition, right: TopicPartition) -> Bool {
        (left.topic, left.partition) < (right.topic, right.partition)
    }
}

extension TopicPartition: CustomStringConvertible {
    public var description: String { "\(topic)/\(partition)" }
}

/// Where reading a partition begins.
public enum KafkaStart: Sendable, Hashable {
    /// The oldest record that the log still holds.
    case beginning
    /// What is written from now on (for tools; a worker never starts here).
    case end
    /// The record with this offset, or the next one behind it.
    case offset(Int64)
}

/// The record offsets that a partition's log holds: from `low` up to, not including, `high`.
public struct KafkaWatermarks: Sendable, Hashable {
    public let low: Int64
    public let high: Int64

    public init(low: Int64, high: Int64) {
        self.low = low
        self.high = high
    }
}

/// Who set a record's time.
public enum KafkaTimestampType: Sendable, Hashable {
    case none
    /// The producer.
    case created
    /// The broker, when it appended the record.
    case appended
}

/// What became of one produced record. Each `produce` that did not throw gets exactly one.
public struct DeliveryReport: Sendable {
    /// As given to `produce`.
    public let tag: UInt64
    /// As given to `produce`.
    public let topicIndex: Int
    /// −1 when the record never got one.
    public let partition: Int32
    /// The record's offset; negative when it is not known.
    public let offset: Int64
    /// The broker's append time, if the topic uses it (`timestampType`), else the producer's time.
    public let timestampMilliseconds: Int64
    public let timestampType: KafkaTimestampType
    /// `nil`: acknowledged by all in-sync replicas. Else not confirmed; it may be in the log all the same.
    public let error: KafkaError?
}

/// What `KafkaConsumer.poll` found.
public enum KafkaPoll {
    /// The time was up.
    case nothing
    case record(KafkaRecord)
    /// The group gave these partitions: claim them, then call `assign`. Nothing is fetched, and no other member gets
    /// them, until then.
    case assigned([TopicPartition])
    /// The group takes all partitions back: finish or drop what is in flight, then call `unassign`.
    case revoked([TopicPartition])
    /// One partition cannot be read, for example because its offset is out of range. It stays assigned and silent.
    case partitionError(TopicPartition, KafkaError)
    /// Trouble of the whole consumer. It goes on trying unless the error is fatal.
    case error(KafkaError)
}

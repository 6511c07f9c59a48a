import CRdKafka

/// Owns an `rd_kafka_topic_partition_list_t`.
struct PartitionList: ~Copyable {
    let pointer: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>

    init(capacity: Int) {
        pointer = rd_kafka_topic_partition_list_new(Int32(clamping: capacity))
    }

    init(_ partitions: [TopicPartition]) {
        self.init(capacity: partitions.count)
        for partition in partitions { add(partition, offset: Int64(RD_KAFKA_OFFSET_INVALID)) }
    }

    deinit { rd_kafka_topic_partition_list_destroy(pointer) }

    func add(_ partition: TopicPartition, offset: Int64) {
        rd_kafka_topic_partition_list_add(pointer, partition.topic, partition.partition).pointee.offset = offset
    }

    var elements: UnsafeMutableBufferPointer<rd_kafka_topic_partition_t> { Self.elements(of: pointer) }

    static func elements(
        of list: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?
    ) -> UnsafeMutableBufferPointer<rd_kafka_topic_partition_t> {
        guard let list else { return UnsafeMutableBufferPointer(start: nil, count: 0) }
        return UnsafeMutableBufferPointer(start: list.pointee.elems, count: Int(max(0, list.pointee.cnt)))
    }

    /// The first error that the library left on an element.
    func firstError() -> KafkaError? {
        for element in elements where element.err != RD_KAFKA_RESP_ERR_NO_ERROR {
            return KafkaError(element.err, "\(TopicPartition(element))")
        }
        return nil
    }
}

extension TopicPartition {
    init(_ element: rd_kafka_topic_partition_t) {
        self.init(topic: element.topic.map { String(cString: $0) } ?? "", partition: element.partition)
    }
}

extension KafkaStart {
    var rawOffset: Int64 {
        switch self {
        case .beginning: Int64(RD_KAFKA_OFFSET_BEGINNING)
        case .end: Int64(RD_KAFKA_OFFSET_END)
        // A negative number would mean something else to the library.
        case .offset(let offset): max(0, offset)
        }
    }
}

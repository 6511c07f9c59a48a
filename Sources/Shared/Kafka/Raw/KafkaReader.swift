import CRdKafka

/// Reads one partition at a time from a given place, without a group: for tools, tests and looking at single records.
/// For one thread alone; keeps its connections between reads.
public final class KafkaReader {
    private let client: ClientHandle
    private var topicNames = TopicNames()
    private var topic: OpaquePointer?
    private var partition: TopicPartition?

    public init(properties: [(String, String)], log: @escaping KafkaLog) throws(KafkaError) {
        client = try ClientHandle(
            RD_KAFKA_CONSUMER,
            ConfigurationHandle(defaults: KafkaProperties.consumer, properties: properties, events: 0),
            log: log
        )
    }

    deinit { stop() }

    /// Begins to read; ends what was read before.
    public func start(_ partition: TopicPartition, from start: KafkaStart) throws(KafkaError) {
        stop()
        guard let topic = rd_kafka_topic_new(client.pointer, partition.topic, nil) else {
            throw KafkaError(rd_kafka_last_error(), partition.topic)
        }
        guard rd_kafka_consume_start(topic, partition.partition, start.rawOffset) == 0 else {
            let code = rd_kafka_last_error()
            rd_kafka_topic_destroy(topic)
            throw KafkaError(code, "\(partition)")
        }
        self.topic = topic
        self.partition = partition
    }

    /// The next record; `nil` when none came in the time given.
    ///
    /// - Throws: for example `isOffsetOutOfRange` when the log doesn't hold the offset.
    public func next(timeoutMilliseconds: Int32) throws(KafkaError) -> KafkaRecord? {
        guard let topic, let partition else {
            throw KafkaError(code: KafkaError.Code.state, detail: "nothing is being read")
        }
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        repeat {
            // In short waits: librdkafka 2.0.2 sleeps up to a second after its queue was full, unless it is woken.
            guard let message = rd_kafka_consume(topic, partition.partition, min(deadline.remaining, 20)) else {
                client.askForEnd(partition, timeoutMilliseconds: 2)
                continue
            }
            let code = message.pointee.err
            if code == RD_KAFKA_RESP_ERR_NO_ERROR {
                return KafkaRecord(message, of: nil, topic: topicNames.name(of: message.pointee.rkt), client: client)
            }
            rd_kafka_message_destroy(message)
            if code != RD_KAFKA_RESP_ERR__PARTITION_EOF { throw KafkaError(code, "\(partition)") }
        } while deadline.remaining > 0
        return nil
    }

    /// Stops reading; records that were returned stay valid.
    public func stop() {
        guard let topic, let partition else { return }
        rd_kafka_consume_stop(topic, partition.partition)
        rd_kafka_topic_destroy(topic)
        self.topic = nil
        self.partition = nil
    }

    /// The record at exactly this offset; `nil` if the log has none there (too old, not yet written, or a gap).
    ///
    /// - Throws: when that could not be found out in the time given.
    public func record(
        _ partition: TopicPartition,
        at offset: Int64,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> KafkaRecord? {
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        let log = try watermarks(partition, timeoutMilliseconds: deadline.remaining)
        guard offset >= log.low, offset < log.high else { return nil }
        try start(partition, from: .offset(offset))
        defer { stop() }
        guard let record = try next(timeoutMilliseconds: deadline.remaining) else {
            throw KafkaError(code: KafkaError.Code.timedOut, detail: "\(partition) at offset \(offset)")
        }
        return record.offset == offset ? record : nil
    }

    /// Blocks up to the time given.
    public func watermarks(
        _ partition: TopicPartition,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> KafkaWatermarks {
        try client.watermarks(partition, timeoutMilliseconds: timeoutMilliseconds)
    }

    /// Blocks up to the time given.
    public func clusterID(timeoutMilliseconds: Int32) throws(KafkaError) -> String {
        try client.clusterID(timeoutMilliseconds: timeoutMilliseconds)
    }
}

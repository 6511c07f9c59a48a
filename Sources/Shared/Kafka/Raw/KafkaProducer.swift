import CRdKafka
import Glibc
import Synchronization

/// Sends records to a fixed set of topics. All methods can be called on any thread.
///
/// The owner watches `reportsDescriptor` and calls `drainReports` when it is readable. When `fatalError` is set, every
/// later `produce` fails: make a new producer and let this one go.
///
/// `@unchecked Sendable`: the pointers never change, librdkafka's producer is thread-safe, the counts are behind a lock.
public final class KafkaProducer: @unchecked Sendable {
    public let topics: [String]
    /// An eventfd, readable when reports wait. `drainReports` reads it; only the producer closes it.
    public let reportsDescriptor: Int32

    let client: ClientHandle
    private let queue: OpaquePointer
    private let handles: [OpaquePointer]
    private let counts: Mutex<[Int]>
    private let bytes = Atomic<Int>(0)

    /// - Parameters:
    ///   - properties: librdkafka's, `bootstrap.servers` among them; they override the product's defaults.
    ///   - topics: `produce` and the reports name a topic by its index here.
    ///   - log: the library's lines; its errors come from `drainReports`.
    /// - Throws: when a property or a topic's name is refused. Brokers are not needed yet.
    public init(
        properties: [(String, String)],
        topics: [String],
        log: @escaping KafkaLog
    ) throws(KafkaError) {
        let events = RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_STATS
        let client = try ClientHandle(
            RD_KAFKA_PRODUCER,
            ConfigurationHandle(defaults: KafkaProperties.producer, properties: properties, events: events),
            log: log
        )
        let descriptor = daybook_kafka_event_descriptor()
        guard descriptor >= 0 else {
            throw KafkaError(
                RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE,
                "no eventfd (errno \(errno)); raise the limit of files"
            )
        }
        var handles: [OpaquePointer] = []
        for (index, topic) in topics.enumerated() {
            let configuration = rd_kafka_default_topic_conf_dup(client.pointer)
            // Reports find their topic's index here.
            rd_kafka_topic_conf_set_opaque(configuration, UnsafeMutableRawPointer(bitPattern: index + 1))
            guard let handle = rd_kafka_topic_new(client.pointer, topic, configuration) else {
                let code = rd_kafka_last_error()
                for handle in handles { rd_kafka_topic_destroy(handle) }
                Glibc.close(descriptor)
                throw KafkaError(code, "topic \(topic)")
            }
            handles.append(handle)
        }
        self.topics = topics
        self.client = client
        self.handles = handles
        reportsDescriptor = descriptor
        counts = Mutex([Int](repeating: 0, count: topics.count))
        queue = rd_kafka_queue_get_main(client.pointer)
        var one: UInt64 = 1
        rd_kafka_queue_io_event_enable(queue, descriptor, &one, MemoryLayout<UInt64>.size)
    }

    deinit {
        rd_kafka_queue_io_event_enable(queue, -1, nil, 0)
        for handle in handles { rd_kafka_topic_destroy(handle) }
        rd_kafka_queue_destroy(queue)
        Glibc.close(reportsDescriptor)
    }

    /// Hands a record over without waiting; its bytes are copied. Its report comes through `drainReports`.
    ///
    /// - Parameters:
    ///   - topicIndex: index in `topics`.
    ///   - partition: `nil` lets the partitioner choose by the key.
    ///   - key: `nil` for a record without key, which goes to a random partition.
    ///   - value: `nil` for a tombstone.
    ///   - tag: comes back in the report.
    ///   - headers: adds the record's headers.
    /// - Throws: `isQueueFull` when the local queue is full, `isRecordTooLarge`, and fatal errors. No report comes then.
    public func produce(
        topicIndex: Int,
        partition: Int32? = nil,
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        tag: UInt64,
        headers: (borrowing KafkaHeaderWriter) -> Void = { _ in }
    ) throws(KafkaError) {
        guard handles.indices.contains(topicIndex) else {
            throw KafkaError(code: KafkaError.Code.unknownTopic, detail: "topic index \(topicIndex)")
        }
        let writer = KafkaHeaderWriter(headers: rd_kafka_headers_new(8))
        headers(writer)
        let code = daybook_kafka_produce(
            client.pointer,
            handles[topicIndex],
            partition ?? Int32(RD_KAFKA_PARTITION_UA),
            key.map { $0.baseAddress ?? emptyBytes },
            key?.count ?? 0,
            value.map { $0.baseAddress ?? emptyBytes },
            value?.count ?? 0,
            writer.headers,
            tag
        )
        if code == RD_KAFKA_RESP_ERR_NO_ERROR {
            bytes.wrappingAdd((key?.count ?? 0) + (value?.count ?? 0), ordering: .relaxed)
            return
        }
        rd_kafka_headers_destroy(writer.headers)
        if code == RD_KAFKA_RESP_ERR__FATAL, let fatal = fatalError { throw fatal }
        throw KafkaError(code, topics[topicIndex])
    }

    /// Reads the descriptor and hands out every report that waits. Never blocks.
    ///
    /// - Returns: how many there were.
    @discardableResult
    public func drainReports(_ body: (DeliveryReport) -> Void) -> Int {
        // Before the queue: what comes after this read makes the descriptor readable again.
        var signal: UInt64 = 0
        _ = Glibc.read(reportsDescriptor, &signal, MemoryLayout<UInt64>.size)
        return drainQueue(waitMilliseconds: 0, body)
    }

    /// Waits until every record has its report, or the time is up; hands the reports out meanwhile.
    ///
    /// - Returns: how many records are left without one.
    @discardableResult
    public func flush(timeoutMilliseconds: Int32, _ body: (DeliveryReport) -> Void) -> Int {
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        repeat {
            // Wakes the broker threads, so that nothing lingers.
            rd_kafka_flush(client.pointer, 0)
            drainQueue(waitMilliseconds: min(10, deadline.remaining), body)
        } while outstandingCount > 0 && deadline.remaining > 0
        return outstandingCount
    }

    /// Flushes for up to the time given, then gives up what is left: its reports come with an error at once.
    public func close(timeoutMilliseconds: Int32, _ body: (DeliveryReport) -> Void) {
        if flush(timeoutMilliseconds: timeoutMilliseconds, body) == 0 { return }
        rd_kafka_purge(client.pointer, Int32(RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT))
        flush(timeoutMilliseconds: 1000, body)
    }

    /// From now on nobody waits for the library's threads when the last reference is gone: they end by themselves. For
    /// a producer that others on a loop's thread may be the last to hold.
    public func retire() {
        client.endPatience.store(0, ordering: .releasing)
    }

    /// Records that were taken and have no drained report yet (and events that wait with them).
    public var outstandingCount: Int { Int(max(0, rd_kafka_outq_len(client.pointer))) }

    /// Keys and values of the records that were taken and have no drained report yet.
    public var outstandingBytes: Int { max(0, bytes.load(ordering: .relaxed)) }

    /// Set when the idempotent producer gave up for good.
    public var fatalError: KafkaError? { client.fatalError }

    /// Fetches the metadata of all topics, so that the first record needs not wait for it. Blocks up to the time given.
    /// Call it again to see partitions that were added.
    ///
    /// - Throws: if no broker answers, or for the first topic that cannot be used.
    public func prime(timeoutMilliseconds: Int32) throws(KafkaError) {
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        for (index, handle) in handles.enumerated() {
            let partitions = try client.retrying(until: deadline) { () throws(KafkaError) in
                try countPartitions(handle, timeoutMilliseconds: deadline.remaining)
            }
            counts.withLock { $0[index] = partitions }
        }
    }

    /// As `prime` last saw it; 0 before that.
    public func partitionCount(topicIndex: Int) -> Int {
        counts.withLock { $0.indices.contains(topicIndex) ? $0[topicIndex] : 0 }
    }

    /// Blocks up to the time given.
    public func clusterID(timeoutMilliseconds: Int32) throws(KafkaError) -> String {
        try client.clusterID(timeoutMilliseconds: timeoutMilliseconds)
    }

    /// How strongly the cluster keeps the records of each topic, in the order of `topics`. Blocks up to the time given.
    public func topicStrengths(timeoutMilliseconds: Int32) throws(KafkaError) -> [KafkaTopicDescription] {
        let deadline = Deadline(milliseconds: timeoutMilliseconds)
        var descriptions: [KafkaTopicDescription] = []
        for topic in topics {
            try descriptions.append(client.describeTopic(topic, deadline: deadline))
        }
        return descriptions
    }

    private func countPartitions(
        _ handle: OpaquePointer,
        timeoutMilliseconds: Int32
    ) throws(KafkaError) -> Int {
        let found = try client.metadata(of: handle, timeoutMilliseconds: max(1, timeoutMilliseconds)) {
            metadata -> (code: rd_kafka_resp_err_t, partitions: Int) in
            guard metadata.topic_cnt > 0, let topic = metadata.topics?.pointee else {
                return (RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, 0)
            }
            return (topic.err, Int(topic.partition_cnt))
        }
        try KafkaError.check(found.code, rd_kafka_topic_name(handle).map { String(cString: $0) })
        return found.partitions
    }

    @discardableResult
    private func drainQueue(waitMilliseconds: Int32, _ body: (DeliveryReport) -> Void) -> Int {
        var count = 0
        var wait = waitMilliseconds
        while let event = rd_kafka_queue_poll(queue, wait) {
            wait = 0
            defer { rd_kafka_event_destroy(event) }
            switch rd_kafka_event_type(event) {
            case RD_KAFKA_EVENT_DR:
                var size = 0
                while let message = rd_kafka_event_message_next(event) {
                    size &+= message.pointee.len &+ message.pointee.key_len
                    body(DeliveryReport(message))
                    count += 1
                }
                bytes.wrappingSubtract(size, ordering: .relaxed)
            case RD_KAFKA_EVENT_ERROR:
                client.sink.error(KafkaError(event: event, client: client))
            case RD_KAFKA_EVENT_STATS:
                client.sink.statistics(rd_kafka_event_stats(event).map { String(cString: $0) } ?? "")
            default:
                break
            }
        }
        return count
    }
}

extension DeliveryReport {
    fileprivate init(_ message: UnsafePointer<rd_kafka_message_t>) {
        var type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE
        let timestamp = rd_kafka_message_timestamp(message, &type)
        let code = message.pointee.err
        self.init(
            tag: UInt64(UInt(bitPattern: message.pointee._private)),
            topicIndex: Int(bitPattern: rd_kafka_topic_opaque(message.pointee.rkt)) - 1,
            partition: message.pointee.partition,
            offset: message.pointee.offset,
            timestampMilliseconds: timestamp,
            timestampType: KafkaTimestampType(type),
            error: code == RD_KAFKA_RESP_ERR_NO_ERROR ? nil : KafkaError(code)
        )
    }
}

extension KafkaTimestampType {
    init(_ raw: rd_kafka_timestamp_type_t) {
        switch raw {
        case RD_KAFKA_TIMESTAMP_CREATE_TIME: self = .created
        case RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME: self = .appended
        default: self = .none
        }
    }
}

extension KafkaError {
    /// The error that an event reports, with the fatal one behind it if there is one.
    init(event: OpaquePointer, client: ClientHandle) {
        let code = rd_kafka_event_error(event)
        let text = rd_kafka_event_error_string(event).map { String(cString: $0) }
        self.init(code, text, isFatal: rd_kafka_event_error_is_fatal(event) != 0)
    }
}

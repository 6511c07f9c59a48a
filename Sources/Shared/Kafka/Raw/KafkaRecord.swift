import CRdKafka

/// One consumed record. Its bytes live as long as it does; it belongs to the thread that polled it.
///
/// A consumer's memory and threads go only when its last record has gone: drop records before closing.
public final class KafkaRecord {
    public let topic: String
    public let partition: Int32
    public let offset: Int64
    /// The broker's append time where the topic uses it, else the producer's time.
    public let timestampMilliseconds: Int64
    public let timestampType: KafkaTimestampType

    private let message: UnsafeMutablePointer<rd_kafka_message_t>
    /// The event that owns the message; without one, the message is owned here.
    private let event: OpaquePointer?
    /// Keeps the client alive until the message is freed.
    private let client: ClientHandle

    init(
        _ message: UnsafeMutablePointer<rd_kafka_message_t>,
        of event: OpaquePointer?,
        topic: String,
        client: ClientHandle
    ) {
        self.message = message
        self.event = event
        self.client = client
        self.topic = topic
        partition = message.pointee.partition
        offset = message.pointee.offset
        var type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE
        timestampMilliseconds = rd_kafka_message_timestamp(message, &type)
        timestampType = KafkaTimestampType(type)
    }

    deinit {
        if let event { rd_kafka_event_destroy(event) } else { rd_kafka_message_destroy(message) }
    }

    public var topicPartition: TopicPartition { TopicPartition(topic: topic, partition: partition) }

    /// The key's bytes; `nil` for a record without key.
    public func withKey<Result>(_ body: (UnsafeRawBufferPointer?) throws -> Result) rethrows -> Result {
        guard let key = message.pointee.key else { return try body(nil) }
        return try body(UnsafeRawBufferPointer(start: key, count: message.pointee.key_len))
    }

    /// The value's bytes; `nil` for a tombstone.
    public func withValue<Result>(_ body: (UnsafeRawBufferPointer?) throws -> Result) rethrows -> Result {
        guard let value = message.pointee.payload else { return try body(nil) }
        return try body(UnsafeRawBufferPointer(start: value, count: message.pointee.len))
    }

    /// Bytes of key and value together, for bounding batches.
    public var byteCount: Int { message.pointee.key_len + message.pointee.len }

    /// The last header of that name; `nil` when there is none, or when its value is null.
    public func withHeader<Result>(
        named name: StaticString,
        _ body: (UnsafeRawBufferPointer?) throws -> Result
    ) rethrows -> Result {
        var value: UnsafeRawPointer?
        var size = 0
        let cName = UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
        guard let headers, rd_kafka_header_get_last(headers, cName, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR,
            let value
        else { return try body(nil) }
        return try body(UnsafeRawBufferPointer(start: value, count: size))
    }

    /// A copy of the last header of that name.
    public func header(named name: StaticString) -> [UInt8]? {
        withHeader(named: name) { $0.map(Array.init) }
    }

    /// All headers in their order: the name's bytes and the value's (`nil`: null).
    public func forEachHeader(
        _ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer?) throws -> Void
    ) rethrows {
        guard let headers else { return }
        var index = 0
        var name: UnsafePointer<CChar>?
        var value: UnsafeRawPointer?
        var size = 0
        while rd_kafka_header_get_all(headers, index, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            index += 1
            guard let name else { continue }
            var length = 0
            while name[length] != 0 { length += 1 }
            try body(
                UnsafeRawBufferPointer(start: name, count: length),
                value.map { UnsafeRawBufferPointer(start: $0, count: size) }
            )
        }
    }

    /// Parsed by the library at the first use; headers that it can't parse count as none.
    private var headers: OpaquePointer? {
        var headers: OpaquePointer?
        guard rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return nil }
        return headers
    }
}

/// Topic names as Swift strings, so that records of a few topics share them.
struct TopicNames {
    private var names: [(utf8: ContiguousArray<CChar>, text: String)] = []

    mutating func name(of topic: OpaquePointer?) -> String {
        guard let topic, let raw = rd_kafka_topic_name(topic) else { return "" }
        for known in names where known.utf8.withUnsafeBufferPointer({ equal($0.baseAddress, raw) }) {
            return known.text
        }
        let text = String(cString: raw)
        // Bounded, should a pattern match very many topics.
        if names.count < 64 { names.append((ContiguousArray(text.utf8CString), text)) }
        return text
    }

    private func equal(_ left: UnsafePointer<CChar>?, _ right: UnsafePointer<CChar>) -> Bool {
        guard let left else { return false }
        var index = 0
        while left[index] == right[index] {
            if left[index] == 0 { return true }
            index += 1
        }
        return false
    }
}

public import Domain
internal import Kafka
public import MessageContract

/// Writes records as ingest does, straight to a topic.
public final class RecordPublisher {
    private let producer: KafkaProducer
    private var generator = SystemRandomNumberGenerator()
    private var failures = 0

    public init(bootstrapServers: String, topics: [Topic] = [.daysLive, .daysHistory, .accounts]) throws {
        producer = try KafkaProducer(
            // Poison may be larger than what ingest writes.
            properties: [("bootstrap.servers", bootstrapServers), ("message.max.bytes", "4000000")],
            topics: topics.map { $0.name(prefix: "") },
            log: { _ in }
        )
        try producer.prime(timeoutMilliseconds: 20_000)
    }

    /// One record of days, dated and versioned by `receivedAt`.
    public func publish(
        _ user: UserID,
        _ source: Source,
        receivedAt: Instant,
        observedAt: Instant? = nil,
        localDate: CalendarDay,
        lane: Lane = .live,
        _ days: [(CalendarDay, MetricValues)]
    ) throws {
        let record = DaysRecord(
            source: source,
            origin: "",
            observedAt: observedAt,
            timeZone: "UTC",
            localDate: localDate,
            days: days.map { DaysRecord.Day(date: $0.0, values: $0.1) }
        )
        try publish(raw: record.encoded(), key: user.description, schema: "days/1", receivedAt: receivedAt, lane: lane)
    }

    /// What a person decided about their account.
    public func publish(_ user: UserID, _ change: AccountRecord, receivedAt: Instant) throws {
        try publish(
            raw: change.encoded(),
            key: user.description,
            schema: "account/1",
            receivedAt: receivedAt,
            topicIndex: 2
        )
    }

    /// Anything at all, to make what no ingest would write.
    public func publish(
        raw value: [UInt8],
        key: String,
        schema: String,
        receivedAt: Instant,
        lane: Lane = .live
    ) throws {
        let index = lane == .live ? 0 : 1
        try publish(raw: value, key: key, schema: schema, receivedAt: receivedAt, topicIndex: index)
    }

    /// A record that was read from a topic, once more: the same key, value and headers.
    public func publish(again record: StoredRecord, lane: Lane = .live) throws {
        let key = Array((record.key ?? "").utf8)
        while true {
            do {
                try key.withUnsafeBytes { key in
                    try Array(record.value.utf8).withUnsafeBytes { value in
                        let index = lane == .live ? 0 : 1
                        try producer.produce(topicIndex: index, key: key, value: value, tag: 0) { headers in
                            for (name, value) in record.headers {
                                Array(name.utf8).withUnsafeBytes { name in
                                    Array(value.utf8).withUnsafeBytes { headers.add(nameBytes: name, $0) }
                                }
                            }
                        }
                    }
                }
                return
            } catch let error as KafkaError where error.isQueueFull {
                try flush()
            }
        }
    }

    private func publish(
        raw value: [UInt8],
        key: String,
        schema: String,
        receivedAt: Instant,
        topicIndex index: Int
    ) throws {
        let event = UUID128.version7(at: receivedAt, random: (generator.next(), generator.next()))
        while true {
            do {
                try Array(key.utf8).withUnsafeBytes { key in
                    try value.withUnsafeBytes { value in
                        try producer.produce(topicIndex: index, key: key, value: value, tag: 0) { headers in
                            headers.add(HeaderName.schema, schema)
                            headers.add(HeaderName.eventID, event.description)
                            headers.add(HeaderName.receivedAt, receivedAt.description)
                        }
                    }
                }
                return
            } catch let error as KafkaError where error.isQueueFull {
                try flush()
            }
        }
    }

    /// Waits until every record is acknowledged.
    public func flush() throws {
        var failure: KafkaError?
        let left = producer.flush(timeoutMilliseconds: 30_000) { if let error = $0.error { failure = error } }
        if let failure { throw failure }
        if left > 0 { throw Eventually.TimedOut(what: "\(left) records without an acknowledgement") }
    }
}

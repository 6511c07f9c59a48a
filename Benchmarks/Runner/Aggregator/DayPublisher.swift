import Domain
import Glibc
import Kafka
import MessageContract
import ServiceRuntime

/// Writes records of days as ingest does, fast, and knows how many each partition holds.
final class DayPublisher {
    private let producer: KafkaProducer
    private let partitions: Int
    private var generator = SplitMix64(seed: 99)
    /// Where each partition's log ends.
    private(set) var ends: [Int64]
    private(set) var bytes = 0

    /// `topic`: one that exists and is empty, with this number of partitions.
    init(_ kafka: AggregatorKafka, topic: String) throws {
        partitions = AggregatorKafka.partitions
        producer = try KafkaProducer(
            properties: [
                ("bootstrap.servers", kafka.bootstrapServers), ("linger.ms", "20"), ("batch.num.messages", "10000"),
                ("queue.buffering.max.messages", "200000"), ("message.max.bytes", "1000000"),
            ],
            topics: [topic],
            log: { _ in }
        )
        ends = Array(repeating: 0, count: AggregatorKafka.partitions)
        try producer.prime(timeoutMilliseconds: 20_000)
    }

    /// One record of one user's days. Returns its partition and offset.
    @discardableResult
    func publish(
        _ people: People,
        user: Int,
        source: Source = .appleHealth,
        round: Int,
        _ days: [DaysRecord.Day]
    ) throws -> (partition: Int, offset: Int64) {
        let id = People.user(user)
        let time = people.time(ofRound: round)
        let record = DaysRecord(
            source: source,
            observedAt: time,
            timeZone: "UTC",
            localDate: people.today,
            days: days
        )
        let event = UUID128.version7(at: time, random: (generator.next(), generator.next()))
        return try publish(user: id, record.encoded()) { headers in
            headers.add(HeaderName.schema, Schema.days1.id.description)
            headers.add(HeaderName.eventID, event.description)
            headers.add(HeaderName.receivedAt, time.description)
        }
    }

    @discardableResult
    func publish(
        user: UserID,
        _ value: [UInt8],
        headers: (borrowing KafkaHeaderWriter) -> Void = { _ in }
    ) throws -> (partition: Int, offset: Int64) {
        let partition = Partitioner.partition(of: user, partitions: partitions)
        var key: [UInt8] = []
        user.append(to: &key)
        while true {
            do {
                try key.withUnsafeBytes { key in
                    try value.withUnsafeBytes { value in
                        try producer.produce(
                            topicIndex: 0,
                            partition: Int32(partition),
                            key: key,
                            value: value,
                            tag: 0,
                            headers: headers
                        )
                    }
                }
                break
            } catch let error as KafkaError where error.isQueueFull {
                try drain()
                _ = poll(nil, 0, 1)
            }
        }
        bytes += value.count
        defer { ends[partition] += 1 }
        return (partition, ends[partition])
    }

    /// Takes the reports that are there.
    func drain() throws {
        var failure: KafkaError?
        producer.drainReports { if let error = $0.error { failure = error } }
        if let failure { throw failure }
    }

    /// Waits until every record is acknowledged.
    func flush() throws {
        var failure: KafkaError?
        let left = producer.flush(timeoutMilliseconds: 60_000) { if let error = $0.error { failure = error } }
        if let failure { throw failure }
        if left > 0 { throw BenchmarkFailure("Kafka did not acknowledge \(left) records within a minute") }
    }
}

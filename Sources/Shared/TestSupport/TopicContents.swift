import Kafka

/// A record as it lies in a topic.
public struct StoredRecord: Sendable {
    public let partition: Int32
    public let offset: Int64
    public let timestampMilliseconds: Int64
    public let key: String?
    public let value: String
    public let headers: [String: String]
}

extension KafkaUnderTest {
    /// All records that the topic's first partitions hold now.
    public func records(in topic: String, partitions: Int) throws -> [StoredRecord] {
        let reader = try KafkaReader(properties: properties(), log: { _ in })
        var found: [StoredRecord] = []
        for partition in 0..<Int32(clamping: partitions) {
            let place = TopicPartition(topic: topic, partition: partition)
            let marks = try reader.watermarks(place, timeoutMilliseconds: 10_000)
            guard marks.high > marks.low else { continue }
            try reader.start(place, from: .beginning)
            defer { reader.stop() }
            try Eventually.holds("\(place) can be read", seconds: 20) {
                while let record = try reader.next(timeoutMilliseconds: 500) {
                    found.append(StoredRecord(record))
                    if record.offset >= marks.high - 1 { return true }
                }
                return false
            }
        }
        return found
    }
}

extension StoredRecord {
    fileprivate init(_ record: KafkaRecord) {
        var headers: [String: String] = [:]
        record.forEachHeader { name, value in
            headers[String(decoding: name, as: UTF8.self)] = value.map { String(decoding: $0, as: UTF8.self) }
        }
        self.headers = headers
        partition = record.partition
        offset = record.offset
        timestampMilliseconds = record.timestampMilliseconds
        key = record.withKey { $0.map { String(decoding: $0, as: UTF8.self) } }
        value = record.withValue { $0.map { String(decoding: $0, as: UTF8.self) } } ?? ""
    }
}

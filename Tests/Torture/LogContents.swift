import Foundation
import Kafka
import TestSupport

/// The records of the topics that a worker applies, as they lie in the log.
struct LogContents {
    private(set) var records: [LogRecord] = []
    /// By topic/partition.
    private(set) var ends: [TopicPartition: Int64] = [:]

    /// Reads every partition from its beginning to its end of now.
    static func read(_ topics: [String], partitions: Int, over kafka: KafkaUnderTest) throws -> LogContents {
        var contents = LogContents()
        for topic in topics {
            for partition in 0..<Int32(clamping: partitions) {
                try contents.read(TopicPartition(topic: topic, partition: partition), over: kafka)
            }
        }
        return contents
    }

    private mutating func read(_ place: TopicPartition, over kafka: KafkaUnderTest) throws {
        let reader = try KafkaReader(properties: kafka.properties(), log: { _ in })
        let marks = try Self.patiently("\(place) has a leader") {
            try reader.watermarks(place, timeoutMilliseconds: 5000)
        }
        ends[place] = marks.high
        guard marks.low == 0 else {
            throw Eventually.TimedOut(what: "\(place) lost its beginning: make the run shorter, or its records fewer")
        }
        guard marks.high > 0 else { return }
        try reader.start(place, from: .beginning)
        defer { reader.stop() }
        try Eventually.holds("\(place) can be read", seconds: 60) {
            while let record = try reader.next(timeoutMilliseconds: 500) {
                records.append(LogRecord(record))
                if record.offset >= marks.high - 1 { return true }
            }
            return false
        }
    }

    /// Where each partition ends now.
    static func ends(
        _ topics: [String],
        partitions: Int,
        over kafka: KafkaUnderTest
    ) throws -> [TopicPartition: Int64] {
        let reader = try KafkaReader(properties: kafka.properties(), log: { _ in })
        var ends: [TopicPartition: Int64] = [:]
        for topic in topics {
            for partition in 0..<Int32(clamping: partitions) {
                let place = TopicPartition(topic: topic, partition: partition)
                ends[place] = try patiently("\(place) has a leader") {
                    try reader.watermarks(place, timeoutMilliseconds: 5000).high
                }
            }
        }
        return ends
    }

    private static func patiently<Result>(_ what: String, _ body: () throws -> Result) throws -> Result {
        var result: Result?
        try Eventually.holds(what, seconds: 60) {
            result = try? body()
            return result != nil
        }
        guard let result else { throw Eventually.TimedOut(what: what) }
        return result
    }
}

extension LogRecord {
    init(_ record: KafkaRecord) {
        var headers: [(name: String, value: [UInt8]?)] = []
        record.forEachHeader { name, value in
            headers.append((String(decoding: name, as: UTF8.self), value.map { Array($0) }))
        }
        self.init(
            topic: record.topic,
            partition: record.partition,
            offset: record.offset,
            timestampMilliseconds: record.timestampMilliseconds,
            key: record.withKey { $0.map { Array($0) } },
            value: record.withValue { $0.map { Array($0) } },
            headers: headers
        )
    }
}

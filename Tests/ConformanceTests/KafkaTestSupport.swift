import Kafka
import Synchronization
import TestSupport
import Testing

/// A record as a test wants to compare it.
struct Seen: Equatable {
    var partition: Int32
    var offset: Int64
    var key: [UInt8]?
    var value: [UInt8]?
    var headers: [String: [UInt8]?] = [:]

    init(_ record: KafkaRecord) {
        partition = record.partition
        offset = record.offset
        key = record.withKey { $0.map(Array.init) }
        value = record.withValue { $0.map(Array.init) }
        record.forEachHeader { name, value in
            headers[String(decoding: name, as: UTF8.self)] = .some(value.map(Array.init))
        }
    }
}

struct TimedOut: Error {
    let what: String
}

/// Lines that a client logged.
final class LogLines: Sendable {
    private let lines = Mutex<[KafkaLogLine]>([])

    var log: KafkaLog { { line in self.lines.withLock { $0.append(line) } } }

    var errors: [KafkaError] {
        lines.withLock { $0 }.compactMap { line in if case .error(let error) = line.kind { error } else { nil } }
    }
}

extension KafkaProducer {
    func send(
        _ value: String,
        key: String? = nil,
        partition: Int32? = nil,
        tag: UInt64 = 0,
        headers: (borrowing KafkaHeaderWriter) -> Void = { _ in }
    ) throws(KafkaError) {
        let value = Array(value.utf8)
        let key = key.map { Array($0.utf8) }
        var failure: KafkaError?
        func send(_ key: UnsafeRawBufferPointer?) {
            value.withUnsafeBytes { value in
                do throws(KafkaError) {
                    try produce(
                        topicIndex: 0,
                        partition: partition,
                        key: key,
                        value: value,
                        tag: tag,
                        headers: headers
                    )
                } catch {
                    failure = error
                }
            }
        }
        if let key { key.withUnsafeBytes { send($0) } } else { send(nil) }
        if let failure { throw failure }
    }

    /// Waits for all reports as an owner with an event loop would: on the descriptor.
    func awaitReports(_ count: Int, seconds: Int = 20) throws -> [DeliveryReport] {
        var reports: [DeliveryReport] = []
        let end = ContinuousClock.now + .seconds(seconds)
        while reports.count < count {
            guard ContinuousClock.now < end else { throw TimedOut(what: "\(count) reports, got \(reports.count)") }
            waitReadable(reportsDescriptor, milliseconds: 500)
            drainReports { reports.append($0) }
        }
        return reports
    }

    @discardableResult
    func sendAndConfirm(_ values: [String], key: String? = nil, partition: Int32? = nil) throws -> [DeliveryReport] {
        for (index, value) in values.enumerated() {
            try send(value, key: key, partition: partition, tag: UInt64(index))
        }
        let reports = try awaitReports(values.count)
        for report in reports { if let error = report.error { throw error } }
        return reports
    }
}

extension KafkaConsumer {
    /// Polls until `body` gives something; records, rebalances and errors all pass through it.
    @discardableResult
    func pollUntil<Result>(
        _ what: String,
        seconds: Int = 30,
        _ body: (KafkaPoll) throws -> Result?
    ) throws -> Result {
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            if let result = try body(poll(timeoutMilliseconds: 100)) { return result }
        }
        throw TimedOut(what: what)
    }

    /// Waits for an assignment and reads all its partitions from `start`.
    @discardableResult
    func awaitAssignment(from start: KafkaStart = .beginning) throws -> [TopicPartition] {
        try pollUntil("an assignment") { found in
            guard case .assigned(let partitions) = found else { return nil }
            try assign(partitions.map { ($0, start) })
            return partitions.sorted()
        }
    }

    func awaitRecords(_ count: Int) throws -> [Seen] {
        var records: [Seen] = []
        return try pollUntil("\(count) records") { found in
            switch found {
            case .record(let record): records.append(Seen(record))
            case .partitionError(_, let error): throw error
            default: break
            }
            return records.count == count ? records : nil
        }
    }
}

extension KafkaUnderTest {
    func producer(
        _ topic: String,
        _ more: [(String, String)] = [],
        log: @escaping KafkaLog = { _ in }
    ) throws -> KafkaProducer {
        let producer = try KafkaProducer(properties: properties(more), topics: [topic], log: log)
        try producer.prime(timeoutMilliseconds: 20_000)
        return producer
    }

    func consumer(_ topic: String, group: String, _ more: [(String, String)] = []) throws -> KafkaConsumer {
        let properties = properties([("group.id", group), ("session.timeout.ms", "6000")] + more)
        return try KafkaConsumer(properties: properties, topics: [topic], log: { _ in })
    }

    func reader() throws -> KafkaReader {
        try KafkaReader(properties: properties(), log: { _ in })
    }

    func records(_ topic: String, partition: Int32 = 0, count: Int) throws -> [KafkaRecord] {
        let reader = try reader()
        try reader.start(TopicPartition(topic: topic, partition: partition), from: .beginning)
        var records: [KafkaRecord] = []
        while records.count < count {
            guard let record = try reader.next(timeoutMilliseconds: 10_000) else {
                throw TimedOut(what: "\(count) records, got \(records.count)")
            }
            records.append(record)
        }
        return records
    }
}

import Configuration
import DevelopmentStack
import Domain
import Kafka
import MessageContract
import Storage

/// Sends dead letters to their topics again: key, value and headers as they were, with the attempt that failed.
final class Redriving {
    struct Outcome: Sendable {
        var sent = 0
        /// By why they could not be.
        var left: [String: Int] = [:]
        var isStopped = false
    }

    /// Letters are marked once they are acknowledged, so many at a time: killed in between, at most these are sent
    /// twice, which changes nothing.
    static let portion = 200

    private let desk: DeadLetterDesk
    private let topics: [String]
    private let producer: KafkaProducer
    private let signals: StopSignals
    private var pacer: Pacer
    private var pending: [DeadLetterIdentity] = []
    private(set) var outcome = Outcome()

    /// - Parameters:
    ///   - desk: where the letters were found.
    ///   - rate: records a second; nil for as fast as it goes.
    ///   - signals: end it, between two records.
    /// - Throws: where Kafka does not answer.
    init(_ desk: DeadLetterDesk, rate: Int?, _ signals: StopSignals) throws {
        self.desk = desk
        self.signals = signals
        topics = Topic.allCases.filter { $0 != .deadLetters }
            .map { $0.name(prefix: desk.access.configuration.topicPrefix) }
        producer = try desk.access.kafkaProducer(
            topics: topics,
            [("message.max.bytes", String(Topic.deadLetters.maximumRecordBytes))]
        )
        try producer.prime(timeoutMilliseconds: 15_000)
        pacer = Pacer(rate: rate, now: monotonicSeconds())
    }

    /// Reads the dead-letter topic once, and sends what is meant by the way.
    ///
    /// - Parameters:
    ///   - letters: in any order.
    ///   - progress: told how many are done.
    /// - Throws: where Kafka does not confirm; what was confirmed before is marked.
    func run(_ letters: [KnownLetter], _ progress: (Int) -> Void) throws {
        do {
            try send(letters, progress)
        } catch {
            // What is on its way is marked whatever stood in the way of the next one.
            try? confirm()
            throw error
        }
        try confirm()
    }

    private func send(_ letters: [KnownLetter], _ progress: (Int) -> Void) throws {
        let scan = LogScan(try desk.access.kafkaReader())
        let clusterID = try desk.clusterID()
        let places = Dictionary(letters.map { ($0.letter.place, $0.letter) }) { first, _ in first }
        let partitions = Dictionary(grouping: places.keys, by: \.partition)
        var done = 0
        var whole: [DeadLetter] = []
        for (partition, found) in partitions.sorted(by: { $0.key < $1.key }) {
            let offsets = found.map(\.offset)
            guard let first = offsets.min(), let last = offsets.max() else { continue }
            let place = TopicPartition(topic: desk.topic, partition: partition)
            try scan.read(LogScan.Stretch(place: place, start: first, end: last + 1)) { record in
                let place = DeadLetter.Place(partition: record.partition, offset: record.offset)
                guard let letter = places[place] else { return true }
                if letter.omittedBytes != nil {
                    whole.append(letter)
                    return true
                }
                guard try take(letter, record) else { return false }
                done += 1
                progress(done)
                return true
            }
            if outcome.isStopped { break }
        }
        // What was too large to be kept is fetched from where it stood, one by one.
        for letter in whole where !outcome.isStopped {
            guard let record = try desk.record(of: letter, scan, clusterID: clusterID) else {
                outcome.left["gone", default: 0] += 1
                continue
            }
            guard try take(letter, record) else { break }
            done += 1
            progress(done)
        }
    }

    /// False once it was told to stop.
    private func take(_ letter: DeadLetter, _ record: KafkaRecord) throws -> Bool {
        let wait = pacer.take(now: monotonicSeconds())
        if signals.wait(milliseconds: Int(wait * 1000)) != nil {
            outcome.isStopped = true
            return false
        }
        guard let topic = topics.firstIndex(of: letter.identity.topic) else {
            outcome.left["no_such_topic", default: 0] += 1
            return true
        }
        do {
            try Self.send(record, letter, topic, over: producer, tag: UInt64(pending.count))
        } catch let error as KafkaError where error.isRecordTooLarge {
            outcome.left["too_large", default: 0] += 1
            return true
        } catch let error as KafkaError where error.isQueueFull {
            try confirm()
            try Self.send(record, letter, topic, over: producer, tag: UInt64(pending.count))
        }
        pending.append(letter.identity)
        if pending.count >= Self.portion { try confirm() }
        return true
    }

    private static func send(
        _ record: KafkaRecord,
        _ letter: DeadLetter,
        _ topicIndex: Int,
        over producer: KafkaProducer,
        tag: UInt64
    ) throws {
        try record.withKey { key in
            try record.withValue { value in
                try producer.produce(topicIndex: topicIndex, key: key, value: value, tag: tag) { headers in
                    record.forEachHeader { name, value in
                        if !DeadLetterHeaders.contains(name) { headers.add(nameBytes: name, value) }
                    }
                    headers.add(DeadLetterHeaders.attempt, String(letter.identity.attempt))
                }
            }
        }
    }

    /// Waits for the acknowledgements, and marks what was acknowledged.
    private func confirm() throws {
        guard !pending.isEmpty else { return }
        defer { pending.removeAll() }
        var confirmed: [DeadLetterIdentity] = []
        var failure: KafkaError?
        var refused = 0
        producer.flush(timeoutMilliseconds: 40_000) { report in
            if let error = report.error {
                if error.isRecordTooLarge { refused += 1 } else { failure = error }
            } else if let place = Int(exactly: report.tag), pending.indices.contains(place) {
                confirmed.append(pending[place])
            }
        }
        let mark = DeadLetterMark(state: .redriven, markedAt: Instant.now.microseconds)
        try desk.marks.set(mark, confirmed)
        outcome.sent += confirmed.count
        if refused > 0 { outcome.left["too_large", default: 0] += refused }
        if let failure { throw failure }
        guard confirmed.count + refused == pending.count else {
            throw CommandFailure(
                .unavailable,
                "\(pending.count - confirmed.count - refused) records were not confirmed in time",
                next: "They are still open. Run it again: a record that arrives twice changes nothing."
            )
        }
    }
}

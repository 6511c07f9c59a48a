internal import Kafka
internal import MessageContract
internal import Observability
internal import ServiceRuntime

/// Sends poison records to the dead-letter topic as they were, with where they came from and why. Never with a value
/// in a header (D11). Belongs to one thread.
final class DeadLetterWriter {
    struct Letter {
        let record: KafkaRecord
        /// A `PoisonReason` code, or one of the worker's own.
        let reason: String
    }

    /// A batch whose dead letters are not acknowledged within this time is given up and tried again.
    static let limitMilliseconds: Int32 = 5000

    private let properties: KafkaProperties.List
    private let topic: String
    private let build: String
    private let log: Log
    private var producer: KafkaProducer?
    /// A larger record is sent without what it holds, since one that can't be sent would stop its partition (D9).
    private var largest = Topic.deadLetters.maximumRecordBytes - 8192

    init(properties: KafkaProperties.List, topic: String, build: String, log: Log) {
        self.properties = properties
        self.topic = topic
        self.build = build
        self.log = log
    }

    /// Blocks until every letter is acknowledged, or the limit. True only if all are.
    func write(_ letters: [Letter], clusterID: String) -> Bool {
        guard !letters.isEmpty else { return true }
        do {
            let producer = try open()
            for (index, letter) in letters.enumerated() {
                try send(letter, clusterID: clusterID, tag: UInt64(index), over: producer)
            }
            var acknowledged = 0
            var failure: KafkaError?
            let left = producer.flush(timeoutMilliseconds: Self.limitMilliseconds) { report in
                if let error = report.error { failure = error } else { acknowledged += 1 }
            }
            if failure?.isRecordTooLarge == true {
                // The topic takes less than it should: come down to what it takes.
                largest = max(16_384, largest / 2)
            }
            if let failure { throw failure }
            if left == 0 && acknowledged == letters.count { return true }
            log.warning("dead letters were not acknowledged in time; the batch will be tried again")
        } catch {
            log.warning(
                "dead letters were not acknowledged; the batch will be tried again",
                [.error: .text((error as? KafkaError)?.message ?? "unexpected")]
            )
        }
        // Late reports of this attempt would be taken for those of the next one.
        close()
        return false
    }

    func close() {
        producer?.close(timeoutMilliseconds: 0) { _ in }
        producer = nil
    }

    private func open() throws(KafkaError) -> KafkaProducer {
        if let producer { return producer }
        let log = log
        let sized = [("message.max.bytes", String(Topic.deadLetters.maximumRecordBytes))] + properties
        let made = try KafkaProducer(properties: sized, topics: [topic]) { line in
            log.debug("kafka", [.reason: .text(line.text)])
        }
        producer = made
        return made
    }

    private func send(
        _ letter: Letter,
        clusterID: String,
        tag: UInt64,
        over producer: KafkaProducer
    ) throws {
        let record = letter.record
        let before = record.header(named: DeadLetterHeaders.attempt)
        let attempt = before.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
        var size = record.byteCount
        record.forEachHeader { name, value in size += name.count + (value?.count ?? 0) }
        let isWhole = size <= largest
        try record.withKey { key in
            try record.withValue { value in
                let key = isWhole || key?.count ?? 0 <= 1024 ? key : nil
                try producer.produce(topicIndex: 0, key: key, value: isWhole ? value : nil, tag: tag) { headers in
                    if isWhole {
                        record.forEachHeader { name, value in
                            if !DeadLetterHeaders.contains(name) { headers.add(nameBytes: name, value) }
                        }
                    } else {
                        headers.add(DeadLetterHeaders.omittedBytes, String(size))
                    }
                    headers.add(DeadLetterHeaders.topic, record.topic)
                    headers.add(DeadLetterHeaders.partition, String(record.partition))
                    headers.add(DeadLetterHeaders.offset, String(record.offset))
                    headers.add(DeadLetterHeaders.timestamp, String(record.timestampMilliseconds))
                    headers.add(DeadLetterHeaders.clusterID, clusterID)
                    headers.add(DeadLetterHeaders.reason, letter.reason)
                    headers.add(DeadLetterHeaders.build, build)
                    headers.add(DeadLetterHeaders.attempt, String(min(max(attempt, 0), 1_000_000) + 1))
                }
            }
        }
    }
}

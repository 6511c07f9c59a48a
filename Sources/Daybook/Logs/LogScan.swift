import Kafka
import MessageContract

/// Reads stretches of topics beside the workers, without a group. One thread.
final class LogScan {
    /// Records of one partition, from `start` up to, not including, `end`.
    struct Stretch: Hashable, Sendable {
        let place: TopicPartition
        let start: Int64
        let end: Int64

        var count: Int64 { max(0, end - start) }
    }

    /// A log that gives nothing for this long, though its end is not reached, is given up.
    private static let silenceMilliseconds: Int32 = 15_000

    private let reader: KafkaReader

    init(_ reader: KafkaReader) {
        self.reader = reader
    }

    /// All that the topic holds now, by partition; nothing for a topic that is not there.
    static func everything(in topic: String, _ admin: KafkaAdmin) throws -> [Stretch] {
        let count: Int
        do throws(KafkaError) {
            count = try admin.describe(topic, timeoutMilliseconds: 10_000).partitions
        } catch {
            if error.isUnknownTopic { return [] }
            throw error
        }
        return try (0..<Int32(clamping: count)).map { partition in
            let place = TopicPartition(topic: topic, partition: partition)
            let log = try admin.watermarks(place, timeoutMilliseconds: 10_000)
            return Stretch(place: place, start: log.low, end: log.high)
        }
    }

    /// Hands out the stretch's records in order, until the body says no.
    ///
    /// - Throws: `KafkaError`, for example where retention drops records while they are read, or what the body throws.
    func read(_ stretch: Stretch, _ body: (KafkaRecord) throws -> Bool) throws {
        guard stretch.count > 0 else { return }
        try reader.start(stretch.place, from: .offset(stretch.start))
        defer { reader.stop() }
        while let record = try reader.next(timeoutMilliseconds: Self.silenceMilliseconds) {
            // A gap may end behind the stretch.
            guard record.offset < stretch.end, try body(record), record.offset < stretch.end - 1 else { return }
        }
        throw CommandFailure(
            .unavailable,
            "\(stretch.place) could not be read to offset \(stretch.end)",
            next: "Run it again; `daybook status` shows whether Kafka answers."
        )
    }

    /// The record at exactly this place, if it is there.
    func record(_ place: TopicPartition, at offset: Int64) throws -> KafkaRecord? {
        try reader.record(place, at: offset, timeoutMilliseconds: 15_000)
    }
}

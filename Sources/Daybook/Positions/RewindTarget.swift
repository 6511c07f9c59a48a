import Domain
import Kafka

/// Where a position is to go.
enum RewindTarget: Hashable, Sendable {
    case beginning
    case end
    case offset(Int64)
    /// The first record that the broker appended then or later.
    case time(Instant)

    /// `beginning`, `end`, an offset, an RFC 3339 time, or a length of time ago such as `2h`.
    /// `option` and `command` are for the error.
    init(_ text: String, now: Instant, option: String = "to", command: String = "rewind") throws {
        if text == "beginning" {
            self = .beginning
        } else if text == "end" {
            self = .end
        } else if let offset = Int64(text), offset >= 0 {
            self = .offset(offset)
        } else if let instant = Instant(rfc3339: text) {
            self = .time(instant)
        } else {
            var arguments = Arguments(command: command)
            arguments.add(value: text, to: option)
            guard let ago = try? arguments.duration(option) else {
                throw CommandFailure.usage(
                    "--\(option) takes an offset, beginning, end, a time such as \(now), or a length of time ago, "
                        + "not '\(text)'",
                    next: "`daybook \(command) --help` shows examples."
                )
            }
            self = .time(now.advanced(bySeconds: -ago))
        }
    }
}

extension RewindTarget {
    /// Asks Kafka, for a time, where each partition's log was then: nil where it has nothing since, and for all else.
    ///
    /// - Parameters:
    ///   - places: the partitions.
    ///   - admin: of their Kafka.
    ///   - instead: what may be given where Kafka can't look up a time.
    /// - Returns: an offset a partition.
    /// - Throws: `CommandFailure` on the development broker, else `KafkaError`.
    func offsetsAtTime(of places: [TopicPartition], _ admin: KafkaAdmin, instead: String) throws -> [Int64?] {
        guard case .time(let instant) = self else { return places.map { _ in nil } }
        do throws(KafkaError) {
            // Up to the next millisecond: nothing that was appended before is meant.
            let milliseconds = (instant.microseconds + 999) / 1000
            return try admin.offsets(at: milliseconds, places, timeoutMilliseconds: 20_000)
        } catch {
            guard error.isUnsupported else { throw error }
            throw CommandFailure(.unavailable, "the development broker can't look up a time", next: instead)
        }
    }

    /// The offset that is meant in a partition's log.
    ///
    /// - Parameters:
    ///   - log: as it is now.
    ///   - atTime: what `offsetsAtTime` found for it.
    ///   - place: the partition, for the error.
    ///   - next: what to do about an offset that lies outside.
    /// - Returns: the offset of the record to begin with, or the log's end.
    /// - Throws: `CommandFailure` for an offset outside of the log.
    func offset(in log: KafkaWatermarks, atTime: Int64?, of place: String, next: String) throws -> Int64 {
        switch self {
        case .beginning: return log.low
        case .end: return log.high
        case .time: return atTime ?? log.high
        case .offset(let offset):
            guard (log.low...max(log.low, log.high)).contains(offset) else {
                throw CommandFailure(
                    .failure,
                    "the log of \(place) holds offsets from \(log.low) to \(log.high), not \(offset)",
                    next: next
                )
            }
            return offset
        }
    }
}

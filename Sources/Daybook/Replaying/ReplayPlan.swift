import Domain
import Kafka
import MessageContract

/// Which stretches of which partitions a replay reads. Pure.
struct ReplayPlan: Hashable, Sendable {
    /// A partition's log as it is now.
    struct Place: Sendable {
        let place: TopicPartition
        let log: KafkaWatermarks
        /// How many partitions the topic has.
        var partitions = 1
        /// Only for times: the first record since then, nil for none.
        var fromAtTime: Int64?
        var toAtTime: Int64?
    }

    let stretches: [LogScan.Stretch]
    /// By topic, also those partitions that are not read.
    let partitions: [String: Int]

    var records: Int64 { stretches.reduce(0) { $0 &+ $1.count } }

    /// - Throws: where an offset is given for more than one partition, or lies outside of its log.
    init(_ places: [Place], from: RewindTarget, to: RewindTarget) throws {
        for target in [from, to] {
            guard case .offset = target, places.count != 1 else { continue }
            throw CommandFailure.usage(
                "an offset is a place in one partition, and \(places.count) are meant",
                next: "Name one with --topic and --partition, or give a time or beginning."
            )
        }
        partitions = Dictionary(places.map { ($0.place.topic, $0.partitions) }) { first, _ in first }
        stretches = try places.map { place in
            let start = try Self.offset(from, place, place.fromAtTime)
            let end = try Self.offset(to, place, place.toAtTime)
            return LogScan.Stretch(place: place.place, start: start, end: max(start, end))
        }
    }

    private static func offset(_ target: RewindTarget, _ place: Place, _ atTime: Int64?) throws -> Int64 {
        let next = "Name one of these, or beginning or end."
        // Retention may have passed what was found a moment ago.
        return max(place.log.low, try target.offset(in: place.log, atTime: atTime, of: "\(place.place)", next: next))
    }

    /// The partitions in which records of a user can lie: that of today's count, and those of the smaller counts that
    /// there may have been, since counts are powers of two.
    static func partitions(of user: UserID, count: Int) -> Set<Int32> {
        var found: Set<Int32> = []
        var earlier = 1
        while earlier <= count {
            found.insert(Int32(clamping: Partitioner.partition(of: user, partitions: earlier)))
            earlier *= 2
        }
        found.insert(Int32(clamping: Partitioner.partition(of: user, partitions: count)))
        return found
    }
}

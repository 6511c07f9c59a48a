import Domain
import Kafka
import Storage

/// Which partitions a command means: `TOPIC`, `TOPIC/PARTITION` or `all`.
enum PartitionChoice: Hashable, Sendable {
    case all
    case topic(String)
    case partition(PartitionName)

    init(_ text: String) throws {
        if text == "all" {
            self = .all
            return
        }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        switch parts.count {
        case 1 where !text.isEmpty: self = .topic(text)
        case 2 where !parts[0].isEmpty:
            guard let number = Int32(parts[1]), number >= 0 else { fallthrough }
            self = .partition(PartitionName(topic: String(parts[0]), partition: number))
        default:
            throw CommandFailure.usage(
                "'\(text)' is no topic and no partition of one",
                next: "It takes the form TOPIC or TOPIC/NUMBER, as `daybook offsets` shows them."
            )
        }
    }

    /// Those of the known ones that are meant.
    ///
    /// - Throws: where none is, with the names that there are.
    func among(_ known: [PartitionName]) throws -> [PartitionName] {
        let chosen = known.filter { name in
            switch self {
            case .all: true
            case .topic(let topic): name.topic == topic
            case .partition(let partition): name == partition
            }
        }
        if !chosen.isEmpty || self == .all { return chosen }
        let topics = Set(known.map(\.topic)).sorted()
        let next =
            topics.isEmpty
            ? "No worker has read anything yet: the first one starts at the beginning by itself."
            : "There are positions in \(topics.joined(separator: ", ")): `daybook offsets` shows them."
        throw CommandFailure(.failure, "there is no position of \(self)", next: next)
    }
}

extension PartitionChoice: CustomStringConvertible {
    var description: String {
        switch self {
        case .all: "all"
        case .topic(let topic): topic
        case .partition(let name): name.description
        }
    }
}

/// What moving positions would do, checked before anything is moved. Pure.
struct RewindPlan: Sendable {
    struct Step: Hashable, Sendable {
        let name: PartitionName
        let from: Int64
        let to: Int64
        let log: KafkaWatermarks

        /// Records that would be applied once more.
        var repeats: Int64 { max(0, from - to) }
        /// Records that would never be applied.
        var skips: Int64 { max(0, to - from) }
    }

    /// A partition as it is now.
    struct Place: Sendable {
        let name: PartitionName
        let state: PartitionState
        let log: KafkaWatermarks
        /// Only for a time: the first record since then, nil for none.
        var offsetAtTime: Int64?
    }

    let steps: [Step]

    /// - Throws: where a target lies outside the log, in another log, or forward without `allowsSkip`.
    init(_ places: [Place], to target: RewindTarget, clusterID: String, allowsSkip: Bool) throws {
        if case .offset = target, places.count > 1 {
            throw CommandFailure.usage(
                "an offset is a place in one partition, and \(places.count) are meant",
                next: "Name one as TOPIC/NUMBER, or give --to a time or beginning."
            )
        }
        steps = try places.map { place in
            guard place.state.clusterID == clusterID, place.state.nextOffset <= place.log.high else {
                throw CommandFailure(
                    .failure,
                    "the position of \(place.name) belongs to another log than the one that is there now",
                    next: "The worker that claims it starts at this one's beginning by itself."
                )
            }
            return Step(
                name: place.name,
                from: place.state.nextOffset,
                to: try target.offset(
                    in: place.log,
                    atTime: place.offsetAtTime,
                    of: "\(place.name)",
                    next: "Name one of these, or --to beginning."
                ),
                log: place.log
            )
        }
        if !allowsSkip, let step = steps.first(where: { $0.skips > 0 }) {
            throw CommandFailure(
                .failure,
                "\(step.name) is at \(step.from): going to \(step.to) would leave out \(step.skips) records",
                next: "They would never be applied. If that is wanted, give --skip; else name an earlier place."
            )
        }
    }

    var repeats: Int64 { steps.reduce(0) { $0 &+ $1.repeats } }
    var skips: Int64 { steps.reduce(0) { $0 &+ $1.skips } }
    var targets: [PartitionName: Int64] { Dictionary(steps.map { ($0.name, $0.to) }) { first, _ in first } }

    /// As a table. `moves` is what was done; nil for a dry run.
    func text(_ moves: [PositionKeeper.Move]?, _ style: TextStyle) -> [String] {
        var table = TextTable([
            .left("PARTITION"), .right("BEFORE"), .left(""), .right("AFTER"), .right("EPOCH"),
        ])
        if let moves {
            for move in moves {
                table.add([move.name.description, String(move.from), "→", String(move.to), String(move.epoch)])
            }
        } else {
            for step in steps { table.add([step.name.description, String(step.from), "→", String(step.to), ""]) }
        }
        var lines = table.lines(style)
        if moves == nil { lines.append("dry run: nothing was moved") }
        if repeats > 0 { lines.append("\(grouped(Int(repeats))) records are applied once more, which changes nothing") }
        if skips > 0 {
            lines.append(style.bad("\(grouped(Int(skips))) records are left out") + ": they are lost to the tables")
        }
        return lines
    }

    func json(_ moves: [PositionKeeper.Move]?) -> JSONDocument {
        let rows = moves ?? steps.map { PositionKeeper.Move(name: $0.name, from: $0.from, to: $0.to, epoch: 0) }
        return .object([
            ("moved", .bool(moves != nil)), ("repeats", .integer(Int(repeats))), ("skips", .integer(Int(skips))),
            (
                "partitions",
                .array(
                    rows.map { row in
                        .object([
                            ("topic", .string(row.name.topic)), ("partition", .integer(Int(row.name.partition))),
                            ("before", .integer(Int(row.from))), ("after", .integer(Int(row.to))),
                            ("epoch", moves == nil ? .null : .integer(Int(row.epoch))),
                        ])
                    }
                )
            ),
        ])
    }
}

import AggregatorWorker
import Configuration
import Domain
import Kafka
import MessageContract

/// What `daybook replay` was asked for.
struct ReplayRequest: Sendable {
    let from: RewindTarget
    let to: RewindTarget
    /// Kinds of topics, in the order of their importance.
    let topics: [Topic]
    let partition: Int32?
    let filter: ReplayFilter
    /// The words by which an earlier call of the same is known. How fast is no part of it.
    let words: String

    static let options: [OptionSpec] = [
        .value("from", "PLACE", "beginning, an offset, a time (RFC 3339), or such as 2h (ago). It has to be given."),
        .value("to", "PLACE", "Up to there, that record not included; else the end as it is now.", default: "end"),
        .value("topic", "TOPIC", "Only this topic.", default: "all that the workers apply", repeats: true),
        .value("partition", "NUMBER", "Only this partition of the topics."),
        .value("user", "USER", "Only this user's records."),
        .value("source", "SOURCE", "Only records of this source."),
        .value("route", "ROUTE", "Only what came in by this route, as the records' header names it."),
    ]

    init(_ arguments: Arguments, prefix: String, now: Instant) throws {
        guard let place = arguments.value("from") else {
            throw CommandFailure.usage("--from is missing", next: "Such as --from beginning, or --from 2h.")
        }
        from = try RewindTarget(place, now: now, option: "from", command: "replay")
        to = try RewindTarget(arguments.value("to") ?? "end", now: now, option: "to", command: "replay")
        let known = Topic.allCases.filter(\.isApplied)
        let names = arguments.values("topic")
        topics = try names.isEmpty ? known : names.map { try Self.topic($0, among: known, prefix: prefix) }
        partition = try arguments.integer("partition", in: 0...Int(Int32.max)).map { Int32($0) }
        filter = ReplayFilter(
            user: try arguments.user("user"),
            source: try arguments.value("source").map(AccountWords.source),
            route: arguments.value("route")
        )
        words = (Self.options.map(\.name)).map { name in
            let values = arguments.values(name).sorted().joined(separator: ",")
            // The words are kept: a person's id is not, which would outlive a deletion.
            return "\(name)=\(name == "user" ? Self.digest(values) : values)"
        }.joined(separator: " ")
    }

    /// FNV-1a: enough to know the same words again.
    private static func digest(_ text: String) -> String {
        guard !text.isEmpty else { return "" }
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return String(hash, radix: 16)
    }

    private static func topic(_ text: String, among known: [Topic], prefix: String) throws -> Topic {
        let names = known.map { $0.name(prefix: prefix) }
        if let place = names.firstIndex(of: text) { return known[place] }
        let guess = nearestWord(to: text, among: names).map { "Did you mean '\($0)'? " } ?? ""
        throw CommandFailure.usage(
            "no worker applies a topic '\(text)'",
            next: guess + "There is \(names.joined(separator: ", "))."
        )
    }

    /// Asks Kafka where all of it lies; `preview`: without what changes no canonical day.
    func plan(_ access: StackAccess, _ admin: KafkaAdmin, preview: Bool = false) throws -> ReplayPlan {
        var places: [ReplayPlan.Place] = []
        for topic in topics where !preview || topic != .devices {
            let name = topic.name(prefix: access.configuration.topicPrefix)
            let count = try admin.describe(name, timeoutMilliseconds: 10_000).partitions
            let theirs = topic == .devices ? nil : filter.user.map { ReplayPlan.partitions(of: $0, count: count) }
            for number in 0..<Int32(clamping: count) {
                if let partition, partition != number { continue }
                if let theirs, !theirs.contains(number) { continue }
                let place = TopicPartition(topic: name, partition: number)
                let log = try admin.watermarks(place, timeoutMilliseconds: 10_000)
                places.append(ReplayPlan.Place(place: place, log: log, partitions: count))
            }
        }
        guard !places.isEmpty else {
            throw CommandFailure(
                .failure,
                "there is no such partition",
                next: "`daybook offsets` shows those that there are."
            )
        }
        let instead = "Give an offset, beginning or end; a real Kafka can."
        let starts = try from.offsetsAtTime(of: places.map(\.place), admin, instead: instead)
        let ends = try to.offsetsAtTime(of: places.map(\.place), admin, instead: instead)
        for index in places.indices {
            places[index].fromAtTime = starts[index]
            places[index].toAtTime = ends[index]
        }
        return try ReplayPlan(places, from: from, to: to)
    }
}

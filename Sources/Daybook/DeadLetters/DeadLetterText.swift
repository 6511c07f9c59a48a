import Domain
import MessageContract
import Storage

/// Dead letters as text and as JSON, without what the records hold. Pure.
enum DeadLetterText {
    /// Letters with one reason, of one topic, put aside by one build.
    struct Group: Hashable, Sendable {
        let reason: String
        let topic: String
        let build: String
        var states: [String: Int] = [:]
        var oldest: Instant
        var newest: Instant
        /// A letter of it to look at.
        var example: String

        var count: Int { states.values.reduce(0, +) }
    }

    /// The largest group first.
    static func groups(_ letters: [KnownLetter]) -> [Group] {
        struct Key: Hashable {
            let reason, topic, build: String
        }
        var groups: [Key: Group] = [:]
        for known in letters {
            let letter = known.letter
            let key = Key(reason: letter.reason, topic: letter.identity.topic, build: letter.build)
            var group =
                groups[key]
                ?? Group(
                    reason: key.reason,
                    topic: key.topic,
                    build: key.build,
                    oldest: letter.arrived,
                    newest: letter.arrived,
                    example: letter.name
                )
            group.states[known.state.word, default: 0] += 1
            group.oldest = min(group.oldest, letter.arrived)
            group.newest = max(group.newest, letter.arrived)
            groups[key] = group
        }
        return groups.values.sorted {
            ($1.count, $0.reason, $0.topic, $0.build) < ($0.count, $1.reason, $1.topic, $1.build)
        }
    }

    static func text(_ groups: [Group], _ style: TextStyle) -> [String] {
        var table = TextTable([
            .left("REASON"), .left("TOPIC"), .left("BUILD"), .right("COUNT"), .right("OPEN"),
            .right("REDRIVEN"), .right("DROPPED"), .left("OLDEST"), .left("NEWEST"), .left("EXAMPLE"),
        ])
        for group in groups {
            table.add([
                group.reason, group.topic, group.build, grouped(group.count), grouped(group.states["open"] ?? 0),
                grouped(group.states["redriven"] ?? 0),
                grouped((group.states["dropped"] ?? 0) + (group.states["deleted"] ?? 0)), DayText.moment(group.oldest),
                DayText.moment(group.newest), group.example,
            ])
        }
        return table.lines(style)
    }

    static func text(_ letters: [KnownLetter], _ style: TextStyle) -> [String] {
        var table = TextTable([
            .left("LETTER"), .left("REASON"), .left("BUILD"), .right("ATTEMPT"), .left("KEY"), .left("ARRIVED"),
            .right("BYTES"), .left("STATE"),
        ])
        for known in letters {
            let letter = known.letter
            table.add([
                letter.name, letter.reason, letter.build, String(letter.identity.attempt), letter.key ?? "",
                DayText.moment(letter.arrived), grouped(letter.omittedBytes ?? letter.size), words(known.state),
            ])
        }
        return table.lines(style)
    }

    static func words(_ state: KnownLetter.State) -> String {
        switch state {
        case .open: "open"
        case .redriven(let at): "redriven \(DayText.moment(at))"
        case .dropped(let at, let reason): "dropped \(DayText.moment(at)): \(reason)"
        case .deleted: "dropped: the user's data was deleted"
        }
    }

    static func json(_ groups: [Group], strangers: Int) -> JSONDocument {
        .object([
            (
                "groups",
                .array(
                    groups.map { group in
                        .object([
                            ("reason", .string(group.reason)), ("topic", .string(group.topic)),
                            ("build", .string(group.build)), ("count", .integer(group.count)),
                            ("open", .integer(group.states["open"] ?? 0)),
                            ("redriven", .integer(group.states["redriven"] ?? 0)),
                            ("dropped", .integer(group.states["dropped"] ?? 0)),
                            ("deleted", .integer(group.states["deleted"] ?? 0)),
                            ("oldest", .string(group.oldest.description)),
                            ("newest", .string(group.newest.description)), ("example", .string(group.example)),
                        ])
                    }
                )
            ),
            ("not_dead_letters", .integer(strangers)),
        ])
    }

    static func members(_ known: KnownLetter) -> [(String, JSONDocument)] {
        let letter = known.letter
        var members: [(String, JSONDocument)] = [
            ("letter", .string(letter.name)), ("cluster_id", .string(letter.identity.clusterID)),
            ("topic", .string(letter.identity.topic)), ("partition", .integer(Int(letter.identity.partition))),
            ("offset", .integer(Int(letter.identity.offset))),
            ("appended_at_ms", .integer(Int(letter.identity.appendedAt))),
            ("attempt", .integer(Int(letter.identity.attempt))), ("reason", .string(letter.reason)),
            ("build", .string(letter.build)), ("key", letter.key.map { .string($0) } ?? .null),
            ("schema", letter.schema.map { .string($0) } ?? .null),
            ("arrived", .string(letter.arrived.description)), ("bytes", .integer(letter.omittedBytes ?? letter.size)),
            ("omitted", .bool(letter.omittedBytes != nil)), ("state", .string(known.state.word)),
            ("dead_letter_partition", .integer(Int(letter.place.partition))),
            ("dead_letter_offset", .integer(Int(letter.place.offset))),
        ]
        switch known.state {
        case .redriven(let at): members.append(("decided_at", .string(at.description)))
        case .dropped(let at, let reason):
            members += [("decided_at", .string(at.description)), ("because", .string(reason))]
        case .open, .deleted: break
        }
        return members
    }

    static func json(_ letters: [KnownLetter]) -> JSONDocument {
        .object([("letters", .array(letters.map { .object(members($0)) }))])
    }

    /// What can be done next, as commands to copy.
    static func nextSteps(_ groups: [Group]) -> [String] {
        guard let first = groups.first(where: { $0.states["open"] ?? 0 > 0 }) else { return [] }
        return [
            "",
            "look at one:        daybook dead-letters show \(first.example)",
            "once it is mended:  daybook dead-letters redrive all --reason \(first.reason) --dry-run",
            "if it is garbage:   daybook dead-letters drop all --reason \(first.reason) --because '…'",
        ]
    }
}

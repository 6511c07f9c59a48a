import DevelopmentStack
import Domain

/// Sends dead letters again.
enum DeadLettersRedriveCommand: Command {
    static let spec = CommandSpec(
        path: ["dead-letters", "redrive"],
        summary: "sends dead letters to their topic again",
        description: [
            "Once the cause is mended, this sends the records to the topics they came from, with their key, headers and "
                + "arrival time as they were, so that they count as if they had been applied at once. Only open ones, "
                + "unless --again is given. A record that fails again becomes a letter with the next attempt's number, "
                + "and is open.",
            "It can be stopped at any time (Ctrl-C) and run again: what was acknowledged is marked, and what arrives "
                + "twice changes nothing. Those of a deleted user stay where they are. Two operators at once would send "
                + "some twice.",
        ],
        arguments: [DeadLetterFilter.argument],
        options: DeadLetterFilter.options + [
            .flag("again", "Also those that are redriven or dropped already."),
            .value("rate", "COUNT", "At most so many records a second.", default: "no limit"),
            .flag("dry-run", "Say what would be sent, and send nothing."),
            .flag("json", "The outcome as JSON."),
        ],
        environment: DeadLetterDesk.environment,
        examples: [
            .init("daybook dead-letters redrive all --reason bad_json --dry-run", "How many there are."),
            .init("daybook dead-letters redrive all --reason bad_json --rate 200", "Two hundred a second."),
            .init("daybook dead-letters redrive daybook.days.live.v1/3/1207", "One."),
        ],
        statuses: [
            .init(.success, "all that were meant are in their topics again, or there was none"),
            .init(.failure, "some could not be sent: too large, gone, or of a topic that is not ours"),
            .init(.temporaryFailure, "stopped before the end"),
            .init(.unavailable, "Kafka or PostgreSQL does not answer; what was not confirmed is still open"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let signals = StopSignals()
        let filter = try DeadLetterFilter(arguments, named: true, now: .now)
        let rate = try arguments.integer("rate", in: 1...1_000_000)
        let desk = try DeadLetterDesk(StackAccess(context))
        let letters = try desk.chosen(filter, all: arguments.has("again")).filter { $0.state != .deleted }
        if arguments.has("dry-run") {
            report(letters, sent: nil, .init(), arguments, context)
            return .success
        }
        guard !letters.isEmpty else {
            report(letters, sent: 0, .init(), arguments, context)
            return .success
        }
        let redriving = try Redriving(desk, rate: rate, signals)
        let progress = Progress(context.console, "redrive", unit: "records")
        defer { progress.finish() }
        try redriving.run(letters) { progress.show($0, of: letters.count) }
        progress.finish()
        let outcome = redriving.outcome
        report(letters, sent: outcome.sent, outcome, arguments, context)
        if outcome.isStopped { return .temporaryFailure }
        return outcome.left.isEmpty ? .success : .failure
    }

    /// `sent` is nil for a dry run.
    private static func report(
        _ letters: [KnownLetter],
        sent: Int?,
        _ outcome: Redriving.Outcome,
        _ arguments: Arguments,
        _ context: CommandContext
    ) {
        let console = context.console
        if arguments.has("json") {
            let left = outcome.left.sorted { $0.key < $1.key }.map { ($0.key, JSONDocument.integer($0.value)) }
            console.print(
                JSONDocument.object([
                    ("dry_run", .bool(sent == nil)), ("meant", .integer(letters.count)),
                    ("sent", .integer(sent ?? 0)), ("left", .object(left)), ("stopped", .bool(outcome.isStopped)),
                ]).text()
            )
            return
        }
        guard let sent else {
            for line in DeadLetterText.text(DeadLetterText.groups(letters), console.out) where !letters.isEmpty {
                console.print(line)
            }
            console.print("dry run: \(counted(letters.count, "record", "records")) would be sent, nothing was")
            return
        }
        console.print(letters.isEmpty ? "no open dead letter is meant" : "\(counted(sent, "record", "records")) sent")
        for (why, count) in outcome.left.sorted(by: { $0.key < $1.key }) {
            let words = [
                "gone": "the record is gone from the log", "too_large": "larger than the topic takes",
                "no_such_topic": "the topic is none of this installation",
            ]
            console.print("\(grouped(count)) not sent: \(words[why] ?? why)")
        }
        if outcome.isStopped { console.note("stopped; run it again to go on") }
    }
}

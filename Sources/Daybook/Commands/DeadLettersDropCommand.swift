import Domain
import Storage

/// Gives dead letters up, with a reason.
enum DeadLettersDropCommand: Command {
    static let spec = CommandSpec(
        path: ["dead-letters", "drop"],
        summary: "marks dead letters as dropped, with the reason why",
        description: [
            "Marks letters as looked at and not worth it: they no longer count as open, and no redrive takes them. The "
                + "reason is kept beside the mark. The records stay in the topic until its retention has passed, and "
                + "`daybook dead-letters redrive --again` still finds them.",
            "Write no health value and no name into the reason.",
        ],
        arguments: [DeadLetterFilter.argument],
        options: DeadLetterFilter.options + [
            .value("because", "TEXT", "Why; it has to be given."),
            .flag("again", "Also those that are redriven or dropped already."),
            .flag("dry-run", "Say what would be marked, and mark nothing."),
            .flag("json", "The outcome as JSON."),
        ],
        environment: DeadLetterDesk.environment,
        examples: [
            .init(
                "daybook dead-letters drop all --reason bad_json --build 41 --because 'a load test of ours'",
                "A whole group."
            ),
            .init("daybook dead-letters drop daybook.days.live.v1/3/1207 --because 'a fuzzer'", "One."),
        ],
        statuses: [
            .init(.success, "marked, or there was none"),
            .init(.failure, "there is no such letter"),
            DeadLetterDesk.unavailable,
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        guard let because = arguments.value("because"), because.utf8.count <= 500,
            because.contains(where: { $0.isLetter || $0.isNumber })
        else {
            throw CommandFailure.usage(
                "--because is missing, says nothing, or is longer than 500 bytes",
                next: "Say in a few words why these are not worth it; whoever looks later will want to know."
            )
        }
        let filter = try DeadLetterFilter(arguments, named: true, now: .now)
        let desk = try DeadLetterDesk(StackAccess(context))
        let letters = try desk.chosen(filter, all: arguments.has("again")).filter { $0.state != .deleted }
        let isDry = arguments.has("dry-run")
        if !isDry {
            let mark = DeadLetterMark(state: .dropped, reason: because, markedAt: Instant.now.microseconds)
            try desk.marks.set(mark, letters.map(\.letter.identity))
        }
        if arguments.has("json") {
            context.console.print(
                JSONDocument.object([
                    ("dry_run", .bool(isDry)), ("dropped", .integer(isDry ? 0 : letters.count)),
                    ("meant", .integer(letters.count)),
                ]).text()
            )
        } else if isDry {
            context.console.print("dry run: \(counted(letters.count, "letter", "letters")) would be dropped")
        } else {
            context.console.print("\(counted(letters.count, "letter", "letters")) dropped")
        }
        return .success
    }
}

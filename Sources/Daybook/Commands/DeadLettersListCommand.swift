import Domain

/// What workers put aside, grouped.
enum DeadLettersListCommand: Command {
    static let spec = CommandSpec(
        path: ["dead-letters", "list"],
        summary: "lists what the workers put aside as dead letters, grouped",
        description: [
            "Shows the records that could not be applied, grouped by reason, topic and the build of the worker that put "
                + "them aside, with one of each group to look at. A letter is open until it is redriven or dropped; "
                + "those of a user whose data was deleted since count as dropped. Without --all only open ones are "
                + "shown.",
            "Reads the whole dead-letter topic. A letter that was written twice is shown once.",
        ],
        options: DeadLetterFilter.options + [
            .flag("all", "Also those that are redriven or dropped."),
            .flag("each", "One line a letter instead of groups."),
            .value("limit", "COUNT", "With --each: at most so many, the newest.", default: "100"),
            .flag("json", "All of it as JSON."),
        ],
        environment: DeadLetterDesk.environment,
        examples: [
            .init("daybook dead-letters list", "What is open, and why."),
            .init("daybook dead-letters list --each --reason bad_json --since 2h", "Letter by letter."),
        ],
        statuses: [.init(.success, "listed, also if there is none"), DeadLetterDesk.unavailable]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let filter = try DeadLetterFilter(arguments, named: false, now: .now)
        let limit = try arguments.integer("limit", in: 1...1_000_000) ?? 100
        let box = try DeadLetterDesk(StackAccess(context)).open()
        let letters = box.chosen(filter, all: arguments.has("all"))
        let console = context.console
        if arguments.has("each") {
            let shown = Array(letters.sorted { $0.letter.arrived < $1.letter.arrived }.suffix(limit))
            if arguments.has("json") {
                console.print(DeadLetterText.json(shown).text())
                return .success
            }
            for line in DeadLetterText.text(shown, console.out) { console.print(line) }
            if shown.count < letters.count { console.note("and \(grouped(letters.count - shown.count)) older ones") }
            return .success
        }
        let groups = DeadLetterText.groups(letters)
        if arguments.has("json") {
            console.print(DeadLetterText.json(groups, strangers: box.strangers).text())
            return .success
        }
        if groups.isEmpty {
            console.print(arguments.has("all") ? "there is no dead letter" : "no dead letter is open")
        } else {
            for line in DeadLetterText.text(groups, console.out) + DeadLetterText.nextSteps(groups) {
                console.print(line)
            }
        }
        if box.strangers > 0 { console.note("\(grouped(box.strangers)) records there are no dead letters of a worker") }
        return .success
    }
}

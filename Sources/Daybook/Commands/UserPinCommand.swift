import Domain
import MessageContract

/// Pins a metric to a source.
enum UserPinCommand: Command {
    static let spec = CommandSpec(
        path: ["user", "pin"],
        summary: "makes a source go first for a user's metric",
        description: [
            "Publishes a preference: for this metric the source goes first, on every day on which it has a value; "
                + "without one the others count in their usual order. All of the user's days are recomputed. "
                + "`none` takes the pin away. Of several pins of one metric the newest counts, in whatever order they "
                + "are applied."
        ],
        arguments: [
            ArgumentSpec("USER", "The user's UUID."),
            ArgumentSpec("METRIC", "Such as steps or sleep_minutes."),
            ArgumentSpec("SOURCE", Source.allCases.map(\.description).joined(separator: ", ") + ", or none."),
        ],
        options: AccountChange.options,
        environment: AccountChange.environment,
        examples: [
            .init("daybook user pin 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 steps garmin", "Steps come from Garmin."),
            .init("daybook user pin 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 steps none", "The rules decide again."),
        ],
        statuses: AccountChange.statuses
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let user = try arguments.requiredUser()
        let metric = try AccountWords.metric(arguments.positional(1) ?? "")
        let source = try AccountWords.sourceOrNone(arguments.positional(2) ?? "")
        return try AccountChange.run(
            .preference(metric, source: source),
            of: user,
            did: source.map { "\(metric.name) pinned to \($0)" } ?? "\(metric.name) no longer pinned",
            arguments,
            context
        )
    }
}

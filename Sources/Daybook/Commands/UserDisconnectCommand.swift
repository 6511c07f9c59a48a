import Domain
import MessageContract

/// Disconnects a source of a user.
enum UserDisconnectCommand: Command {
    static let spec = CommandSpec(
        path: ["user", "disconnect"],
        summary: "disconnects a user's source, with or without its data",
        description: [
            "Publishes a disconnection: the source counts as disconnected until its next push. Its data stay, and go on "
                + "counting, unless --data is given: then what it has sent until now goes and stays away, and the days "
                + "are recomputed from the other sources."
        ],
        arguments: [
            ArgumentSpec("USER", "The user's UUID."),
            ArgumentSpec("SOURCE", Source.allCases.map(\.description).joined(separator: ", ") + "."),
        ],
        options: [.flag("data", "Remove what the source has sent until now. There is no way back.")]
            + AccountChange.options,
        environment: AccountChange.environment,
        examples: [
            .init("daybook user disconnect 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 oura", "Keeps its data."),
            .init("daybook user disconnect 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 oura --data", "Removes them."),
        ],
        statuses: AccountChange.statuses
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let user = try arguments.requiredUser()
        let source = try AccountWords.source(arguments.positional(1) ?? "")
        let removesData = arguments.has("data")
        return try AccountChange.run(
            .disconnect(source, removesData: removesData),
            of: user,
            did: "\(source) disconnected" + (removesData ? ", its data removed" : ""),
            arguments,
            context
        )
    }
}

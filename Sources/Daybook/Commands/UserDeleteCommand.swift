import Domain
import Glibc
import MessageContract

/// Deletes a user's data.
enum UserDeleteCommand: Command {
    static let spec = CommandSpec(
        path: ["user", "delete"],
        summary: "deletes everything of a user, for good",
        description: [
            "Publishes a deletion. What the user has sent until now goes from the tables, and stays away: a replay, a "
                + "late reading or a dead letter that is sent again does not bring it back. What the user sends "
                + "from one minute after now on counts again. Of device tokens the hash and the times stay, until no "
                + "replay can bring them back. Dead letters of the user count as dropped at once.",
            "The records themselves lie in Kafka until their topics' retention has passed (30 days, dead letters 90). "
                + "The account's row stays for ever, with the time of the deletion and nothing else.",
            "There is no way back, so it asks, unless --yes is given.",
        ],
        arguments: [ArgumentSpec("USER", "The user's UUID.")],
        options: [.flag("yes", "Do not ask.")] + AccountChange.options,
        environment: AccountChange.environment,
        examples: [
            .init("daybook user delete 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10", "Asks, then deletes."),
            .init("daybook user delete 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 --yes --json", "For a script."),
        ],
        statuses: [.init(.failure, "not confirmed by the person who was asked")] + AccountChange.statuses
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let user = try arguments.requiredUser()
        if !arguments.has("yes") {
            guard isatty(STDIN_FILENO) == 1 else {
                throw CommandFailure.usage("nobody can be asked here", next: "Give --yes to delete without asking.")
            }
            context.console.note("Everything of \(user) is deleted for good. Type 'delete' to go on:")
            guard readLine() == "delete" else {
                context.console.note("nothing was deleted")
                return .failure
            }
        }
        return try AccountChange.run(.delete, of: user, did: "deleted", arguments, context)
    }
}

import DevelopmentStack
import Foundation

/// Stops the local stack.
enum DownCommand: Command {
    static let spec = CommandSpec(
        path: ["down"],
        summary: "stops the local stack",
        description: [
            "Asks the `daybook up` of this state folder to stop, as Ctrl-C would, and waits until it has: the workers "
                + "finish their batches, then everything ends in reverse order. The data stays for the next start.",
            "With --purge everything that the stack made is removed: the state folder with its data, logs and secrets, "
                + "and PostgreSQL's files under /var/lib/daybook if they are there.",
        ],
        options: [
            .flag("purge", "Remove everything, too. There is no way back."),
            .value("wait", "TIME", "How long to wait before giving up.", default: "60s"),
        ],
        environment: [("DAYBOOK_STATE", "the stack's folder; else .daybook in the checkout")],
        examples: [
            .init("daybook down", "Stops it."),
            .init("daybook down --purge", "Stops it and leaves nothing behind."),
        ],
        statuses: [.init(.unavailable, "it did not stop in time"), .init(.noPermission, "it belongs to another user")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let folder = context.stateFolder
        let console = context.console
        let seconds = try arguments.duration("wait") ?? 60
        guard folder.exists else {
            console.print("nothing runs and nothing is kept in \(folder.path)")
            return .success
        }
        if StateLock.isHeld(folder) {
            try stop(folder, seconds: Double(seconds), console)
        } else {
            let lock = try StateLock.take(folder)
            let count = try Leftovers.stop(folder, console.note)
            console.print(count == 0 ? "nothing runs in \(folder.path)" : "stopped what was left in \(folder.path)")
            withExtendedLifetime(lock) {}
        }
        guard arguments.has("purge") else { return .success }
        let lock = try StateLock.take(folder)
        let location = try StackLayout(folder: folder).databaseLocation()
        try PostgresCluster(location: location).stopLeftover()
        try location.removeAll()
        try folder.remove()
        withExtendedLifetime(lock) {}
        console.print("removed \(folder.path)" + (location.link == nil ? "" : " and \(location.directory)"))
        return .success
    }

    private static func stop(_ folder: StateFolder, seconds: Double, _ console: Console) throws {
        guard let record = try folder.record() else {
            throw CommandFailure(
                .temporaryFailure,
                "a `daybook up` is just starting in \(folder.path)",
                next: "Try again in a few seconds."
            )
        }
        let process = record.supervisor
        console.print("stopping `daybook up`, pid \(process.pid)")
        guard process.send(SIGTERM) || !process.isRunning else {
            throw CommandFailure(
                .noPermission,
                "pid \(process.pid) may not be stopped by this user",
                next: "Run it as the user who started it."
            )
        }
        guard process.waitUntilGone(seconds: seconds) else {
            throw CommandFailure(
                .unavailable,
                "pid \(process.pid) still runs after \(Int(seconds)) s",
                next: "Look into \(folder.logsPath), or end it with `kill -9 \(process.pid)`: its parts end with it."
            )
        }
        console.print("stopped")
    }
}

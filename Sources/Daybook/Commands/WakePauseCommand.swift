import Domain
import Storage
import WakeRules

/// Nobody is woken until further notice.
enum WakePauseCommand: Command {
    static let spec = CommandSpec(
        path: ["wake", "pause"],
        summary: "stops all wakes until `daybook wake resume`",
        description: [
            "All wake workers stop claiming within a second or so; what they have claimed is still sent. Nothing is "
                + "counted against users meanwhile."
        ],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's")],
        examples: [.init("daybook wake pause", "Before an incident gets worse.")],
        statuses: [.init(.unavailable, "the database does not answer")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let since = try WakeAccess.store(try StackAccess(context)).pause()
        context.console.print("wakes are paused since \(since.short); `daybook wake resume` lets them run again")
        return .success
    }
}

/// Wakes go on, and stops are forgotten.
enum WakeResumeCommand: Command {
    static let spec = CommandSpec(
        path: ["wake", "resume"],
        summary: "lets wakes go on, and forgets what stopped them",
        description: [
            "Ends a pause. It also forgets the stops that push servers' answers have caused (a refused credential or "
                + "topic, too many bad tokens): mend their cause first, or they come back."
        ],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's")],
        examples: [.init("daybook wake resume", "After a pause, or once a key is right again.")],
        statuses: [.init(.unavailable, "the database does not answer")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let stops = try WakeAccess.store(try StackAccess(context)).resume()
        let forgotten = stops == 0 ? "" : "; \(counted(stops, "stop", "stops")) forgotten"
        context.console.print("wakes run\(forgotten)")
        return .success
    }
}

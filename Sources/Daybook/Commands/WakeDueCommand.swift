import Domain
import Storage
import WakeRules

/// Who would be woken now.
enum WakeDueCommand: Command {
    static let spec = CommandSpec(
        path: ["wake", "due"],
        summary: "shows who would be woken now, and who is due and is not",
        description: [
            "Looks at the users whose time has come, as a wake worker's next scan would, and writes nothing. Most of "
                + "them are fresh (wait: last_push): the schedule is a lower bound that a scan moves on.",
            "held back: the user is due, but the cause is on our side: the workers lag (applied), the door refuses most "
                + "requests (door), an operator paused wakes (running), or the push server may not be sent to "
                + "(sendable).",
        ],
        options: [
            .value("limit", "N", "How many users to look at.", default: "50"),
            .flag("all", "Also those who are only to be moved on."),
            .flag("json", "All of it as JSON."),
        ],
        environment: WakeAccess.environment,
        examples: [
            .init("daybook wake due", "Who is next."), .init("daybook wake due --all --limit 1000", "The whole scan."),
        ],
        statuses: [.init(.unavailable, "the database does not answer")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try WakeAccess(try StackAccess(context))
        let limit = try arguments.integer("limit", in: 1...100_000) ?? 50
        let looks = try access.store.look(limit: limit, access.round, now: access.now)
        let shown = arguments.has("all") ? looks : looks.filter { $0.isDue }
        if arguments.has("json") {
            context.console.print(JSONDocument.object([("users", .array(shown.map(WakeText.json)))]).text())
            return .success
        }
        var table = TextTable([
            .left("USER"), .left("LAST PUSH"), .left("LAST WAKE"), .right("UNANSWERED"), .right("TOKENS"), .left("NOW"),
        ])
        for look in shown {
            let last = look.facts.schedule.lastWakeAt
            table.add([
                look.facts.user.description, WakeText.ago(look.facts.lastPushAt, access.now),
                WakeText.ago(last == 0 ? nil : Instant(microseconds: last), access.now),
                String(look.decision.schedule.unanswered), String(look.facts.tokens.count),
                WakeText.short(look.decision),
            ])
        }
        if !table.isEmpty { for line in table.lines(context.console.out) { context.console.print(line) } }
        let woken = looks.count { look in if case .wake = look.decision.action { true } else { false } }
        context.console.print(
            "\(counted(looks.count, "user", "users")) looked at, \(grouped(woken)) would be woken now; "
                + "\(access.round.policy.schedule)"
        )
        return .success
    }
}

extension WakeLook {
    /// Woken now, or only not because of us.
    var isDue: Bool {
        if case .wake = decision.action { return true }
        return decision.heldBack != nil
    }
}

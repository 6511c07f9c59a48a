import DevelopmentStack
import Domain
import Storage
import WakeRules

/// Why a user is woken or not.
enum WakeExplainCommand: Command {
    static let spec = CommandSpec(
        path: ["wake", "explain"],
        summary: "shows why a user is woken or not, and when they are next due",
        description: [
            "Shows every condition of a wake, whether it holds, and its figures; then when the user is looked at next, "
                + "and the last wakes with what became of them. Writes nothing."
        ],
        arguments: [
            ArgumentSpec("USER", "The user's UUID. Default: the local demonstration's user.", required: false)
        ],
        options: [.flag("json", "All of it as JSON.")],
        environment: WakeAccess.environment,
        examples: [.init("daybook wake explain 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10", "One user.")],
        statuses: [
            .init(.failure, "the user has no place in the schedule: no on-device source ever pushed for them"),
            .init(.unavailable, "the database does not answer"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let stack = try StackAccess(context)
        guard let user = UserID(arguments.positional(0) ?? stack.record?.user ?? "") else {
            throw CommandFailure.usage(
                "USER takes a UUID of 36 characters",
                next: "Without one the user of the local demonstration is shown, if there was a demonstration."
            )
        }
        let access = try WakeAccess(stack)
        let console = context.console
        guard let look = try access.store.look(at: user, access.round, now: access.now) else {
            if arguments.has("json") {
                console.print(
                    JSONDocument.object([("user", .string(user.description)), ("known", .bool(false))]).text()
                )
            } else {
                console.note("\(user) has no place in the schedule: no on-device source ever pushed for them")
            }
            return .failure
        }
        let wakes = try access.reports.wakes(of: user, limit: 10)
        if arguments.has("json") {
            guard case .object(let members) = WakeText.json(look) else { return .failure }
            console.print(JSONDocument.object(members + [("wakes", .array(wakes.map(json)))]).text())
            return .success
        }
        let style = console.out
        console.print("\(user), at \(access.now.short)")
        var table = TextTable([.left("CONDITION"), .left("HOLDS"), .left("FIGURES"), .left("FROM")])
        for condition in look.decision.conditions {
            let from = condition.holds ? "" : condition.from.map { "\($0.short)" } ?? "an event"
            table.add([
                condition.name.rawValue, condition.holds ? "yes" : "NO", condition.figures.description, from,
            ])
        }
        for line in table.lines(style) { console.print(line) }
        console.print(style.strong(WakeText.action(look.decision.action, access.now)))
        if !wakes.isEmpty {
            console.print()
            var list = TextTable([.left("WOKEN AT"), .left("OUTCOME"), .left("ANSWERED"), .left("NEW DATA")])
            for wake in wakes {
                list.add([
                    wake.wakeAt.short, wake.outcome ?? "under way",
                    wake.answeredAt.map { after(wake.wakeAt, $0) } ?? "no",
                    wake.broughtData.map { $0 ? "yes" : "no new data" } ?? "",
                ])
            }
            for line in list.lines(style) { console.print(line) }
        }
        return .success
    }

    private static func after(_ wake: Instant, _ answer: Instant) -> String {
        let seconds = max(0, wake.seconds(until: answer))
        return "after " + String(WakeText.duration(seconds).dropLast(4))
    }

    private static func json(_ wake: WakeReports.Wake) -> JSONDocument {
        .object([
            ("woken_at", .string(wake.wakeAt.description)), ("outcome", wake.outcome.map { .string($0) } ?? .null),
            ("answered_at", wake.answeredAt.map { .string($0.description) } ?? .null),
            ("brought_data", wake.broughtData.map { .bool($0) } ?? .null), ("tokens", .integer(wake.tokens)),
        ])
    }
}

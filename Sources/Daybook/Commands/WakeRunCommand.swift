import Configuration
import Domain
import Observability
import Storage
import WakeRules
import WakeWorker

/// One scan by hand.
enum WakeRunCommand: Command {
    static let spec = CommandSpec(
        path: ["wake", "run"],
        summary: "runs one scan by hand, or shows what it would do",
        description: [
            "With --dry-run it looks at everybody whose time has come, says who would be woken and why the others would "
                + "not, and writes nothing. Without it, the scan is a worker's: wakes are claimed, sent to the push "
                + "servers of the settings, and written down. Workers may run beside it; nobody is woken twice."
        ],
        options: [
            .flag("once", "One scan. Required: what runs for long is wake-worker."),
            .flag("dry-run", "Only look."),
            .value("limit", "N", "How many users to look at.", default: "500"),
            .flag("json", "The outcome as JSON."),
        ],
        environment: WakeAccess.environment + [("DAYBOOK_APNS_…, DAYBOOK_FCM_…", "for a scan that sends")],
        examples: [.init("daybook wake run --once --dry-run", "What the next scan would do.")],
        statuses: [
            .init(.unavailable, "the database does not answer"),
            .init(.configuration, "settings of the wake worker are missing or wrong"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        guard arguments.has("once") else {
            throw CommandFailure.usage("--once is missing", next: "Start wake-worker for a service that goes on.")
        }
        let limit = try arguments.integer("limit", in: 1...5000) ?? 500
        let access = try StackAccess(context)
        guard arguments.has("dry-run") else { return try send(limit, arguments, access, context) }
        let wakes = try WakeAccess(access)
        let looks = try wakes.store.look(limit: limit, wakes.round, now: wakes.now)
        var counts: [String: Int] = [:]
        for look in looks { counts[WakeText.short(look.decision), default: 0] += 1 }
        show(counts, looked: looks.count, arguments, context)
        return .success
    }

    private static func send(
        _ limit: Int,
        _ arguments: Arguments,
        _ access: StackAccess,
        _ context: CommandContext
    ) throws -> ExitCode {
        var environment = context.environment
        environment["DAYBOOK_DATABASE_URL"] = try access.databaseURL()
        let configuration = try WakeConfiguration.read(environment: environment)
        let level = LogLevel(name: configuration.process.logLevel.rawValue) ?? .info
        let log = Log(service: "daybook-wake-run", level: level)
        let counts = try WakeServer.runOnce(configuration, limit: limit, log: log)
        if let cause = counts.heldBack {
            context.console.note("nobody is woken at present, so nobody was looked at: \(cause.rawValue)")
        }
        show(counts.byOutcome, looked: counts.candidates, arguments, context)
        return .success
    }

    private static func show(_ counts: [String: Int], looked: Int, _ arguments: Arguments, _ context: CommandContext) {
        let rows = counts.sorted { $0.key < $1.key }
        if arguments.has("json") {
            let members = rows.map { ($0.key, JSONDocument.integer($0.value)) }
            context.console.print(
                JSONDocument.object([("looked_at", .integer(looked)), ("outcomes", .object(members))]).text()
            )
            return
        }
        var table = TextTable([.left("OUTCOME"), .right("USERS")])
        for (outcome, count) in rows { table.add([outcome, grouped(count)]) }
        if !table.isEmpty { for line in table.lines(context.console.out) { context.console.print(line) } }
        context.console.print("\(counted(looked, "user", "users")) looked at")
    }
}

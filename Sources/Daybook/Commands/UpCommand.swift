import Authentication
import Configuration
import DevelopmentStack
import Domain
import Foundation
import Postgres
import Storage

/// Runs everything on this machine.
enum UpCommand: Command {
    static let spec = CommandSpec(
        path: ["up"],
        summary: "runs everything on this machine and shows it working",
        description: [
            "Starts the development broker, a private PostgreSQL, a stand-in for Apple's push servers, the aggregator "
                + "workers, the wake worker and the ingest service, makes tables and topics, and says of each part where "
                + "it listens and how long it took. Then it posts a "
                + "demonstration through the public HTTP interface (two phones that disagree, a zero, a re-send, an older "
                + "reading that arrives late, a bad item), shows the canonical days that came of it with the winning "
                + "source of each value, and checks every figure. Last it makes a user stale, and shows the wake that reaches "
                + "the stand-in and what the phone's answer changed.",
            "It stays until Ctrl-C (or SIGTERM, or `daybook down`), which drains the workers and stops everything in "
                + "reverse order; a second Ctrl-C does not wait. A part that crashes is started again after a growing "
                + "pause, and that is said. Killed with -9 it takes its parts with it.",
            "Everything it makes lies in the state folder: .daybook in the checkout, or where DAYBOOK_STATE says. "
                + "PostgreSQL's data survives a restart. As root, PostgreSQL runs as the user postgres, and its files "
                + "lie under /var/lib/daybook if that user can't reach the state folder. Everything listens on "
                + "127.0.0.1 only. The broker keeps its records in memory: this is for development, not for data that "
                + "somebody needs.",
        ],
        options: [
            .flag("exit-after-demo", "Stop after the demonstration; 0 only if every figure was right."),
            .flag("no-demo", "Leave the demonstration out."),
            .flag("fresh", "Remove PostgreSQL's data first."),
            .value("workers", "N", "Aggregator workers.", default: "DAYBOOK_WORKERS, 2"),
            .value("port", "PORT", "The ingest's port, and no other.", default: "8080 or the next free one"),
        ],
        environment: [
            ("DAYBOOK_STATE", "the state folder"),
            ("DAYBOOK_KAFKA_BROKERS", "use this Kafka instead of the development broker"),
            ("DAYBOOK_…", "any setting of the services (`daybook config`) is handed on to them"),
        ],
        examples: [
            .init("daybook up", "Runs it; the last lines say what to try."),
            .init("daybook up --exit-after-demo", "A test of the whole way, for a script."),
            .init("DAYBOOK_KAFKA_BROKERS=localhost:9092 daybook up --fresh", "With a Kafka of your own, from nothing."),
        ],
        statuses: [
            .init(.failure, "a figure of the demonstration was wrong"),
            .init(.unavailable, "a part did not start; its log is named"),
            .init(.cannotCreate, "a file could not be made, such as on a full disk"),
            .init(.temporaryFailure, "another `daybook up` runs in this folder"),
            .init(.noPermission, "the state folder may not be written"),
            .init(.configuration, "a setting is wrong"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        // Before anything starts a thread: they inherit that the signals wait for us.
        let signals = StopSignals()
        let configuration = try ToolConfiguration.read(environment: context.environment)
        let port = try arguments.integer("port", in: 1...65_535)
        let options = LocalStack.Options(
            workers: try arguments.integer("workers", in: 1...64) ?? configuration.workers,
            port: UInt16(clamping: port ?? 8080),
            portIsFixed: port != nil,
            isFresh: arguments.has("fresh")
        )
        guard !(arguments.has("exit-after-demo") && arguments.has("no-demo")) else {
            throw CommandFailure.usage("--exit-after-demo and --no-demo exclude each other", next: "Give one of them.")
        }
        let console = context.console
        let folder = context.stateFolder
        try folder.create()
        let lock = try StateLock.take(folder)
        defer { withExtendedLifetime(lock) {} }
        _ = try Leftovers.stop(folder) { console.print("  " + $0) }
        if configuration.brokers != nil, configuration.isDevelopmentBroker {
            console.note(
                "  DAYBOOK_DEVELOPMENT_BROKER is true: starting a broker of our own, not using DAYBOOK_KAFKA_BROKERS"
            )
        }
        if options.isFresh {
            folder.removeLogs()
            try folder.create()
        }
        console.print(console.out.heading("Daybook") + " \(DaybookTool.version) starts in \(folder.path)")
        let stack = LocalStack(context, configuration, options, UpReporter(console: console))
        // Cut short, the demonstration has shown nothing.
        let whenInterrupted: ExitCode = arguments.has("exit-after-demo") ? .failure : .success
        return try whileRunning(stack, signals, console, whenInterrupted: whenInterrupted) { pause in
            try stack.start(pause: pause)
            return try afterStart(stack, arguments, context, configuration, pause)
        }
    }

    /// Runs `body`, and stops the stack whatever happened.
    private static func whileRunning(
        _ stack: LocalStack,
        _ signals: StopSignals,
        _ console: Console,
        whenInterrupted: ExitCode,
        _ body: (_ pause: () throws -> Void) throws -> ExitCode
    ) throws -> ExitCode {
        func pause() throws {
            stack.supervisor.step()
            if signals.wait(milliseconds: 40) != nil { throw LocalStack.Interrupted() }
        }
        defer {
            stack.supervisor.onChange = {}
            stack.folder.removeRecord()
        }
        let outcome: Result<ExitCode, any Error> = Result { try body(pause) }
        let start = monotonicSeconds()
        if case .failure(let error) = outcome, !(error is LocalStack.Interrupted) {
            console.report(.from(error), command: "up")
        }
        guard !stack.supervisor.parts.isEmpty else { return code(outcome, whenInterrupted) }
        console.print()
        console.print("Stopping; the workers finish their batches (Ctrl-C again does not wait)")
        stack.supervisor.stopAll(isHurried: { signals.wait(milliseconds: 1) != nil }, pause: { usleep(20_000) })
        console.print("Stopped after \(tenths(monotonicSeconds() - start)) s; nothing runs any more")
        return code(outcome, whenInterrupted)
    }

    private static func code(_ outcome: Result<ExitCode, any Error>, _ whenInterrupted: ExitCode) -> ExitCode {
        switch outcome {
        case .success(let code): return code
        case .failure(let error):
            return error is LocalStack.Interrupted ? whenInterrupted : CommandFailure.from(error).exitCode
        }
    }

    private static func afterStart(
        _ stack: LocalStack,
        _ arguments: Arguments,
        _ context: CommandContext,
        _ configuration: ToolConfiguration,
        _ pause: () throws -> Void
    ) throws -> ExitCode {
        let access = try StackAccess(context, record: stack.record, configuration)
        let user = newUser()
        let token = try access.tokenMinter().mint(subject: user.description, now: .now, validFor: 30 * 86_400)
        var isRight = true
        if !arguments.has("no-demo") {
            stack.noteUser(user)
            let connection = try PostgresConnection(
                url: stack.record.databaseURL ?? "",
                applicationName: "daybook up"
            )
            isRight = try withoutActuallyEscaping(pause) { pause in
                try DemonstrationRun(
                    url: stack.record.url ?? "",
                    token: token,
                    user: user,
                    console: context.console,
                    reads: DayReads(connection),
                    pause: pause
                ).run(Demonstration(now: .now))
            }
            isRight =
                try withoutActuallyEscaping(pause) { pause in
                    try wakeDemonstration(stack, access, connection, context, configuration, pause).run(now: .now)
                } && isRight
        }
        if arguments.has("exit-after-demo") { return isRight ? .success : .failure }
        Self.invite(stack.record, token: token, context)
        while true { try pause() }
    }

    private static func wakeDemonstration(
        _ stack: LocalStack,
        _ access: StackAccess,
        _ connection: PostgresConnection,
        _ context: CommandContext,
        _ configuration: ToolConfiguration,
        _ pause: @escaping () throws -> Void
    ) throws -> WakeDemonstration {
        let user = newUser()
        return WakeDemonstration(
            url: stack.record.url ?? "",
            token: try access.tokenMinter().mint(subject: user.description, now: .now, validFor: 86_400),
            user: user,
            brokers: stack.record.kafkaBrokers ?? "",
            configuration: configuration,
            standInRecord: stack.standInRecord,
            console: context.console,
            reads: DayReads(connection),
            reports: WakeReports(connection),
            pause: pause
        )
    }

    private static func invite(_ record: StackRecord, token: String, _ context: CommandContext) {
        let console = context.console
        let style = console.out
        let today = Instant.now.day(secondsFromUTC: 0)
        let url = record.url ?? ""
        func post(_ source: Source, _ steps: String) -> String {
            "  curl -i \(url)/v1/days -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\\n"
                + "    -d '{\"source\":\"\(source)\",\"days\":[{\"date\":\"\(today)\",\"steps\":\(steps)}]}'"
        }
        console.print()
        console.print(style.heading("Try it") + " (the token holds for 30 days; the second request has a bad item)")
        console.print()
        console.print("  TOKEN=\(token)")
        console.print(post(.appleHealth, "4321"))
        console.print(post(.healthConnect, "-1"))
        let ingest = record.parts.first { $0.name == "ingest" }
        if let admin = ingest?.adminAddress { console.print("  curl http://\(admin)/metrics") }
        console.print()
        console.print(style.heading("Next") + ", in another terminal")
        let name = context.programName
        console.print("  \(name) day show                  whose value won, and why")
        console.print("  \(name) send --generate 365       a year of somebody, through the same door")
        console.print("  \(name) wake explain              why somebody is woken, or not")
        console.print("  \(name) status                    parts, lag, database")
        console.print()
        console.print("Logs are in \(context.stateFolder.logsPath). Ctrl-C stops everything; the data stays.")
    }
}

import Configuration
import Domain
import Kafka
import MessageContract
import Postgres
import Storage

/// Makes and checks tables and topics.
enum MigrateCommand: Command {
    static let spec = CommandSpec(
        path: ["migrate"],
        summary: "makes or checks the database's tables and Kafka's topics",
        description: [
            "Applies the schema's steps that the database does not have yet, makes the monthly partitions that are "
                + "needed soon, and makes the topics that Kafka does not have. What is there already is left as it is, "
                + "so it can run before every release.",
            "Topics are checked against the settings without which an accepted record could be lost: three copies, "
                + "two of them in sync, no unclean leaders, deletion by age and never compaction, the broker's append "
                + "time. Weaker settings are refused unless DAYBOOK_ALLOW_WEAK_TOPICS is true. The development broker "
                + "makes its topics itself and keeps no settings: there the topics are only looked for.",
            "The order of an upgrade: migrate, then the workers, then the ingest.",
        ],
        options: [
            .flag("check", "Change nothing; say what is missing, changed or weak, and end with 1 if anything is."),
            .value(
                "partitions",
                "N",
                "For topics that are made: a power of two.",
                default: "DAYBOOK_KAFKA_PARTITIONS, 32"
            ),
            .flag("skip-topics", "Only the database."),
            .flag("skip-database", "Only the topics."),
            .flag("json", "The outcome as JSON."),
        ],
        environment: [
            ("DAYBOOK_DATABASE_URL", "a role that may make tables; else the local stack's"),
            ("DAYBOOK_KAFKA_BROKERS", "host:port,…; else the local stack's"),
            ("DAYBOOK_RETENTION_DAYS", "how far back days are taken, where the tables are made by this run; 400"),
            (
                "DAYBOOK_ALLOW_WEAK_TOPICS",
                "true: weak settings are said and let pass; new topics get as many copies as the brokers' default says"
            ),
        ],
        examples: [
            .init("daybook migrate", "Brings tables and topics to what this build needs."),
            .init("daybook migrate --check", "For a deployment's gate: fails if something is missing."),
        ],
        statuses: [
            .init(.failure, "with --check: something is missing or weak, or a step was applied with another text"),
            .init(.unavailable, "PostgreSQL or Kafka does not answer"),
            .init(.configuration, "weak topic settings, or a database that another build made"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try StackAccess(context)
        let partitions = try arguments.integer("partitions", in: 1...4096) ?? access.configuration.partitions
        guard partitions & (partitions - 1) == 0 else {
            throw CommandFailure.usage("--partitions takes a power of two", next: "Take 16, 32 or 64.")
        }
        let isCheck = arguments.has("check")
        let allowsWeak = access.configuration.allowsWeakTopics
        var report: [(String, JSONDocument)] = []
        var lines: [String] = []
        var isFine = true

        if !arguments.has("skip-database") {
            let outcome = try database(access, isCheck: isCheck)
            report.append(("database", outcome.json))
            lines += outcome.lines
            isFine = isFine && outcome.isFine
        }
        if !arguments.has("skip-topics") {
            let topics = TopicSetUp(
                admin: try access.kafkaAdmin(),
                plan: TopicPlan(access.configuration, partitions: partitions),
                isDevelopmentBroker: try access.isDevelopmentBroker()
            )
            let outcome = try topics.run(isDryRun: isCheck)
            report.append(("topics", json(outcome)))
            lines += text(outcome, context.console.out)
            isFine = isFine && outcome.missing.isEmpty && outcome.faults.isEmpty
            if !outcome.weaknesses.isEmpty && !allowsWeak { isFine = false }
        }
        if arguments.has("json") {
            context.console.print(JSONDocument.object(report + [("ok", .bool(isFine))]).text())
        } else {
            for line in lines { context.console.print(line) }
        }
        if isFine { return .success }
        if isCheck { return .failure }
        throw CommandFailure(
            .configuration,
            "the topics are not what Daybook needs",
            next: "Put right what is listed, or set DAYBOOK_ALLOW_WEAK_TOPICS=true where losing records is all right."
        )
    }

    private static func database(
        _ access: StackAccess,
        isCheck: Bool
    ) throws -> (isFine: Bool, lines: [String], json: JSONDocument) {
        let connection = try access.connect()
        if isCheck { return check(try DatabaseCheck(connection, today: Instant.now.day(secondsFromUTC: 0))) }
        // What a step could not do says so in a warning, with what to run.
        var warnings: [String] = []
        connection.noticeHandler = { if $0.severity == "WARNING" { warnings.append($0.message) } }
        let migrator = Migrator(connection)
        let steps = try migrator.migrate(
            today: Instant.now.day(secondsFromUTC: 0),
            retentionDays: access.configuration.retentionDays
        ).map(DatabaseCheck.name)
        let version = try migrator.appliedVersion()
        let line =
            steps.isEmpty
            ? "database: at migration \(version), nothing to do" : "database: applied \(steps.joined(separator: ", "))"
        return (
            true, [line] + warnings.map { "database: \($0)" },
            .object([
                ("migration", .integer(Int(version))), ("newest", .integer(Int(Migrator.newest))),
                ("applied", .array(steps.map { .string($0) })), ("warnings", .array(warnings.map { .string($0) })),
            ])
        )
    }

    /// What `--check` says of the database. Pure.
    static func check(_ found: DatabaseCheck) -> (isFine: Bool, lines: [String], json: JSONDocument) {
        var lines: [String] = []
        if !found.missingSteps.isEmpty {
            lines.append("database: missing \(found.missingSteps.joined(separator: ", "))")
        }
        if let fault = found.fault { lines.append("database: \(fault)") }
        if !found.missingMonths.isEmpty {
            let months = found.missingMonths.map { String($0.description.prefix(7)) }
            lines.append("database: no partitions for \(months.joined(separator: ", ")): `daybook migrate` makes them")
        }
        if found.isFine { lines.append("database: at migration \(found.version), nothing to do") }
        return (
            found.isFine, lines,
            .object([
                ("migration", .integer(Int(found.version))), ("newest", .integer(Int(Migrator.newest))),
                ("missing", .array(found.missingSteps.map { .string($0) })),
                ("fault", found.fault.map { .string($0) } ?? .null),
                ("missing_months", .array(found.missingMonths.map { .string(String($0.description.prefix(7))) })),
            ])
        )
    }

    static func text(_ outcome: TopicSetUp.Outcome, _ style: TextStyle) -> [String] {
        var lines = outcome.found.map { topic in
            let isNew = outcome.made.contains(topic.name)
            return "topic \(topic.name): \(counted(topic.partitions, "partition", "partitions")), "
                + counted(topic.replicationFactor, "copy", "copies") + (isNew ? ", made" : "")
        }
        lines += outcome.missing.map { style.bad("topic \($0): missing") }
        lines += outcome.faults.map { style.bad("fault: ") + $0 }
        lines += outcome.weaknesses.map { style.warning("weak: ") + $0 }
        return lines
    }

    private static func json(_ outcome: TopicSetUp.Outcome) -> JSONDocument {
        func list(_ texts: [String]) -> JSONDocument { .array(texts.map { .string($0) }) }
        return .object([
            (
                "found",
                .array(
                    outcome.found.map { topic in
                        .object([
                            ("name", .string(topic.name)), ("partitions", .integer(topic.partitions)),
                            ("copies", .integer(topic.replicationFactor)),
                        ])
                    }
                )
            ),
            ("made", list(outcome.made)), ("missing", list(outcome.missing)), ("faults", list(outcome.faults)),
            ("weak", list(outcome.weaknesses)),
        ])
    }
}

import Domain
import Kafka
import Storage

/// Moves the workers' positions back.
enum RewindCommand: Command {
    static let spec = CommandSpec(
        path: ["rewind"],
        summary: "moves the workers' positions back, so that records are applied again",
        description: [
            "Sets the positions of a topic's partitions, or of one, in the database, and shows them before and after. "
                + "Workers may run: the owner of a partition notices with its next batch, or within five seconds, and "
                + "goes on from there. Applying a record again changes nothing, so a replay is safe at any time; it "
                + "only takes its time.",
            "--to takes beginning (of what the log still holds), an offset of one partition, a time (the first record "
                + "that the broker appended then or later), or a length of time ago. The development broker can't "
                + "look up times.",
            "It does not move forward: the records in between would never be applied. With --skip it does, for the one "
                + "case that a log is damaged there.",
        ],
        arguments: [ArgumentSpec("TOPIC[/PARTITION]", "As `daybook offsets` shows them; or all.")],
        options: [
            .value(
                "to",
                "PLACE",
                "beginning, an offset, a time (RFC 3339), or such as 2h (ago); with --skip also end."
            ),
            .flag("dry-run", "Say what would be moved, and move nothing."),
            .flag("skip", "Also move forward. What lies in between is lost to the tables."),
            .flag("json", "The outcome as JSON."),
        ],
        environment: [
            ("DAYBOOK_DATABASE_URL", "else the local stack's"), ("DAYBOOK_KAFKA_BROKERS", "else the local stack's"),
        ],
        examples: [
            .init("daybook rewind daybook.days.live.v1 --to beginning --dry-run", "How much a replay would be."),
            .init("daybook rewind all --to 2h", "Applies the last two hours of every topic again."),
            .init("daybook rewind daybook.days.live.v1/3 --to 120000", "One partition."),
        ],
        statuses: [
            .init(.failure, "refused: it would skip records, or the place is not in the log; nothing was moved"),
            .init(.unavailable, "PostgreSQL or Kafka does not answer, or can't look up times; nothing was moved"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let choice = try PartitionChoice(arguments.positional(0) ?? "")
        guard let place = arguments.value("to") else {
            throw CommandFailure.usage("--to is missing", next: "Such as --to beginning, or --to 2h.")
        }
        let target = try RewindTarget(place, now: .now)
        let access = try StackAccess(context)
        let connection = try access.connect()
        let admin = try access.kafkaAdmin()
        let clusterID = try admin.clusterID(timeoutMilliseconds: 10_000)
        let plan = try RewindPlan(
            try places(choice, target, OffsetsStore(connection), admin),
            to: target,
            clusterID: clusterID,
            allowsSkip: arguments.has("skip")
        )
        var moves: [PositionKeeper.Move]?
        if !arguments.has("dry-run") {
            do {
                moves = try PositionKeeper(connection).move(plan.targets, allowsSkip: arguments.has("skip"))
            } catch let failure as PositionKeeper.Failure {
                // A worker or another operator was there between the look and the move.
                throw CommandFailure(
                    .failure,
                    failure.description,
                    next: "Nothing was moved. Look again and repeat it."
                )
            }
        }
        if arguments.has("json") {
            context.console.print(plan.json(moves).text())
        } else {
            for line in plan.text(moves, context.console.out) { context.console.print(line) }
        }
        return .success
    }

    private static func places(
        _ choice: PartitionChoice,
        _ target: RewindTarget,
        _ offsets: OffsetsStore,
        _ admin: KafkaAdmin
    ) throws -> [RewindPlan.Place] {
        let states = Dictionary(try offsets.all().map { ($0.name, $0.state) }) { first, _ in first }
        let names = try choice.among(states.keys.sorted())
        let times = try target.offsetsAtTime(
            of: names.map { TopicPartition(topic: $0.topic, partition: $0.partition) },
            admin,
            instead: "Give --to an offset or beginning; a real Kafka can."
        )
        return try zip(names, times).compactMap { name, offsetAtTime in
            guard let state = states[name] else { return nil }
            let log = try admin.watermarks(
                TopicPartition(topic: name.topic, partition: name.partition),
                timeoutMilliseconds: 10_000
            )
            return RewindPlan.Place(name: name, state: state, log: log, offsetAtTime: offsetAtTime)
        }
    }
}

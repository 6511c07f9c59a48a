import Domain
import Storage

/// Lets partitions go on that the brake has stopped.
enum DeadLettersReleaseCommand: Command {
    static let spec = CommandSpec(
        path: ["dead-letters", "release"],
        summary: "lets a partition go on that the brake has stopped",
        description: [
            "A partition with too many dead letters is stopped, so that a flood of bad records does not drain the topic "
                + "(`daybook status` says which). Once the cause is put right, or the records are known to be garbage, "
                + "this takes the brake off and begins to count anew. The lane goes on within five seconds, where it "
                + "stood; if the flood is not over, the brake stops it again."
        ],
        arguments: [ArgumentSpec("TOPIC/PARTITION", "As `daybook offsets` shows it; or all.")],
        options: [.flag("json", "What was released, as JSON.")],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's")],
        examples: [
            .init("daybook dead-letters release daybook.days.live.v1/3", "One partition."),
            .init("daybook dead-letters release all", "Every one that stands still."),
        ],
        statuses: [
            .init(.success, "released, or nothing stood still"),
            .init(.failure, "there is no position of that name"),
            .init(.unavailable, "the database does not answer"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let choice = try PartitionChoice(arguments.positional(0) ?? "")
        let connection = try StackAccess(context).connect()
        let names = try choice.among(try OffsetsStore(connection).all().map(\.name))
        let keeper = PositionKeeper(connection)
        let released = choice == .all ? try keeper.release() : try names.flatMap { try keeper.release($0) }
        if arguments.has("json") {
            context.console.print(json(released).text())
        } else if released.isEmpty {
            context.console.print("the brake has stopped nothing there")
        } else {
            for (name, since) in released {
                context.console.print(
                    "\(name): released; it stood still since \(DayText.moment(Instant(microseconds: since)))"
                )
            }
        }
        return .success
    }

    static func json(_ released: [(name: PartitionName, since: Int64)]) -> JSONDocument {
        .object([
            (
                "released",
                .array(
                    released.map { name, since in
                        .object([
                            ("topic", .string(name.topic)), ("partition", .integer(Int(name.partition))),
                            ("braked_at", .string(Instant(microseconds: since).description)),
                        ])
                    }
                )
            )
        ])
    }
}

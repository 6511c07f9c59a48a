import Domain
import Kafka
import Storage

/// Where the workers are in the log.
enum OffsetsCommand: Command {
    static let spec = CommandSpec(
        path: ["offsets"],
        summary: "shows the workers' positions, by partition",
        description: [
            "Shows every position that the database holds: the next offset to be applied, where the log begins and "
                + "ends, the records in between (LAG), how long ago the newest applied record had arrived (APPLIED), "
                + "how often the partition was claimed or moved (EPOCH), which lane owns it, and whether the brake has "
                + "stopped it.",
            "The workers' positions stand in PostgreSQL. Those of Kafka's consumer groups follow them, only for tools "
                + "that show lag. `daybook rewind` moves a position.",
        ],
        options: [.flag("json", "All of it as JSON.")],
        environment: [
            ("DAYBOOK_DATABASE_URL", "else the local stack's"), ("DAYBOOK_KAFKA_BROKERS", "else the local stack's"),
        ],
        examples: [.init("daybook offsets", "A look."), .init("daybook offsets --json", "For a script.")],
        statuses: [.init(.unavailable, "PostgreSQL or Kafka does not answer; without Kafka the log is shown as ?")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try StackAccess(context)
        let states = try OffsetsStore(try access.connect()).all()
        var logs: [PartitionName: KafkaWatermarks] = [:]
        var clusterID: String?
        var failure: CommandFailure?
        do {
            let admin = try access.kafkaAdmin()
            clusterID = try admin.clusterID(timeoutMilliseconds: 5000)
            for (name, _) in states { logs[name] = try log(of: name, admin) }
        } catch {
            failure = CommandFailure.from(error)
        }
        let report = PositionReport(states, logs: logs, clusterID: clusterID, now: .now)
        if arguments.has("json") {
            context.console.print(report.json.text())
        } else {
            for line in report.text(context.console.out) { context.console.print(line) }
        }
        if let failure { throw failure }
        return .success
    }

    /// Nil for a partition that is no more.
    private static func log(of name: PartitionName, _ admin: KafkaAdmin) throws -> KafkaWatermarks? {
        do throws(KafkaError) {
            let place = TopicPartition(topic: name.topic, partition: name.partition)
            return try admin.watermarks(place, timeoutMilliseconds: 5000)
        } catch {
            if error.isUnknownTopic { return nil }
            throw error
        }
    }
}

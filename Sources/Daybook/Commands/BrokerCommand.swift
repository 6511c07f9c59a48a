import Configuration
import DevelopmentStack
import Foundation
import Kafka
import MessageContract

/// The development broker.
enum BrokerCommand: Command {
    static let spec = CommandSpec(
        path: ["broker"],
        summary: "runs the development broker: a Kafka in memory",
        description: [
            "Runs librdkafka's mock cluster on 127.0.0.1, with Daybook's topics. It speaks Kafka's protocol, keeps at "
                + "most 5 MiB of each partition, and forgets everything when it ends: for development and tests only, "
                + "never for records that somebody needs.",
            "Each start is another cluster; the workers notice, and start at the beginning of the new log. "
                + "`daybook up` runs one by itself.",
            "Prints the address, then runs until SIGINT or SIGTERM.",
        ],
        options: [
            .value("port", "PORT", "The port on 127.0.0.1; 0 takes a free one.", default: "0"),
            .value("partitions", "N", "Of each topic that is keyed by user: a power of two.", default: "4"),
            .value("address-file", "FILE", "Writes host:port there once it can be reached; removed at the end."),
        ],
        examples: [
            .init("daybook broker --port 9092", "A broker under the usual port."),
            .init(
                "daybook broker --address-file /tmp/broker &",
                "A broker on a free port; a script waits for the file and reads the address."
            ),
        ],
        statuses: [.init(.unavailable, "the port is taken, or the broker could not start")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let signals = StopSignals()
        let port = try arguments.integer("port", in: 0...65_535) ?? 0
        let partitions = try arguments.integer("partitions", in: 1...256) ?? developmentPartitions
        guard partitions & (partitions - 1) == 0 else {
            throw CommandFailure.usage("--partitions takes a power of two", next: "Take 1, 2, 4 or 8.")
        }
        let prefix = try ToolConfiguration.read(environment: context.environment).topicPrefix
        let topics = Topic.allCases.map { topic in
            (name: topic.name(prefix: prefix), partitions: topic.isWide ? partitions : 1)
        }
        let cluster: MockKafkaCluster
        do throws(KafkaError) {
            cluster = try MockKafkaCluster(port: UInt16(clamping: port), topics: topics)
        } catch {
            throw CommandFailure(.unavailable, error.reason, next: "`daybook broker --port 0` takes a free port.")
        }
        let file = arguments.value("address-file")
        if let file { try writeAddress(cluster.bootstrapServers, file) }
        context.console.print("development broker listening on \(cluster.bootstrapServers)")
        context.console.print("cluster \(cluster.clusterID), in memory: everything is gone when it ends")
        while signals.wait(milliseconds: 60_000) == nil {}
        if let file { try? FileManager.default.removeItem(atPath: file) }
        cluster.stop()
        return .success
    }

    /// What `daybook up` runs with, too.
    static let developmentPartitions = 4

    private static func writeAddress(_ address: String, _ file: String) throws {
        do {
            try Data((address + "\n").utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
        } catch {
            throw CommandFailure(
                .cannotCreate,
                "can't write \(file): \(error.localizedDescription)",
                next: "Name a file in a folder that exists and that you may write to."
            )
        }
    }
}

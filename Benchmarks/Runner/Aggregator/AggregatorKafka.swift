import Foundation
import Glibc
import Kafka
import MessageContract
import TestSupport

/// The Kafka that all read from.
final class AggregatorKafka {
    static let partitions = 4
    static let prefix = "bench."
    /// A second set of topics, for the worker with much to do.
    static let backlogPrefix = "backlog."
    static let jdbcTopic = "bench.jdbc"

    let bootstrapServers: String
    let isReal: Bool
    /// Held so that they end with this.
    private let real: RealKafka?
    private let broker: ServiceProcess?

    init() throws {
        if RealKafka.home != nil {
            // A new group waits for no second member.
            let real = try RealKafka(settings: ["group.initial.rebalance.delay.ms=0"])
            self.real = real
            broker = nil
            isReal = true
            bootstrapServers = real.bootstrapServers
            let ours = [Self.prefix, Self.backlogPrefix].flatMap { prefix in
                [Topic.daysLive, .daysHistory, .accounts, .deadLetters].map { $0.name(prefix: prefix) }
            }
            let admin = try KafkaAdmin(properties: [("bootstrap.servers", bootstrapServers)], log: { _ in })
            let topics = (ours + [Self.jdbcTopic]).map { name in
                KafkaTopicSpecification(
                    name: name,
                    partitions: Int32(Self.partitions),
                    replicationFactor: 1,
                    settings: ["message.timestamp.type": "LogAppendTime"]
                )
            }
            _ = try admin.create(topics, timeoutMilliseconds: 60_000)
        } else {
            let file = FileManager.default.temporaryDirectory.path + "/daybook-bench-broker-\(getpid())"
            let broker = try ServiceProcess(
                "daybook",
                ["broker", "--partitions", "\(Self.partitions)", "--address-file", file],
                environment: ["DAYBOOK_TOPIC_PREFIX": Self.prefix]
            )
            try Eventually.holds("the development broker") {
                FileManager.default.fileExists(atPath: file) || !broker.isRunning
            }
            self.broker = broker
            real = nil
            isReal = false
            bootstrapServers = try String(contentsOfFile: file, encoding: .utf8)
                .trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }

    deinit { real?.stop() }

    func stop() { real?.stop() }

    func liveTopic(_ prefix: String = AggregatorKafka.prefix) -> String { Topic.daysLive.name(prefix: prefix) }
}

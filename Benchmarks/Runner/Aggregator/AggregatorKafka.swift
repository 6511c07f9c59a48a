import MessageContract

/// The Kafka that all read from.
final class AggregatorKafka {
    static let partitions = StartedKafka.partitions
    static let prefix = "bench."
    /// A second set of topics, for the worker with much to do.
    static let backlogPrefix = "backlog."
    static let jdbcTopic = "bench.jdbc"

    private let kafka: StartedKafka

    var bootstrapServers: String { kafka.bootstrapServers }
    var isReal: Bool { kafka.isReal }

    init() throws {
        let ours = [Self.prefix, Self.backlogPrefix].flatMap { prefix in
            [Topic.daysLive, .daysHistory, .accounts, .deadLetters].map { $0.name(prefix: prefix) }
        }
        kafka = try StartedKafka(
            prefix: Self.prefix,
            topics: ours + [Self.jdbcTopic],
            // A new group waits for no second member.
            settings: ["group.initial.rebalance.delay.ms=0"]
        )
    }

    func stop() { kafka.stop() }

    func liveTopic(_ prefix: String = AggregatorKafka.prefix) -> String { Topic.daysLive.name(prefix: prefix) }

    /// What a benchmark says of it first.
    var introduction: String {
        isReal
            ? "Kafka: a real one of KAFKA_HOME, one node, \(Self.partitions) partitions."
            : "KAFKA_HOME is not set: the DEVELOPMENT BROKER stands in with few users, and these figures say less."
    }
}

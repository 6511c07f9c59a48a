import Foundation
import Glibc
import Kafka
import TestSupport

/// A Kafka for a benchmark: a real one of KAFKA_HOME with these topics, else the development broker, whose topics are
/// Daybook's own. Ends with this.
final class StartedKafka {
    /// Of each topic; BENCH_PARTITIONS is another number.
    static let partitions = ProcessInfo.processInfo.environment["BENCH_PARTITIONS"].flatMap(Int.init) ?? 4

    let bootstrapServers: String
    private let real: RealKafka?
    private let broker: ServiceProcess?

    var isReal: Bool { real != nil }

    /// - Parameters:
    ///   - prefix: of the development broker's topics.
    ///   - topics: of a real one.
    ///   - settings: of a real one, `key=value`.
    /// - Throws: what did not start.
    init(prefix: String, topics: [String], settings: [String] = []) throws {
        if RealKafka.home != nil {
            let real = try RealKafka(settings: settings)
            self.real = real
            broker = nil
            bootstrapServers = real.bootstrapServers
            let admin = try KafkaAdmin(properties: [("bootstrap.servers", bootstrapServers)], log: { _ in })
            let specifications = topics.map { name in
                KafkaTopicSpecification(
                    name: name,
                    partitions: Int32(Self.partitions),
                    replicationFactor: 1,
                    settings: ["message.timestamp.type": "LogAppendTime"]
                )
            }
            _ = try admin.create(specifications, timeoutMilliseconds: 30_000)
        } else {
            let file = FileManager.default.temporaryDirectory.path + "/daybook-bench-broker-\(getpid())"
            let broker = try ServiceProcess(
                "daybook",
                ["broker", "--partitions", "\(Self.partitions)", "--address-file", file],
                environment: ["DAYBOOK_TOPIC_PREFIX": prefix]
            )
            try Eventually.holds("the development broker") {
                FileManager.default.fileExists(atPath: file) || !broker.isRunning
            }
            self.broker = broker
            real = nil
            bootstrapServers = try String(contentsOfFile: file, encoding: .utf8)
                .trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }

    deinit { real?.stop() }

    func stop() { real?.stop() }
}

import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport

/// A Kafka with Daybook's topics and a database of its own; workers are started by the tests.
struct PipelineUnderTest {
    let kafka: KafkaUnderTest
    let databaseURL: String
    let connection: PostgresConnection
    let reads: DayReads
    let partitions: Int

    static let today = CalendarDay(daysSinceEpoch: Int32(Date().timeIntervalSince1970 / 86_400))
    static let now = Instant.present

    /// - Parameters:
    ///   - kind: of the broker.
    ///   - partitions: of each topic.
    ///   - broker: settings of a real broker, `key=value`.
    ///   - topics: settings of a real broker's topics.
    /// - Throws: whatever did not start.
    init(
        _ kind: KafkaUnderTest.Kind,
        partitions: Int = 2,
        broker: [String] = [],
        topics: [String: String] = [:]
    ) throws {
        let kafka =
            switch kind {
            case .mock:
                try KafkaUnderTest.mock(topics: Self.topics(partitions))
            case .real: try KafkaUnderTest.start(.real, settings: broker)
            }
        if kafka.mock == nil { try Self.createTopics(on: kafka, partitions, topics) }
        try self.init(on: kafka, partitions: partitions)
    }

    /// Another database behind a Kafka that is there.
    init(on kafka: KafkaUnderTest, partitions: Int) throws {
        self.kafka = kafka
        self.partitions = partitions
        databaseURL = try PrivatePostgres.freshDatabase()
        connection = try PostgresConnection(url: databaseURL, applicationName: "system test")
        try Migrator(connection).migrate(today: Self.today)
        reads = DayReads(connection)
    }

    static func topics(_ partitions: Int) -> [(name: String, partitions: Int)] {
        Topic.allCases.map { ($0.name(prefix: ""), partitions) }
    }

    private static func createTopics(
        on kafka: KafkaUnderTest,
        _ partitions: Int,
        _ settings: [String: String]
    ) throws {
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let specifications = topics(partitions).map { topic in
            KafkaTopicSpecification(
                name: topic.name,
                partitions: Int32(clamping: topic.partitions),
                settings: settings.merging(["message.timestamp.type": "LogAppendTime"]) { $1 }
            )
        }
        try admin.create(specifications, timeoutMilliseconds: 20_000)
    }

    var environment: [String: String] {
        [
            "DAYBOOK_KAFKA_BROKERS": kafka.bootstrapServers,
            "DAYBOOK_DATABASE_URL": databaseURL,
            "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_ALLOW_WEAK_TOPICS": "true",
            "DAYBOOK_DEVELOPMENT_BROKER": kafka.mock == nil ? "false" : "true",
            "DAYBOOK_SESSION_TIMEOUT_MS": "6000",
            "DAYBOOK_WORKER_LANES": "1",
        ]
    }

    func startWorker(_ more: [String: String] = [:]) throws -> ServiceProcess {
        try ServiceProcess("aggregator-worker", environment: environment.merging(more) { $1 })
    }

    /// Runs the operator's program to its end.
    ///
    /// - Returns: its status, and what it printed.
    @discardableResult
    func daybook(_ arguments: String...) throws -> (status: Int32, output: String) {
        let more = ["DAYBOOK_STATE": "/nonexistent/daybook"]
        let program = try ServiceProcess("daybook", arguments, environment: environment.merging(more) { $1 })
        return (try program.waitForExit(seconds: 60), program.output)
    }

    func publisher() throws -> RecordPublisher {
        try RecordPublisher(bootstrapServers: kafka.bootstrapServers)
    }

    /// Every record of the topics that workers apply has been applied or put aside. `partitions` where there are more
    /// by now than there were.
    func waitUntilApplied(seconds: Int = 60, worker: ServiceProcess, partitions: Int? = nil) throws {
        let partitions = partitions ?? self.partitions
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        do {
            try Eventually.holds("all records are applied", seconds: seconds) {
                let applied = Dictionary(
                    uniqueKeysWithValues: try OffsetsStore(connection).all().map { ($0.name, $0.state.nextOffset) }
                )
                for topic in Topic.allCases.filter(\.isApplied).map({ $0.name(prefix: "") }) {
                    for partition in 0..<Int32(partitions) {
                        let end = try admin.watermarks(
                            TopicPartition(topic: topic, partition: partition),
                            timeoutMilliseconds: 10_000
                        ).high
                        let name = PartitionName(topic: topic, partition: partition)
                        if end > 0 && applied[name] != end { return false }
                    }
                }
                return true
            }
        } catch {
            throw Eventually.TimedOut(what: "\(error)\n\(worker.output.suffix(4000))")
        }
    }

    /// What the tables mean, as one text to compare.
    func hash() throws -> String {
        let hashes = try reads.tableHashes()
        return "\(hashes.sources) \(hashes.canonical) \(hashes.devices)"
    }

    /// The headers of the dead letters that are there.
    func deadLetters() throws -> [[String: String]] {
        try kafka.records(in: Topic.deadLetters.name(prefix: ""), partitions: partitions).map(\.headers)
    }
}

extension ServiceProcess {
    /// A worker has noticed: by a batch, or by a look that came before one.
    var saysDatabaseIsAway: Bool {
        let output = output
        return output.contains("database is away") || output.contains("the database can't be used")
    }
}

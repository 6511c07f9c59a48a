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
    static let now = Instant(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))

    init(_ kind: KafkaUnderTest.Kind, partitions: Int = 2) throws {
        let kafka =
            switch kind {
            case .mock:
                try KafkaUnderTest.mock(topics: Self.topics(partitions))
            case .real: try KafkaUnderTest.start(.real)
            }
        if kafka.mock == nil { try Self.createTopics(on: kafka, partitions) }
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
        [Topic.daysLive, .daysHistory, .accounts, .deadLetters].map { ($0.name(prefix: ""), partitions) }
    }

    private static func createTopics(on kafka: KafkaUnderTest, _ partitions: Int) throws {
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let specifications = topics(partitions).map { topic in
            KafkaTopicSpecification(
                name: topic.name,
                partitions: Int32(clamping: topic.partitions),
                settings: ["message.timestamp.type": "LogAppendTime"]
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

    func publisher() throws -> RecordPublisher {
        try RecordPublisher(bootstrapServers: kafka.bootstrapServers)
    }

    /// Every record has been applied or put aside.
    func waitUntilApplied(seconds: Int = 60, worker: ServiceProcess) throws {
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        do {
            try Eventually.holds("all records are applied", seconds: seconds) {
                let applied = Dictionary(
                    uniqueKeysWithValues: try OffsetsStore(connection).all().map { ($0.name, $0.state.nextOffset) }
                )
                for topic in [Topic.daysLive, .daysHistory, .accounts].map({ $0.name(prefix: "") }) {
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

    /// Both tables, as one text to compare.
    func hash() throws -> String {
        let hashes = try reads.tableHashes()
        return "\(hashes.sources) \(hashes.canonical)"
    }

    /// The dead letters that are there, with their headers.
    func deadLetters() throws -> [[String: String]] {
        var letters: [[String: String]] = []
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        for partition in 0..<Int32(partitions) {
            let name = TopicPartition(topic: Topic.deadLetters.name(prefix: ""), partition: partition)
            let marks = try admin.watermarks(name, timeoutMilliseconds: 10_000)
            guard marks.high > marks.low else { continue }
            let reader = try KafkaReader(properties: kafka.properties(), log: { _ in })
            try reader.start(name, from: .beginning)
            var next = marks.low
            try Eventually.holds("dead letters can be read", seconds: 20) {
                guard let record = try reader.next(timeoutMilliseconds: 200) else { return false }
                var headers: [String: String] = [:]
                record.forEachHeader { name, value in
                    headers[String(decoding: name, as: UTF8.self)] = value.map { String(decoding: $0, as: UTF8.self) }
                }
                letters.append(headers)
                next = record.offset + 1
                return next >= marks.high
            }
        }
        return letters
    }
}

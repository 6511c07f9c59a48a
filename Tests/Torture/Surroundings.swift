import DevelopmentStack
import Domain
import Foundation
import Glibc
import Kafka
import MessageContract
import Postgres
import Storage
import Synchronization
import TestSupport

/// The servers of a run: a Kafka, a durable PostgreSQL and the built ingest, all its own.
final class Surroundings {
    static let secret = "a secret of the torture suite, longer than 32 bytes"
    static let database = "torture"
    /// How long a silent worker keeps its partitions.
    static let sessionMilliseconds = 6000
    /// How long one that does not poll does: as short as may be set.
    static let pollMilliseconds = 10_000

    let kafka: KafkaUnderTest
    let partitions: Int
    let cluster: PostgresCluster
    /// Of live, history, accounts and devices, in this order.
    let topics = [Topic.daysLive, .daysHistory, .accounts, .devices].map { $0.name(prefix: "") }
    let deadLetterTopic = Topic.deadLetters.name(prefix: "")
    private(set) var ingest: ServiceProcess
    private(set) var ingestPort: UInt16
    private let databasePort: PortBox

    /// The server's port for the proxies' threads.
    final class PortBox: Sendable {
        private let port = Mutex<UInt16?>(nil)

        var value: UInt16? { port.withLock { $0 } }

        func set(_ value: UInt16?) { port.withLock { $0 = value } }
    }

    init(_ kind: KafkaUnderTest.Kind, partitions: Int) throws {
        self.partitions = partitions
        let all = [Topic.daysLive, .daysHistory, .points, .accounts, .devices, .deadLetters]
        let names = all.map { (name: $0.name(prefix: ""), partitions: $0 == .deadLetters ? 1 : partitions) }
        switch kind {
        case .mock: kafka = try KafkaUnderTest.mock(topics: names)
        case .real:
            kafka = try KafkaUnderTest.start(.real, brokers: 3)
            let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
            let specifications = names.map { topic in
                KafkaTopicSpecification(
                    name: topic.name,
                    partitions: Int32(clamping: topic.partitions),
                    replicationFactor: 3,
                    settings: [
                        "message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2",
                        // More than they have to take, so that an oversize record gets in.
                        "max.message.bytes": "\(Topic.deadLetters.maximumRecordBytes)",
                    ]
                )
            }
            try admin.create(specifications, timeoutMilliseconds: 60_000)
        }
        cluster = try PrivatePostgres.makeCluster(mode: .durable)
        try cluster.start()
        let url = try cluster.createDatabase(named: Self.database)
        let connection = try PostgresConnection(url: url, applicationName: "torture")
        let today = CalendarDay(daysSinceEpoch: Int32(Date().timeIntervalSince1970 / 86_400))
        try Migrator(connection).migrate(today: today)
        databasePort = PortBox()
        (ingest, ingestPort) = try Self.startIngest(kafka)
        noteDatabasePort()
    }

    // MARK: PostgreSQL

    /// A connection of the suite's own, not through a proxy.
    func connect() throws -> PostgresConnection {
        try PostgresConnection(url: cluster.socketURL(database: Self.database), applicationName: "torture")
    }

    var upstream: @Sendable () -> UInt16? {
        let box = databasePort
        return { box.value }
    }

    /// A worker's URL over a proxy; without TLS, so that the proxy can read along.
    func databaseURL() throws -> @Sendable (UInt16) -> String {
        let direct = try cluster.tcpURL(database: Self.database)
        let credentials = direct.split(separator: "@")[0]
        let name = Self.database
        return { "\(credentials)@127.0.0.1:\($0)/\(name)?sslmode=disable&gssencmode=disable" }
    }

    private func noteDatabasePort() {
        if case .running(_, let port) = cluster.status { databasePort.set(UInt16(exactly: port)) }
    }

    /// Ends the server, in good order or as a crash, and starts it again after `meanwhile`.
    func restartPostgres(crash: Bool, meanwhile: () -> Void) throws {
        databasePort.set(nil)
        if crash, let pid = cluster.postmasterPID { kill(pid, SIGQUIT) }
        cluster.stop()
        meanwhile()
        try cluster.start()
        noteDatabasePort()
    }

    func setReadOnly(_ isReadOnly: Bool) throws {
        let connection = try connect()
        try connection.simpleQuery("ALTER SYSTEM SET default_transaction_read_only = \(isReadOnly ? "on" : "off")")
        try connection.simpleQuery("SELECT pg_reload_conf()")
    }

    // MARK: Kafka and ingest

    static func environment(_ kafka: KafkaUnderTest) -> [String: String] {
        [
            "DAYBOOK_KAFKA_BROKERS": kafka.bootstrapServers,
            "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_ALLOW_WEAK_TOPICS": "true",
            "DAYBOOK_DEVELOPMENT_BROKER": kafka.mock == nil ? "false" : "true",
        ]
    }

    private static func startIngest(_ kafka: KafkaUnderTest) throws -> (ServiceProcess, UInt16) {
        let own = [
            "DAYBOOK_JWT_HS256_SECRET": secret,
            "DAYBOOK_INGEST_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_HEARTBEAT_INTERVAL_MS": "1000",
        ]
        let process = try ServiceProcess("ingest-service", environment: environment(kafka).merging(own) { $1 })
        guard let port = UInt16(try process.waitForLog("listening", key: "port")) else {
            throw Eventually.TimedOut(what: "a port of ingest")
        }
        let admin = try process.waitForLog("admin listening", key: "address")
        do {
            try Eventually.holds("ingest is ready", seconds: 60) { HTTPCall.isReady(adminAddress: admin) }
        } catch {
            throw Eventually.TimedOut(what: "\(error)\n\(process.output.suffix(2000))")
        }
        return (process, port)
    }

    func killIngest() throws {
        try ingest.kill()
    }

    func stopIngest() throws {
        try ingest.stop()
    }

    func restartIngest() throws {
        (ingest, ingestPort) = try Self.startIngest(kafka)
    }

    func workerEnvironment(batchRecords: Int = 25) -> [String: String] {
        Self.environment(kafka).merging([
            "DAYBOOK_SESSION_TIMEOUT_MS": "\(Self.sessionMilliseconds)",
            "DAYBOOK_MAX_POLL_INTERVAL_MS": "\(Self.pollMilliseconds)",
            "DAYBOOK_BATCH_RECORDS": "\(batchRecords)",
            "DAYBOOK_DATABASE_CONNECT_TIMEOUT_MS": "2000",
            "DAYBOOK_DATABASE_LOCK_TIMEOUT_MS": "2000",
            "DAYBOOK_DATABASE_IDLE_TRANSACTION_TIMEOUT_MS": "4000",
        ]) { $1 }
    }

    func end() {
        try? ingest.kill()
        cluster.stop()
        kafka.stop()
        try? cluster.location.removeAll()
    }
}

import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import Synchronization
import TestSupport
import Testing

/// The built programs over a Kafka and a PostgreSQL that want TLS and a password, each as a user of its own with no
/// more than it needs: the rights here are those of deploy/README.md.
@Suite(.serialized, .timeLimit(.minutes(3)), .enabled(if: RealKafka.home != nil, "needs KAFKA_HOME"))
struct `With TLS and a user for each service` {
    private static let partitions = 2
    private static let password = "correcthorse"
    private static let live = Topic.daysLive.name(prefix: "")
    private static let deadLetters = Topic.deadLetters.name(prefix: "")

    private func makeUsers(_ kafka: RealKafka) throws {
        try kafka.addScram(user: "scram", password: Self.password)
        let read = Topic.allCases.filter { $0 != .deadLetters }.map { $0.name(prefix: "") }
        try kafka.allow(["ingest", "CN=ingest"], ["Write", "Describe", "DescribeConfigs"], on: "topic", read)
        try kafka.allow(["aggregator"], ["Read", "Describe"], on: "topic", read)
        try kafka.allow(["aggregator"], ["Write", "Describe"], on: "topic", [Self.deadLetters])
        let all = ["Create", "Describe", "DescribeConfigs", "Alter"]
        try kafka.allow(["migrate"], all, on: "topic", read + [Self.deadLetters])
        let groups = ["live", "history", "accounts", "devices"].map { "daybook-aggregator-\($0)" }
        try kafka.allow(["aggregator"], ["Read"], on: "group", groups)
    }

    private func makeRoles(_ postgres: SecuredPostgres) throws {
        let admin = try PostgresConnection(url: try postgres.socketURL(), applicationName: "test")
        let login = "LOGIN PASSWORD '\(Self.password)'"
        try admin.simpleQuery(
            "CREATE ROLE daybook_reader NOLOGIN; CREATE ROLE daybook_worker NOLOGIN;"
                + "CREATE ROLE migrations LOGIN; ALTER DATABASE \(postgres.database) OWNER TO migrations;"
                + "CREATE ROLE aggregator \(login) IN ROLE daybook_worker;"
                + "CREATE ROLE support \(login) IN ROLE daybook_reader; CREATE ROLE stranger \(login)"
        )
    }

    @Test func `a day goes all the way, and no service may do what another does`() throws {
        let authority = try CertificateAuthority()
        defer { authority.remove() }
        let kafka = try RealKafka()
        defer { kafka.stop() }
        let listeners = try kafka.secure(
            by: authority,
            users: ["migrate", "ingest", "aggregator"],
            password: Self.password
        )
        try makeUsers(kafka)
        func credentials(_ user: String) -> KafkaCredentials {
            KafkaCredentials(
                bootstrapServers: listeners.passwords,
                user: user,
                password: Self.password,
                authorityPath: authority.certificatePath
            )
        }
        let cluster = try PrivatePostgres.makeCluster()
        defer { cluster.stop() }
        // Who owns the tables comes in by certificate alone.
        let postgres = try SecuredPostgres(
            cluster,
            authority: authority,
            database: "secured",
            certified: ["migrations"]
        )
        try makeRoles(postgres)
        let verified = "sslmode=verify-full&sslrootcert=\(authority.certificatePath)"
        let certificates = try ["migrations", "aggregator", "ingest"].map { ($0, try authority.issue($0)) }
        let issued = Dictionary(uniqueKeysWithValues: certificates)
        let owned = try #require(issued["migrations"])
        func database(_ user: String) -> String {
            if user == "migrations" { return postgres.url(user: user, certificate: owned, verified) }
            return postgres.url(user: user, password: Self.password, verified)
        }
        func environment(_ user: String, _ role: String) -> [String: String] {
            credentials(user).environment.merging(
                [
                    "DAYBOOK_DATABASE_URL": database(role), "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:0",
                    "DAYBOOK_ALLOW_WEAK_TOPICS": "true", "DAYBOOK_KAFKA_REPLICATION": "1",
                    "DAYBOOK_KAFKA_PARTITIONS": "\(Self.partitions)", "DAYBOOK_SESSION_TIMEOUT_MS": "6000",
                    "DAYBOOK_WORKER_LANES": "1", "DAYBOOK_STATE": "/nonexistent/daybook",
                    "DAYBOOK_INGEST_ADDRESS": "127.0.0.1:0", "DAYBOOK_JWT_HS256_SECRET": IngestUnderTest.secret,
                    "DAYBOOK_HEARTBEAT_INTERVAL_MS": "500",
                ]
            ) { $1 }
        }

        let migrate = try ServiceProcess("daybook", ["migrate"], environment: environment("migrate", "migrations"))
        #expect(try migrate.waitForExit(seconds: 60) == 0, "\(migrate.output)")
        var settings = environment("ingest", "stranger")
        settings["DAYBOOK_DATABASE_URL"] = nil
        // Ingest by certificate, the worker by password.
        let own = try #require(issued["ingest"])
        for key in settings.keys where key.hasPrefix("DAYBOOK_KAFKA_SASL") { settings[key] = nil }
        settings["DAYBOOK_KAFKA_BROKERS"] = listeners.certificates
        settings["DAYBOOK_KAFKA_SECURITY_PROTOCOL"] = "SSL"
        settings["DAYBOOK_KAFKA_SSL_CERTIFICATE_LOCATION"] = own.certificatePath
        settings["DAYBOOK_KAFKA_SSL_KEY_LOCATION"] = own.keyPath
        let ingest = try ServiceProcess("ingest-service", environment: settings)
        let port = try #require(UInt16(try ingest.waitForLog("listening", key: "port")))
        let ingestAdmin = try ingest.waitForLog("admin listening", key: "address")
        try Eventually.holds("ingest is ready") { HTTPCall.isReady(adminAddress: ingestAdmin) }
        let answer = try HTTPConnection(port: port).request(
            "POST",
            "/v1/days",
            token: try IngestUnderTest.token(),
            body: Array(IngestUnderTest.body().utf8)
        )
        #expect(answer.status == 202, "\(ingest.output.suffix(2000))")
        let worker = try ServiceProcess("aggregator-worker", environment: environment("aggregator", "aggregator"))
        let workerAdmin = try worker.waitForLog("admin listening", key: "address")
        let owner = try PostgresConnection(url: try postgres.socketURL(), applicationName: "test")
        do {
            try Eventually.holds("the day is there", seconds: 60) {
                try owner.executeUnprepared("SELECT count(*) FROM canonical_values").int8(0, 0) == 1
            }
            try Eventually.holds("the worker is ready") { HTTPCall.isReady(adminAddress: workerAdmin) }
        } catch {
            throw Eventually.TimedOut(what: "\(error)\n\(worker.output.suffix(4000))")
        }
        let sessions = try owner.executeUnprepared(
            "SELECT bool_and(ssl), bool_and(version = 'TLSv1.3'), count(*) > 0, bool_and(usename = 'aggregator') "
                + "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL"
        )
        for column in 0..<4 { #expect(try sessions.bool(0, column), "column \(column)") }
        #expect(try worker.stop() == 0)
        #expect(try ingest.stop() == 0)
        #expect(!(worker.output + ingest.output + migrate.output).contains(Self.password))

        try expectKafkaRefusals(credentials)
        try expectScram(credentials("ingest"))
        try expectDatabaseRefusals(postgres, authority)
        // A password does not open what takes certificates, nor does another role's certificate, nor another authority's.
        let other = try CertificateAuthority()
        defer { other.remove() }
        let strangers = [try #require(issued["aggregator"]), try other.issue("migrations")]
        let urls = [postgres.url(user: "migrations", password: Self.password, verified)]
        for url in urls + strangers.map({ postgres.url(user: "migrations", certificate: $0, verified) }) {
            #expect(throws: PostgresError.self) { _ = try PostgresConnection(url: url, applicationName: "test") }
        }
        _ = try PostgresConnection(url: database("migrations"), applicationName: "test")
        try expectCertificates(listeners.certificates, authority, own: own, foreign: try other.issue("ingest"))
    }

    /// The listener of certificates: what a user of it may, and who is no user of it.
    private func expectCertificates(
        _ broker: String,
        _ authority: CertificateAuthority,
        own: CertificateAuthority.Issued,
        foreign: CertificateAuthority.Issued
    ) throws {
        let anybody = [
            ("bootstrap.servers", broker), ("security.protocol", "SSL"), ("ssl.ca.location", authority.certificatePath),
        ]
        func certified(_ issued: CertificateAuthority.Issued) -> [(String, String)] {
            anybody + [
                ("ssl.certificate.location", issued.certificatePath), ("ssl.key.location", issued.keyPath),
            ]
        }
        #expect(try refusalOfWriting(Self.live, certified(own)) == nil)
        let denied = try refusalOfWriting(Self.deadLetters, certified(own))
        #expect(denied?.code == KafkaError.Code.topicAuthorization)
        for properties in [anybody, certified(foreign)] {
            let admin = try KafkaAdmin(properties: properties, log: { _ in })
            #expect(throws: KafkaError.self) { try admin.clusterID(timeoutMilliseconds: 3000) }
        }
    }

    private func expectKafkaRefusals(_ credentials: (String) -> KafkaCredentials) throws {
        let topicCode = KafkaError.Code.topicAuthorization
        #expect(try refusalOfWriting(Self.live, credentials("ingest").properties) == nil)
        #expect(try refusalOfWriting(Self.deadLetters, credentials("ingest").properties)?.code == topicCode)
        #expect(refusalOfReading(Self.live, credentials("ingest").properties)?.code == topicCode)
        #expect(
            try refusalOfJoining("daybook-aggregator-live", credentials("ingest").properties)?.code
                == KafkaError.Code.groupAuthorization
        )
        #expect(refusalOfReading(Self.live, credentials("aggregator").properties) == nil)
        #expect(try refusalOfWriting(Self.live, credentials("aggregator").properties)?.code == topicCode)
        for user in ["ingest", "aggregator"] {
            let admin = try KafkaAdmin(properties: credentials(user).properties, log: { _ in })
            #expect(throws: KafkaError.self) {
                try admin.create([KafkaTopicSpecification(name: "mine", partitions: 1)], timeoutMilliseconds: 10_000)
            }
        }
        // Another password, another authority, no TLS.
        let right = credentials("ingest")
        let wrongPassword = KafkaCredentials(
            bootstrapServers: right.bootstrapServers,
            user: "ingest",
            password: "wronghorse",
            authorityPath: right.authorityPath
        )
        let other = try CertificateAuthority()
        defer { other.remove() }
        let wrongAuthority = KafkaCredentials(
            bootstrapServers: right.bootstrapServers,
            user: "ingest",
            password: Self.password,
            authorityPath: other.certificatePath
        )
        let plain = [("bootstrap.servers", right.bootstrapServers)]
        for properties in [wrongPassword.properties, wrongAuthority.properties, plain] {
            let admin = try KafkaAdmin(properties: properties, log: { _ in })
            #expect(throws: KafkaError.self) { try admin.clusterID(timeoutMilliseconds: 3000) }
        }
    }

    /// Debian 12's librdkafka sends a nonce twice, which Kafka before 4.0 lets pass.
    private func expectScram(_ right: KafkaCredentials) throws {
        let credentials = KafkaCredentials(
            bootstrapServers: right.bootstrapServers,
            user: "scram",
            password: Self.password,
            authorityPath: right.authorityPath,
            mechanism: "SCRAM-SHA-512"
        )
        let isWarned = Mutex(false)
        let admin = try KafkaAdmin(properties: credentials.properties) { line in
            if line.text.contains("older than 2.6.1") { isWarned.withLock { $0 = true } }
        }
        #expect(isWarned.withLock { $0 } == !KafkaLibrary.canDoScram)
        if KafkaLibrary.canDoScram {
            #expect(try !admin.clusterID(timeoutMilliseconds: 10_000).isEmpty)
        } else {
            #expect(throws: KafkaError.self) { try admin.clusterID(timeoutMilliseconds: 3000) }
        }
    }

    private func refusalOfWriting(_ topic: String, _ properties: [(String, String)]) throws -> KafkaError? {
        let producer = try KafkaProducer(properties: properties, topics: [topic], log: { _ in })
        var refusal: KafkaError?
        do {
            try Array("{}".utf8).withUnsafeBytes { value in
                try producer.produce(topicIndex: 0, partition: 0, key: nil, value: value, tag: 0) { _ in }
            }
        } catch let error as KafkaError {
            return error
        }
        let left = producer.flush(timeoutMilliseconds: 20_000) { refusal = $0.error }
        if left > 0 { throw Eventually.TimedOut(what: "a report about a record of \(topic)") }
        return refusal
    }

    private func refusalOfReading(_ topic: String, _ properties: [(String, String)]) -> KafkaError? {
        do throws(KafkaError) {
            let reader = try KafkaReader(properties: properties, log: { _ in })
            try reader.start(TopicPartition(topic: topic, partition: 0), from: .beginning)
            _ = try reader.next(timeoutMilliseconds: 10_000)
            return nil
        } catch {
            return error
        }
    }

    private func refusalOfJoining(_ group: String, _ properties: [(String, String)]) throws -> KafkaError? {
        let consumer = try KafkaConsumer(
            properties: properties + [("group.id", group)],
            topics: [Self.live],
            log: { _ in }
        )
        defer { consumer.close(timeoutMilliseconds: 1000) }
        var refusal: KafkaError?
        try Eventually.holds("the group refuses") {
            if case .error(let error) = consumer.poll(timeoutMilliseconds: 200) { refusal = error }
            return refusal != nil
        }
        return refusal
    }

    private func expectDatabaseRefusals(_ postgres: SecuredPostgres, _ authority: CertificateAuthority) throws {
        let verified = "sslmode=verify-full&sslrootcert=\(authority.certificatePath)"
        func connect(_ user: String, _ options: String, password: String = Self.password) throws -> PostgresConnection {
            try PostgresConnection(
                url: postgres.url(user: user, password: password, options),
                applicationName: "test"
            )
        }
        func expectDenied(_ connection: PostgresConnection, _ sql: String) {
            do {
                try connection.simpleQuery(sql)
                Issue.record("may: \(sql)")
            } catch {
                #expect(error.sqlState == "42501", "\(sql)")
            }
        }
        let worker = try connect("aggregator", verified)
        #expect(try worker.executeUnprepared("SELECT count(*) FROM source_days").int8(0, 0) == 1)
        for sql in [
            "DROP TABLE source_days", "CREATE TABLE mine (id int)", "DELETE FROM accounts",
            "UPDATE schema_migrations SET checksum = 0", "SET ROLE migrations", "CREATE ROLE another",
        ] {
            expectDenied(worker, sql)
        }
        let reader = try connect("support", verified)
        #expect(try reader.executeUnprepared("SELECT count(*) FROM source_days").int8(0, 0) == 0)
        for sql in ["DELETE FROM source_days", "SELECT count(*) FROM consumer_offsets", "SET ROLE aggregator"] {
            expectDenied(reader, sql)
        }
        let stranger = try connect("stranger", verified)
        for table in ["source_days", "canonical_days", "canonical_values", "accounts", "connections", "control"] {
            expectDenied(stranger, "SELECT count(*) FROM \(table)")
        }
        // No TLS, another authority, another password.
        let other = try CertificateAuthority()
        defer { other.remove() }
        #expect(throws: PostgresError.self) { _ = try connect("aggregator", "sslmode=disable") }
        #expect(throws: PostgresError.self) {
            _ = try connect("aggregator", "sslmode=verify-full&sslrootcert=\(other.certificatePath)")
        }
        #expect(throws: PostgresError.self) { _ = try connect("aggregator", verified, password: "wronghorse") }
    }
}

import Configuration
import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage

/// The parts of a local stack: which there are, where they listen, what they are told, in which order they start.
final class LocalStack {
    struct Options {
        var workers: Int
        var port: UInt16
        /// The port was asked for: take no other.
        var portIsFixed: Bool
        var isFresh: Bool
    }

    /// A signal came: stop, and it is no failure.
    struct Interrupted: Error {}

    enum Stage {
        static let servers = 0
        static let workers = 1
        /// Last, and so the first to stop: nothing is accepted any more while the workers drain.
        static let door = 2
    }

    let folder: StateFolder
    let supervisor: Supervisor
    private(set) var record: StackRecord
    private let context: CommandContext
    private let configuration: ToolConfiguration
    private let options: Options
    private let reporter: UpReporter

    init(_ context: CommandContext, _ configuration: ToolConfiguration, _ options: Options, _ reporter: UpReporter) {
        self.context = context
        self.configuration = configuration
        self.options = options
        self.reporter = reporter
        folder = context.stateFolder
        supervisor = Supervisor(policy: SupervisionPolicy(startLimit: 60, grace: 25)) { reporter.tell($0) }
        record = StackRecord(
            supervisor: .current,
            startedAt: String(Instant.now.description.prefix(19)) + "Z",
            brokerIsOurs: configuration.brokers == nil || configuration.isDevelopmentBroker
        )
        supervisor.onChange = { [unowned self] in self.note() }
    }

    /// Brings everything up, or throws; whoever calls it stops what runs in either case.
    func start(pause: () throws -> Void) throws {
        try checkPort()
        try folder.write(record)
        let cluster = try cluster()
        var servers: [any StackPart] = [PostgresPart(cluster: cluster, stage: Stage.servers, limit: 55)]
        servers.append(try standIn())
        if record.brokerIsOurs { servers.append(try broker()) }
        try supervisor.start(servers, pause: pause)

        record.databaseURL = try cluster.socketURL()
        record.databasePasswordPath = cluster.location.passwordFile
        record.kafkaBrokers = record.brokerIsOurs ? servers.last?.address : configuration.brokers
        try folder.write(record)
        try migrate()

        let door = try ingest()
        let workers = try (1...options.workers).map(worker) + [try wakeWorker()]
        // Different stages only for the order of stopping: nothing keeps them from starting together.
        try supervisor.start(workers + [door], pause: pause)
        record.url = door.address.map { "http://\($0)" }
        try folder.write(record)
    }

    func noteUser(_ user: UserID) {
        record.user = user.description
        try? folder.write(record)
    }

    /// Writes down what is known of the parts; a failure to is no reason to stop them.
    private func note() {
        for part in supervisor.parts {
            record.update(
                StackRecord.Part(
                    name: part.name,
                    process: part.process,
                    address: part.address,
                    adminAddress: part.adminAddress,
                    logPath: part.logPath
                )
            )
        }
        try? folder.write(record)
    }

    // MARK: The parts

    private func cluster() throws -> PostgresCluster {
        let layout = StackLayout(folder: folder)
        var location = try layout.databaseLocation()
        if options.isFresh {
            try PostgresCluster(location: location).stopLeftover()
            try location.removeAll()
            location = try layout.databaseLocation()
        }
        if let note = location.note { context.console.print("  " + note) }
        return PostgresCluster(location: location)
    }

    private func broker() throws -> ChildPart {
        let port = try freePort(from: 9092, "the development broker")
        let file = folder.path + "/broker.address"
        return ChildPart(
            name: "broker",
            stage: Stage.servers,
            address: "127.0.0.1:\(port)",
            launch: launch(
                "broker",
                program: context.executable,
                ["broker", "--port", String(port), "--address-file", file],
                [:]
            ),
            readiness: .file(file)
        )
    }

    private func ingest() throws -> ChildPart {
        try checkPort()
        let port = options.portIsFixed ? options.port : try freePort(from: options.port, "the ingest service")
        let admin = try freePort(from: max(8081, port), "the ingest's admin address", besides: [port])
        adminPorts = [port, admin]
        return ChildPart(
            name: "ingest",
            stage: Stage.door,
            address: "127.0.0.1:\(port)",
            adminAddress: "127.0.0.1:\(admin)",
            launch: launch(
                "ingest",
                program: sibling("ingest-service"),
                [],
                try tokenSettings().merging([
                    "DAYBOOK_INGEST_ADDRESS": "127.0.0.1:\(port)", "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:\(admin)",
                ]) { $1 }
            ),
            readiness: .admin
        )
    }

    private func worker(_ number: Int) throws -> ChildPart {
        let admin = try freePort(from: 8082, "a worker's admin address", besides: adminPorts)
        adminPorts.append(admin)
        let name = "aggregator-\(number)"
        return ChildPart(
            name: name,
            stage: Stage.workers,
            adminAddress: "127.0.0.1:\(admin)",
            launch: launch(
                name,
                program: sibling("aggregator-worker"),
                [],
                ["DAYBOOK_DATABASE_URL": record.databaseURL ?? "", "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:\(admin)"]
            ),
            readiness: .admin
        )
    }

    /// Our own server in Apple's place, so that the real client has somebody to talk to.
    private func standIn() throws -> ChildPart {
        let port = try freePort(from: 8443, "the stand-in for Apple's push servers")
        try? FileManager.default.createDirectory(atPath: standInFolder, withIntermediateDirectories: true)
        try? FileManager.default.removeItem(atPath: standInRecord)
        let file = standInFolder + "/address"
        standInAddress = "localhost:\(port)"
        return ChildPart(
            name: Self.standInName,
            stage: Stage.servers,
            address: "127.0.0.1:\(port)",
            launch: launch(
                Self.standInName,
                program: context.executable,
                [
                    "push-stand-in", "--port", String(port), "--folder", standInFolder, "--record", standInRecord,
                    "--address-file", file,
                ],
                [:]
            ),
            readiness: .file(file)
        )
    }

    static let standInName = "push-stand-in"
    private var standInFolder: String { folder.path + "/" + Self.standInName }
    private var standInAddress = ""
    /// A line of JSON for each push that reached the stand-in.
    var standInRecord: String { standInFolder + "/received.jsonl" }

    private func wakeWorker() throws -> ChildPart {
        let admin = try freePort(from: 8087, "the wake worker's admin address", besides: adminPorts)
        adminPorts.append(admin)
        var settings = [
            "DAYBOOK_DATABASE_URL": record.databaseURL ?? "", "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:\(admin)",
            "DAYBOOK_APNS_KEY_FILE": standInFolder + "/apns-key.p8", "DAYBOOK_APNS_KEY_ID": "STANDINKEY",
            "DAYBOOK_APNS_TEAM_ID": "STANDINTEA", "DAYBOOK_APNS_TOPIC": "com.example.daybook",
            "DAYBOOK_APNS_HOST": standInAddress, "DAYBOOK_APNS_SANDBOX_HOST": standInAddress,
            "DAYBOOK_PUSH_CA_FILE": standInFolder + "/stand-in-authority.pem",
        ]
        // Nobody wants to wait for minute 20.
        if !configuration.wakeScheduleIsGiven { settings["DAYBOOK_WAKE_SCHEDULE"] = "continuous" }
        return ChildPart(
            name: "wake",
            stage: Stage.workers,
            adminAddress: "127.0.0.1:\(admin)",
            launch: launch("wake", program: sibling("wake-worker"), [], settings),
            readiness: .admin
        )
    }

    /// A port that was asked for is not replaced by another.
    private func checkPort() throws(StackFailure) {
        guard options.portIsFixed, !PortChoice.isFree(options.port) else { return }
        throw StackFailure(
            .portTaken,
            "port \(options.port) on 127.0.0.1 is taken",
            next: "`ss -ltnp` shows by whom; leave --port out to get the next free one."
        )
    }

    /// Given out, though nobody listens there yet.
    private var adminPorts: [UInt16] = []

    private func freePort(from preferred: UInt16, _ what: String, besides taken: [UInt16] = []) throws -> UInt16 {
        let free = PortChoice.next(from: preferred, attempts: 200) { !taken.contains($0) && PortChoice.isFree($0) }
        guard let free else {
            throw StackFailure(
                .portTaken,
                "no port from \(preferred) to \(Int(preferred) + 199) on 127.0.0.1 is free for \(what)",
                next: "`ss -ltn` shows who listens where."
            )
        }
        return free
    }

    private func tokenSettings() throws -> [String: String] {
        if configuration.tokenSecret != nil { return [:] }
        let path = try folder.secret("jwt-hs256")
        record.jwtSecretPath = path
        return ["DAYBOOK_JWT_HS256_SECRET_FILE": path]
    }

    private func sibling(_ name: String) -> String {
        URL(fileURLWithPath: context.executable).deletingLastPathComponent().path + "/" + name
    }

    private func launch(
        _ name: String,
        program: String,
        _ arguments: [String],
        _ settings: [String: String]
    ) -> ChildProcess.Launch {
        var environment = context.environment
        var ours = settings
        if program != context.executable, let brokers = record.kafkaBrokers {
            ours["DAYBOOK_KAFKA_BROKERS"] = brokers
            ours["DAYBOOK_ALLOW_WEAK_TOPICS"] = "true"
            ours["DAYBOOK_DEVELOPMENT_BROKER"] = record.brokerIsOurs ? "true" : "false"
        }
        for (key, value) in ours {
            // A secret that is given twice is refused.
            environment[key.hasSuffix("_FILE") ? String(key.dropLast(5)) : key + "_FILE"] = nil
            environment[key] = value
        }
        return ChildProcess.Launch(
            program: program,
            arguments: arguments,
            environment: environment,
            logPath: folder.logPath(name)
        )
    }

    // MARK: Tables and topics

    private func migrate() throws {
        let start = monotonicSeconds()
        let connection = try PostgresConnection(url: record.databaseURL ?? "", applicationName: "daybook up")
        let steps = try Migrator(connection).migrate(
            today: Instant.now.day(secondsFromUTC: 0),
            retentionDays: configuration.retentionDays
        )
        let tables = steps.isEmpty ? "up to date" : "applied " + steps.map(\.name).joined(separator: ", ")
        reporter.step("tables", tables, seconds: monotonicSeconds() - start)

        let begin = monotonicSeconds()
        let partitions = record.brokerIsOurs ? BrokerCommand.developmentPartitions : configuration.partitions
        let topics = TopicSetUp(
            admin: try StackAccess.kafkaAdmin(brokers: record.kafkaBrokers ?? "", configuration),
            plan: TopicPlan(partitions: partitions, replication: -1, prefix: configuration.topicPrefix),
            isDevelopmentBroker: record.brokerIsOurs
        )
        let outcome = try topics.run(isDryRun: false)
        let faults = outcome.faults + outcome.missing.map { "\($0) is missing" }
        guard faults.isEmpty else {
            throw CommandFailure(
                .configuration,
                "the topics are not what Daybook needs: " + faults.joined(separator: "; "),
                next: "`daybook migrate --check` shows them; use another DAYBOOK_TOPIC_PREFIX or put them right."
            )
        }
        let made = outcome.made.isEmpty ? "" : ", \(outcome.made.count) made"
        reporter.step("topics", "\(outcome.found.count) topics\(made)", seconds: monotonicSeconds() - begin)
        for weakness in outcome.weaknesses { context.console.note("  weak: " + weakness) }
    }
}

import Authentication
import Configuration
import DevelopmentStack
import Domain
import Foundation
import Kafka
import Postgres

/// Where a command finds the servers: an explicit environment wins, else the local stack of the state folder.
struct StackAccess {
    let configuration: ToolConfiguration
    let folder: StateFolder
    /// The local stack, if it runs.
    let record: StackRecord?

    init(_ context: CommandContext) throws {
        configuration = try ToolConfiguration.read(environment: context.environment)
        folder = context.stateFolder
        record = StateLock.isHeld(folder) ? try folder.record() : nil
    }

    /// For the program that runs the stack itself.
    init(_ context: CommandContext, record: StackRecord, _ configuration: ToolConfiguration) throws {
        self.configuration = configuration
        folder = context.stateFolder
        self.record = record
    }

    /// `http://host:port` of the ingest.
    func url() throws -> String {
        if let url = configuration.ingestURL { return url.hasSuffix("/") ? String(url.dropLast()) : url }
        if let url = record?.url { return url }
        throw missing("ingest service", "DAYBOOK_URL")
    }

    func databaseURL() throws -> String {
        if let url = configuration.databaseURL { return url.reveal() }
        if let url = record?.databaseURL { return url }
        throw missing("database", "DAYBOOK_DATABASE_URL")
    }

    func kafkaBrokers() throws -> String {
        if let brokers = configuration.brokers { return brokers }
        if let brokers = record?.kafkaBrokers { return brokers }
        throw missing("Kafka", "DAYBOOK_KAFKA_BROKERS")
    }

    /// The development broker: its topics are made when it starts, and can't be set.
    func isDevelopmentBroker() throws -> Bool {
        if configuration.isDevelopmentBroker { return true }
        guard let record, record.brokerIsOurs else { return false }
        return try kafkaBrokers() == record.kafkaBrokers
    }

    func tokenMinter() throws -> TokenMinter {
        let key: String
        if let secret = configuration.tokenSecret {
            key = secret.reveal()
        } else if let path = record?.jwtSecretPath {
            key = try Self.read(path)
        } else {
            throw missing("key that signs tokens", "DAYBOOK_JWT_HS256_SECRET_FILE")
        }
        let policy = TokenPolicy(
            hmacKeys: [Array(key.utf8)],
            issuer: configuration.tokenIssuer,
            audience: configuration.tokenAudience
        )
        return try TokenMinter(policy)
    }

    /// Signs with the private key of a file.
    func tokenMinter(privateKey path: String, keyID: String?) throws -> TokenMinter {
        let policy = TokenPolicy(issuer: configuration.tokenIssuer, audience: configuration.tokenAudience)
        return try TokenMinter(privateKey: Array(Self.read(path).utf8), keyID: keyID, policy)
    }

    func connect(
        settings: [(String, String)] = PostgresConnection.recommendedSettings
    ) throws -> PostgresConnection {
        try PostgresConnection(
            url: databaseURL(),
            applicationName: "daybook",
            settings: settings,
            connectTimeout: .milliseconds(configuration.databaseConnectTimeoutMilliseconds)
        )
    }

    func kafkaAdmin() throws -> KafkaAdmin {
        try Self.kafkaAdmin(brokers: kafkaBrokers(), configuration)
    }

    static func kafkaAdmin(brokers: String, _ configuration: ToolConfiguration) throws -> KafkaAdmin {
        let properties = configuration.kafkaProperties.map { ($0.name, $0.value.reveal()) }
        // With DAYBOOK_KAFKA_DEBUG the library says a lot; who sets that wants to read it.
        let isTalkative = configuration.logLevel == .debug
        return try KafkaAdmin(properties: [("bootstrap.servers", brokers)] + properties) { line in
            if isTalkative { Console.standardError("\(line.facility) \(line.text)") }
        }
    }

    /// A secret's file without the newline that editors put behind it.
    private static func read(_ path: String) throws -> String {
        guard let data = FileManager.default.contents(atPath: path), !data.isEmpty else {
            throw CommandFailure(
                .noInput,
                "can't read \(path)",
                next: "Check that the file exists and that you may read it."
            )
        }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .newlines)
    }

    private func missing(_ what: String, _ key: String) -> CommandFailure {
        CommandFailure(
            .unavailable,
            "no stack runs in \(folder.path), so there is no \(what) to use",
            next: "Start one with `daybook up`, or set \(key)."
        )
    }
}

extension CommandContext {
    var stateFolder: StateFolder {
        StateFolder.locate(environment: environment, workingDirectory: workingDirectory, executable: executable)
    }

    /// How to call this program again from where the reader is.
    var programName: String {
        let checkout = URL(fileURLWithPath: stateFolder.path).deletingLastPathComponent().path
        return FileManager.default.fileExists(atPath: checkout + "/Scripts/daybook") ? "Scripts/daybook" : "daybook"
    }
}

extension Instant {
    static var now: Instant {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Instant(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }
}

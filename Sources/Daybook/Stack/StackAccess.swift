import Authentication
import DevelopmentStack
import Domain
import Foundation
import Kafka
import Observability
import Postgres

/// Where a command finds the servers: an explicit environment wins, else the local stack of the state folder.
struct StackAccess {
    let folder: StateFolder
    /// The local stack, if it runs.
    let record: StackRecord?
    private let environment: [String: String]

    init(_ context: CommandContext) throws {
        environment = context.environment
        folder = context.stateFolder
        record = StateLock.isHeld(folder) ? try folder.record() : nil
    }

    /// `http://host:port` of the ingest.
    func url() throws -> String {
        if let url = setting("DAYBOOK_URL") { return url.hasSuffix("/") ? String(url.dropLast()) : url }
        if let url = record?.url { return url }
        throw missing("the ingest service", "DAYBOOK_URL")
    }

    func databaseURL() throws -> String {
        if let url = try secret("DAYBOOK_DATABASE_URL") { return url }
        if let url = record?.databaseURL { return url }
        throw missing("the database", "DAYBOOK_DATABASE_URL")
    }

    func kafkaBrokers() throws -> String {
        if let brokers = setting("DAYBOOK_KAFKA_BROKERS") { return brokers }
        if let brokers = record?.kafkaBrokers { return brokers }
        throw missing("Kafka", "DAYBOOK_KAFKA_BROKERS")
    }

    /// The development broker: its topics are made when it starts, and can't be set.
    func brokerIsOurs() throws -> Bool {
        guard let record, record.brokerIsOurs else { return false }
        return try kafkaBrokers() == record.kafkaBrokers
    }

    func tokenMinter() throws -> TokenMinter {
        let key: String
        if let secret = try secret("DAYBOOK_JWT_SECRET") {
            key = secret
        } else if let path = record?.jwtSecretPath {
            key = try Self.read(path)
        } else {
            throw missing("the key that signs tokens", "DAYBOOK_JWT_SECRET_FILE")
        }
        let policy = TokenPolicy(
            hmacKeys: [Array(key.utf8)],
            issuer: setting("DAYBOOK_JWT_ISSUER"),
            audience: setting("DAYBOOK_JWT_AUDIENCE")
        )
        return try TokenMinter(policy)
    }

    func connect() throws -> PostgresConnection {
        try PostgresConnection(url: databaseURL(), applicationName: "daybook", connectTimeout: .seconds(5))
    }

    func kafkaProperties() throws -> [(String, String)] {
        try Self.kafkaProperties(brokers: kafkaBrokers(), environment)
    }

    func setting(_ name: String) -> String? {
        environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    private func secret(_ name: String) throws -> String? {
        if let value = setting(name) { return value }
        return try setting(name + "_FILE").map(Self.read)
    }

    /// A secret's file without the newline that editors put behind it.
    static func read(_ path: String) throws -> String {
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
            "no stack runs in \(folder.path), so there is no \(what) to talk to",
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

import DevelopmentStack
import Domain
import Foundation
import Glibc
import Postgres
import Storage
import TestSupport

/// A PostgreSQL server as one would run it: what it has acknowledged survives a power cut.
final class BenchmarkDatabase {
    let cluster: PostgresCluster
    /// Looks on; its own CPU is left out of the figures.
    let onlooker: PostgresConnection
    private var onlookers: [String: PostgresConnection] = [:]

    static let changed = [("shared_buffers", "1GB"), ("max_wal_size", "8GB")]
    static let printed = [
        "server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers",
        "max_wal_size", "data_checksums", "autovacuum",
    ]

    /// - Parameters:
    ///   - folder: where it is or is to be; nil takes a new one.
    ///   - changed: what is not PostgreSQL's default.
    /// - Throws: if it can't be made or started.
    init(in folder: String? = nil, changed: [(String, String)] = BenchmarkDatabase.changed) throws {
        if let folder {
            let location = try PostgresClusterLocation.locate(stateFolder: folder, fallbackName: "benchmark")
            cluster = PostgresCluster(location: location)
        } else {
            cluster = try PrivatePostgres.makeCluster(mode: .durable)
        }
        try cluster.start()
        let first = try PostgresConnection(url: cluster.socketURL(), applicationName: "benchmark", settings: [])
        try first.simpleQuery("ALTER SYSTEM RESET ALL")
        for (name, value) in changed { try first.simpleQuery("ALTER SYSTEM SET \(name) = '\(value)'") }
        first.close()
        cluster.stop()
        try cluster.start()
        onlooker = try PostgresConnection(url: cluster.socketURL(), applicationName: "benchmark", settings: [])
    }

    /// Ends the server; what it holds stays.
    func end() {
        onlooker.close()
        for connection in onlookers.values { connection.close() }
        cluster.stop()
    }

    /// Ends the server and removes everything.
    func stop() {
        end()
        try? cluster.location.removeAll()
        try? FileManager.default.removeItem(
            atPath: (cluster.location.passwordFile as NSString).deletingLastPathComponent
        )
    }

    var settings: String {
        get throws {
            try Self.printed.map { name in
                let value = try onlooker.simpleQuery("SHOW \(name)").last?.text(0, 0) ?? "?"
                return "\(name) \(value)"
            }.joined(separator: ", ")
        }
    }

    /// So that nobody pays for what was written before, and background work starts alike for all.
    func checkpoint() throws { try onlooker.simpleQuery("CHECKPOINT") }

    func migrated(_ name: String, today: CalendarDay) throws {
        let url = try cluster.createDatabase(named: name)
        let connection = try PostgresConnection(url: url, applicationName: "benchmark")
        try Migrator(connection).migrate(today: today)
    }

    func copy(_ name: String, from other: String) throws {
        // A template must have no sessions.
        onlookers[other]?.close()
        onlookers[other] = nil
        try cluster.createDatabase(named: name, template: other)
    }

    func url(_ name: String) throws -> String { try cluster.socketURL(database: name) }

    /// A session in one of the databases whose CPU does not count while it only looks.
    func look(into name: String) throws -> PostgresConnection {
        if let open = onlookers[name] { return open }
        let connection = try PostgresConnection(url: url(name), applicationName: "benchmark", settings: [])
        onlookers[name] = connection
        return connection
    }

    /// CPU of the server with its background processes, without the session that looks on.
    func cpu(without looking: PostgresConnection) -> Double {
        guard let postmaster = cluster.postmasterPID else { return .nan }
        return ProcessTimes.postgres(postmaster, without: looking.backendPID)
    }
}

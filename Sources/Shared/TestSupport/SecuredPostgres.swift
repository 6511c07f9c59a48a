public import DevelopmentStack
import Foundation
import Postgres

/// A PostgreSQL server that takes TCP connections by TLS and SCRAM alone. Over the socket it is as before: that is how
/// a test looks in.
public struct SecuredPostgres {
    public let cluster: PostgresCluster
    public let database: String
    private let port: UInt16

    /// Starts the server.
    public init(_ cluster: PostgresCluster, authority: CertificateAuthority, database: String) throws {
        self.cluster = cluster
        self.database = database
        try cluster.start()
        guard case .running(_, let port) = cluster.status else {
            throw Eventually.TimedOut(what: "a server that runs")
        }
        self.port = port
        try cluster.createDatabase(named: database)
        let admin = try PostgresConnection(url: try cluster.socketURL(), applicationName: "test")
        let folder = try admin.executeUnprepared("SHOW data_directory").text(0, 0)
        let issued = try authority.issue("postgres")
        try Self.place(issued.certificatePath, "\(folder)/server.crt", as: folder)
        try Self.place(issued.keyPath, "\(folder)/server.key", as: folder)
        let rules = try admin.executeUnprepared("SHOW hba_file").text(0, 0)
        // What came over TCP before goes; whatever matches no rule is refused.
        let kept = try String(contentsOfFile: rules, encoding: .utf8).split(separator: "\n")
            .filter { $0.hasPrefix("local") }
        try (kept + ["hostssl all all 127.0.0.1/32 scram-sha-256", ""]).joined(separator: "\n")
            .write(toFile: rules + ".new", atomically: false, encoding: .utf8)
        try Self.place(rules + ".new", rules, as: folder)
        try admin.simpleQuery("ALTER SYSTEM SET ssl = 'on'")
        try admin.simpleQuery("SELECT pg_reload_conf()")
        // The postmaster takes it up in its own time.
        try Eventually.holds("the server has TLS") {
            try admin.executeUnprepared("SHOW ssl").text(0, 0) == "on"
        }
    }

    public func socketURL() throws -> String { try cluster.socketURL(database: database) }

    /// - Parameters:
    ///   - user: with this password.
    ///   - password: of letters and digits.
    ///   - options: libpq's, such as `sslmode=verify-full&sslrootcert=…`.
    /// - Returns: a URL over TCP.
    public func url(user: String, password: String, _ options: String) -> String {
        "postgres://\(user):\(password)@127.0.0.1:\(port)/\(database)?\(options)"
    }

    /// The server reads a key only if it is its own user's and nobody else can.
    private static func place(_ source: String, _ target: String, as folder: String) throws {
        let manager = FileManager.default
        let owner = try manager.attributesOfItem(atPath: folder)
        try? manager.removeItem(atPath: target)
        try manager.copyItem(atPath: source, toPath: target)
        try manager.setAttributes(
            [
                .posixPermissions: 0o600, .ownerAccountID: owner[.ownerAccountID] ?? 0,
                .groupOwnerAccountID: owner[.groupOwnerAccountID] ?? 0,
            ],
            ofItemAtPath: target
        )
    }
}

public import DevelopmentStack
import Foundation
import Postgres

/// A PostgreSQL server that takes TCP connections by TLS alone: by SCRAM, or for some roles by certificate. Over the socket
/// it is as before: that is how a test looks in.
public struct SecuredPostgres {
    public let cluster: PostgresCluster
    public let database: String
    private let port: UInt16

    /// Starts the server.
    ///
    /// - Parameters:
    ///   - cluster: not started yet.
    ///   - authority: issues the server's certificate, and those of clients.
    ///   - database: is made.
    ///   - certified: roles that come in by a certificate of their name, and by no password.
    /// - Throws: when it does not come up.
    public init(
        _ cluster: PostgresCluster,
        authority: CertificateAuthority,
        database: String,
        certified: [String] = []
    ) throws {
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
        try Self.place(authority.certificatePath, "\(folder)/clients.pem", as: folder)
        let rules = try admin.executeUnprepared("SHOW hba_file").text(0, 0)
        // What came over TCP before goes; whatever matches no rule is refused.
        let kept = try String(contentsOfFile: rules, encoding: .utf8).split(separator: "\n")
            .filter { $0.hasPrefix("local") }
        let byCertificate = certified.map { "hostssl all \($0) 127.0.0.1/32 cert" }
        try (kept.map(String.init) + byCertificate + ["hostssl all all 127.0.0.1/32 scram-sha-256", ""]).joined(
            separator: "\n"
        )
        .write(toFile: rules + ".new", atomically: false, encoding: .utf8)
        try Self.place(rules + ".new", rules, as: folder)
        try admin.simpleQuery("ALTER SYSTEM SET ssl_ca_file = 'clients.pem'")
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

    /// - Parameters:
    ///   - user: whose certificate it is.
    ///   - certificate: with its key.
    ///   - options: libpq's.
    /// - Returns: a URL over TCP, without a password.
    public func url(user: String, certificate: CertificateAuthority.Issued, _ options: String) -> String {
        "postgres://\(user)@127.0.0.1:\(port)/\(database)?\(options)&sslcert=\(certificate.certificatePath)"
            + "&sslkey=\(certificate.keyPath)"
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

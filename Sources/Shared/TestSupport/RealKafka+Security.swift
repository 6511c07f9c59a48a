import DevelopmentStack
import Foundation

/// What a client of the secured listener proves itself with.
public struct KafkaCredentials: Sendable {
    public let bootstrapServers: String
    public let user: String
    public let password: String
    public let authorityPath: String
    public let mechanism: String

    public init(
        bootstrapServers: String,
        user: String,
        password: String,
        authorityPath: String,
        mechanism: String = "PLAIN"
    ) {
        self.mechanism = mechanism
        self.bootstrapServers = bootstrapServers
        self.user = user
        self.password = password
        self.authorityPath = authorityPath
    }

    /// For librdkafka.
    public var properties: [(String, String)] {
        [
            ("bootstrap.servers", bootstrapServers), ("security.protocol", "SASL_SSL"),
            ("sasl.mechanisms", mechanism), ("sasl.username", user), ("sasl.password", password),
            ("ssl.ca.location", authorityPath),
        ]
    }

    /// The same as settings of Daybook's programs.
    public var environment: [String: String] {
        [
            "DAYBOOK_KAFKA_BROKERS": bootstrapServers, "DAYBOOK_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "DAYBOOK_KAFKA_SASL_MECHANISMS": mechanism, "DAYBOOK_KAFKA_SASL_USERNAME": user,
            "DAYBOOK_KAFKA_SASL_PASSWORD": password, "DAYBOOK_KAFKA_SSL_CA_LOCATION": authorityPath,
        ]
    }
}

extension RealKafka {
    /// Where a secured cluster listens.
    public struct SecuredListeners: Sendable {
        /// For users with a password.
        public let passwords: String
        /// For users with a certificate: of the common name `x` it is the user `CN=x`.
        public let certificates: String
    }

    /// Gives a cluster of one node two more listeners: TLS with SASL (PLAIN and SCRAM), and TLS with certificates of
    /// clients. No user may do what no rule allows. The listener without TLS stays, for the tools that make rules.
    ///
    /// - Parameters:
    ///   - authority: issues the broker's certificate and those of clients.
    ///   - users: of the mechanism PLAIN, with this password.
    ///   - password: of letters and digits.
    /// - Returns: the addresses of both.
    /// - Throws: when the node does not come up again.
    public func secure(by authority: CertificateAuthority, users: [String], password: String) throws -> SecuredListeners
    {
        guard let port = PortChoice.any(), let second = PortChoice.any(), port != second else {
            throw RealKafkaError("127.0.0.1 has no free ports: end other servers")
        }
        let issued = try authority.issue("kafka")
        let store = authority.folder + "/kafka-store.pem"
        try [issued.keyPath, issued.certificatePath].map { try String(contentsOfFile: $0, encoding: .utf8) }.joined()
            .write(toFile: store, atomically: true, encoding: .utf8)
        let path = directory + "/node-1/server.properties"
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map { line in
            let isListener = line.hasPrefix("listeners=") || line.hasPrefix("advertised.listeners=")
            let more = "SECURE://127.0.0.1:\(port),CERTIFIED://127.0.0.1:\(second)"
            return isListener ? "\(line),\(more)" : String(line)
        }
        let modules = "org.apache.kafka.common.security"
        let plainUsers = users.map { "user_\($0)=\"\(password)\"" }.joined(separator: " ")
        let security = [
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,CERTIFIED:SSL",
            "ssl.truststore.type=PEM", "ssl.truststore.location=\(authority.certificatePath)",
            "listener.name.certified.ssl.client.auth=required",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", "ssl.keystore.type=PEM", "ssl.keystore.location=\(store)",
            "listener.name.secure.plain.sasl.jaas.config=\(modules).plain.PlainLoginModule required \(plainUsers);",
            "listener.name.secure.scram-sha-512.sasl.jaas.config=\(modules).scram.ScramLoginModule required;",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ]
        try kill(node: 1)
        try (lines + security).joined(separator: "\n").write(toFile: path, atomically: true, encoding: .utf8)
        try restart(node: 1)
        return SecuredListeners(passwords: "127.0.0.1:\(port)", certificates: "127.0.0.1:\(second)")
    }

    /// A user of the secured listener, of the mechanism SCRAM.
    public func addScram(user: String, password: String) throws {
        let change = "SCRAM-SHA-512=[iterations=4096,password=\(password)]"
        try launcher.tool(
            "configs",
            ["--bootstrap-server", bootstrapServers, "--alter", "--add-config", change, "--entity-type", "users"]
                + ["--entity-name", user]
        )
    }

    /// Lets users do these things, as `kafka-acls` names them, on topics or groups (`--topic`, `--group`).
    public func allow(_ users: [String], _ operations: [String], on kind: String, _ names: [String]) throws {
        try launcher.tool(
            "acls",
            ["--bootstrap-server", bootstrapServers, "--add", "--force"]
                + users.flatMap { ["--allow-principal", "User:\($0)"] } + operations.flatMap { ["--operation", $0] }
                + names.flatMap { ["--\(kind)", $0] }
        )
    }
}

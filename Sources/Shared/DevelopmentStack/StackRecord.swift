import Foundation

/// What a running stack tells other commands, as `stack.json` in the state folder. Holds paths of secrets, no secret.
public struct StackRecord: Codable, Hashable, Sendable {
    /// One running part.
    public struct Part: Codable, Hashable, Sendable {
        public let name: String
        public var process: ProcessIdentity?
        /// `host:port` on which others talk to it.
        public var address: String?
        /// `host:port` of `/readyz` and `/metrics`.
        public var adminAddress: String?
        public var logPath: String?

        public init(
            name: String,
            process: ProcessIdentity?,
            address: String? = nil,
            adminAddress: String? = nil,
            logPath: String? = nil
        ) {
            self.name = name
            self.process = process
            self.address = address
            self.adminAddress = adminAddress
            self.logPath = logPath
        }
    }

    /// The `daybook up` that runs it.
    public var supervisor: ProcessIdentity
    /// RFC 3339.
    public var startedAt: String
    /// `http://127.0.0.1:8080`
    public var url: String?
    public var kafkaBrokers: String?
    /// The development broker, not a Kafka that was there before.
    public var brokerIsOurs: Bool
    /// Over PostgreSQL's socket, which needs no password from the user who started it.
    public var databaseURL: String?
    /// Only its owner can read it; for connections to 127.0.0.1.
    public var databasePasswordPath: String?
    public var jwtSecretPath: String?
    /// Whose days the demonstration posted.
    public var user: String?
    public var parts: [Part]

    public init(supervisor: ProcessIdentity, startedAt: String, brokerIsOurs: Bool) {
        self.supervisor = supervisor
        self.startedAt = startedAt
        self.brokerIsOurs = brokerIsOurs
        parts = []
    }

    /// Puts a part in, or what is newly known of it.
    public mutating func update(_ part: Part) {
        if let index = parts.firstIndex(where: { $0.name == part.name }) {
            parts[index] = part
        } else {
            parts.append(part)
        }
    }
}

/// How a process listens for its operators, logs and ends.
public struct ProcessConfiguration: Sendable {
    public let adminAddress: SocketAddress
    public let logLevel: LogVerbosity
    /// A part of the grace period; 0 for programs that have none.
    public let drainDelayMilliseconds: Int
    public let gracePeriodMilliseconds: Int

    /// What an orderly end needs beside the delay: requests in flight, and the producer's last records.
    static let millisecondsToFinish = 2500

    public init(_ reader: inout ConfigurationReader) {
        adminAddress = reader.read(Settings.Process.adminAddress)
        logLevel = reader.read(Settings.Process.logLevel)
        drainDelayMilliseconds = reader.read(Settings.Process.drainDelay)
        gracePeriodMilliseconds = reader.read(Settings.Process.gracePeriod)
        reader.require(
            drainDelayMilliseconds == 0
                || drainDelayMilliseconds + Self.millisecondsToFinish <= gracePeriodMilliseconds,
            Settings.Process.drainDelay.key,
            "must be at least \(Self.millisecondsToFinish) ms shorter than \(Settings.Process.gracePeriod.key), of which"
                + " it is a part: what is in flight is finished after it"
        )
    }
}

/// How to reach Kafka, and what its topics are called.
public struct KafkaConfiguration: Sendable {
    /// `host:port`, separated by commas.
    public let brokers: String
    /// Handed on to librdkafka, after ours.
    public let properties: [KafkaProperty]
    public let topicPrefix: String
    /// Append times are made up, and the log is gone after a restart.
    public let isDevelopmentBroker: Bool

    public init(_ reader: inout ConfigurationReader) {
        brokers = reader.read(Settings.Kafka.brokers)
        properties = reader.readKafkaProperties()
        topicPrefix = reader.read(Settings.Kafka.topicPrefix)
        isDevelopmentBroker = reader.read(Settings.Kafka.developmentBroker)
    }

    /// For a client of librdkafka, with secrets revealed.
    public var clientProperties: [(String, String)] {
        [("bootstrap.servers", brokers)] + properties.map { ($0.name, $0.value.reveal()) }
    }
}

/// How to reach PostgreSQL, and how long it may take. All times are milliseconds.
public struct DatabaseConfiguration: Sendable {
    public let url: Secret
    public let connectTimeoutMilliseconds: Int
    public let statementTimeoutMilliseconds: Int
    public let lockTimeoutMilliseconds: Int
    public let idleTransactionTimeoutMilliseconds: Int
    public let tcpUserTimeoutMilliseconds: Int

    public init(_ reader: inout ConfigurationReader) {
        url = reader.read(Settings.Database.url)
        connectTimeoutMilliseconds = reader.read(Settings.Database.connectTimeout)
        statementTimeoutMilliseconds = reader.read(Settings.Database.statementTimeout)
        lockTimeoutMilliseconds = reader.read(Settings.Database.lockTimeout)
        idleTransactionTimeoutMilliseconds = reader.read(Settings.Database.idleTransactionTimeout)
        tcpUserTimeoutMilliseconds = reader.read(Settings.Database.tcpUserTimeout)
    }
}

/// How tokens are checked.
public struct TokenConfiguration: Sendable {
    /// A secret as it was at the start, and the file that it came from, if it did.
    public struct SharedSecret: Sendable {
        public let secret: Secret
        public let file: String?
    }

    public let secrets: [SharedSecret]
    public let pemFiles: [String]
    public let jwksFile: String?
    public let jwksURL: String?
    public let jwksRefreshSeconds: Int
    /// Nil: the system's.
    public let jwksAuthorities: String?
    /// Nil: any issuer.
    public let issuer: String?
    /// Nil: any audience.
    public let audience: String?
    public let leewaySeconds: Int
    public let rememberedTokens: Int

    public init(_ reader: inout ConfigurationReader) {
        var secrets: [SharedSecret] = []
        var isGiven = false
        for setting in [Settings.Tokens.secret, Settings.Tokens.previousSecret] {
            isGiven = isGiven || reader.isGiven(setting)
            guard let secret = reader.readOptional(setting) else { continue }
            secrets.append(SharedSecret(secret: secret, file: reader.secretFile(of: setting)))
        }
        self.secrets = secrets
        pemFiles = reader.readOptional(Settings.Tokens.pemFiles) ?? []
        jwksFile = reader.readOptional(Settings.Tokens.jwksFile)
        jwksURL = reader.readOptional(Settings.Tokens.jwksURL)
        jwksRefreshSeconds = reader.read(Settings.Tokens.jwksRefresh)
        jwksAuthorities = reader.readOptional(Settings.Tokens.jwksAuthorities)
        issuer = reader.readOptional(Settings.Tokens.issuer)
        audience = reader.readOptional(Settings.Tokens.audience)
        leewaySeconds = reader.read(Settings.Tokens.leeway)
        rememberedTokens = reader.read(Settings.Tokens.remembered)
        for given in [Settings.Tokens.jwksFile, Settings.Tokens.jwksURL] { isGiven = isGiven || reader.isGiven(given) }
        let secret = Settings.Tokens.secret.key
        reader.require(
            isGiven || reader.isGiven(Settings.Tokens.pemFiles),
            secret,
            "is required (or \(secret)\(Settings.fileSuffix)), or another source of keys for tokens: "
                + "\(Settings.Tokens.pemFiles.key), \(Settings.Tokens.jwksFile.key) or \(Settings.Tokens.jwksURL.key)"
        )
        reader.require(
            !reader.isGiven(Settings.Tokens.previousSecret) || reader.isGiven(Settings.Tokens.secret),
            Settings.Tokens.previousSecret.key,
            "is for a rotation: set \(secret) too"
        )
        reader.require(
            jwksAuthorities == nil || reader.isGiven(Settings.Tokens.jwksURL),
            Settings.Tokens.jwksAuthorities.key,
            "is for \(Settings.Tokens.jwksURL.key), which is not set: remove it"
        )
    }
}

/// How wakes are decided; the operator's program reads it too, so that it explains what a worker would do.
public struct WakeRulesConfiguration: Sendable {
    public let schedule: WakeSending
    public let minute: Int
    public let windowSeconds: Int
    /// As `22:00-07:00`; nil for none.
    public let quietHours: String?
    public let logDays: Int

    public init(_ reader: inout ConfigurationReader) {
        schedule = reader.read(Settings.Wake.schedule)
        minute = reader.read(Settings.Wake.minute)
        windowSeconds = reader.read(Settings.Wake.window)
        quietHours = reader.readOptional(Settings.Wake.quietHours)
        logDays = reader.read(Settings.Wake.logDays)
    }
}

/// Where pushes go, and with what.
public struct PushServersConfiguration: Sendable {
    public struct Apple: Sendable {
        public let key: Secret
        public let keyID: String
        public let teamID: String
        public let topic: String
        public let topics: [String]
        /// host:port.
        public let host: String
        public let sandboxHost: String
    }

    public struct Google: Sendable {
        public let serviceAccount: Secret
        public let host: String
        public let tokenURL: String?
    }

    public let apple: Apple?
    public let google: Google?
    public let certificateFile: String?
    public let proxy: String?
    public let proxyCredentials: Secret?

    public init(_ reader: inout ConfigurationReader) {
        apple = Self.readApple(&reader)
        let host = reader.read(Settings.Push.fcmHost)
        let tokenURL = reader.readOptional(Settings.Push.fcmTokenURL)
        google = reader.readOptional(Settings.Push.fcmServiceAccount).map {
            Google(serviceAccount: $0, host: host, tokenURL: tokenURL)
        }
        certificateFile = reader.readOptional(Settings.Push.certificates)
        proxy = reader.readOptional(Settings.Push.proxy)
        proxyCredentials = reader.readOptional(Settings.Push.proxyCredentials)
        reader.require(
            proxyCredentials == nil || reader.isGiven(Settings.Push.proxy),
            Settings.Push.proxyCredentials.key,
            "is for \(Settings.Push.proxy.key), which is not set: remove it"
        )
    }

    private static func readApple(_ reader: inout ConfigurationReader) -> Apple? {
        let key = reader.readOptional(Settings.Push.apnsKey)
        let keyID = reader.readOptional(Settings.Push.apnsKeyID)
        let teamID = reader.readOptional(Settings.Push.apnsTeamID)
        let topic = reader.readOptional(Settings.Push.apnsTopic)
        let topics = reader.readOptional(Settings.Push.apnsTopics) ?? ""
        let host = reader.read(Settings.Push.apnsHost)
        let sandboxHost = reader.read(Settings.Push.apnsSandboxHost)
        guard reader.isGiven(Settings.Push.apnsKey) else { return nil }
        for setting in [Settings.Push.apnsKeyID, Settings.Push.apnsTeamID, Settings.Push.apnsTopic] {
            reader.require(
                reader.isGiven(setting),
                setting.key,
                "is required where \(Settings.Push.apnsKey.key) is set"
            )
        }
        guard let key, let keyID, let teamID, let topic else { return nil }
        return Apple(
            key: key,
            keyID: keyID,
            teamID: teamID,
            topic: topic,
            topics: topics.split(separator: ",").map { $0.filter { $0 != " " } },
            host: host,
            sandboxHost: sandboxHost
        )
    }
}

/// Everything that the wake worker can be told.
public struct WakeConfiguration: Sendable {
    public let process: ProcessConfiguration
    public let database: DatabaseConfiguration
    public let topicPrefix: String
    public let rules: WakeRulesConfiguration
    public let push: PushServersConfiguration
    public let ratePerSecond: Int
    public let batch: Int
    public let scanIntervalMilliseconds: Int
    public let leaseSeconds: Int
    public let recordDays: Int

    public init(_ reader: inout ConfigurationReader) {
        process = ProcessConfiguration(&reader)
        database = DatabaseConfiguration(&reader)
        topicPrefix = reader.read(Settings.Kafka.topicPrefix)
        rules = WakeRulesConfiguration(&reader)
        push = PushServersConfiguration(&reader)
        ratePerSecond = reader.read(Settings.Wake.rate)
        batch = reader.read(Settings.Wake.batch)
        scanIntervalMilliseconds = reader.read(Settings.Wake.scanInterval)
        leaseSeconds = reader.read(Settings.Wake.lease)
        recordDays = reader.read(Settings.Wake.recordDays)
    }

    /// Reads all of it.
    ///
    /// - Throws: `ConfigurationErrors` with everything that is wrong.
    public static func read(
        environment: [String: String] = Environment.current()
    ) throws(ConfigurationErrors) -> WakeConfiguration {
        var reader = ConfigurationReader(program: .wake, environment: environment)
        let configuration = WakeConfiguration(&reader)
        try reader.finish()
        return configuration
    }
}

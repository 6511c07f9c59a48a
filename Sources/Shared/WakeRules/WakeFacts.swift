public import Domain

/// What is known of a user when it is decided whether to wake them; read under the lock of their account.
public struct WakeFacts: Hashable, Sendable {
    /// A connection of an on-device source.
    public struct Connection: Hashable, Sendable {
        public let source: Source
        public let lastPushAt: Instant
        /// The source's newest disconnect, if there was one.
        public let disconnectedAt: Instant?

        public init(source: Source, lastPushAt: Instant, disconnectedAt: Instant?) {
            self.source = source
            self.lastPushAt = lastPushAt
            self.disconnectedAt = disconnectedAt
        }

        public var isConnected: Bool { disconnectedAt.map { lastPushAt > $0 } ?? true }
    }

    public let user: UserID
    public let bucket: Int
    public var connections: [Connection]
    /// The live ones.
    public var tokens: [WakeToken]
    public var schedule: WakeSchedule
    /// Seconds that the user's zone is east of UTC.
    public var secondsFromUTC: Int

    public init(
        user: UserID,
        bucket: Int,
        connections: [Connection],
        tokens: [WakeToken],
        schedule: WakeSchedule,
        secondsFromUTC: Int = 0
    ) {
        self.user = user
        self.bucket = bucket
        self.connections = connections
        self.tokens = tokens
        self.schedule = schedule
        self.secondsFromUTC = secondsFromUTC
    }

    public var lastPushAt: Instant? { connections.map(\.lastPushAt).max() }
}

/// A live device token with what its sender has to know. Printing it shows no token.
public struct WakeToken: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    public let user: UserID
    public let hash: DeviceTokenHash
    public let registration: DeviceRegistration
    public let registered: Version

    public init(user: UserID, hash: DeviceTokenHash, registration: DeviceRegistration, registered: Version) {
        self.user = user
        self.hash = hash
        self.registration = registration
        self.registered = registered
    }

    public var description: String { "\(registration.platform.rawValue) token ***" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

public import Domain

/// A device token. Never shown: printing, interpolating, dumping or reflecting it gives `***`.
public struct PushToken: Hashable, Sendable {
    let text: String

    public init(_ text: String) {
        self.text = text
    }
}

extension PushToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "***" }
    public var debugDescription: String { "***" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Where a push goes: each has connections, a credential and stops of its own.
public enum PushLane: String, CaseIterable, Sendable {
    /// Apple, release builds.
    case production = "apns_production"
    /// Apple, debug builds.
    case sandbox = "apns_sandbox"
    case fcm
}

/// One silent push to one phone.
public struct PushRequest: Sendable {
    /// The caller's; comes back with the outcome.
    public var id: UInt64
    public var token: PushToken
    public var lane: PushLane
    /// The app's bundle id (APNs' topic) or package name. Empty: the configured default topic.
    public var appID: String
    /// When the server may give up trying to reach the phone: now + min(spacing, 4 h).
    public var expiration: Instant

    public init(id: UInt64, token: PushToken, lane: PushLane, appID: String, expiration: Instant) {
        self.id = id
        self.token = token
        self.lane = lane
        self.appID = appID
        self.expiration = expiration
    }
}

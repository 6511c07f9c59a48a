/// What a sender has to know of a device. The token stands here alone: never in a key, a header or a log line.
public struct DeviceRegistration: Hashable, Comparable, Sendable {
    public enum Platform: String, CaseIterable, Sendable {
        case ios, android
    }

    /// Which of Apple's servers knows the token.
    public enum Environment: String, CaseIterable, Sendable {
        case production, sandbox
    }

    public var token: String
    public var platform: Platform
    public var environment: Environment
    /// The app's bundle id or package name.
    public var appID: String
    public var appVersion: String
    public var osVersion: String
    public var timeZone: String?

    public init(
        token: String,
        platform: Platform,
        environment: Environment = .production,
        appID: String = "",
        appVersion: String = "",
        osVersion: String = "",
        timeZone: String? = nil
    ) {
        self.token = token
        self.platform = platform
        self.environment = environment
        self.appID = appID
        self.appVersion = appVersion
        self.osVersion = osVersion
        self.timeZone = timeZone
    }

    /// Every part as text, in an order that `TableHash` and ties go by.
    var texts: [String] {
        [token, platform.rawValue, environment.rawValue, appID, appVersion, osVersion, timeZone ?? ""]
    }

    /// Only so that one of two registrations with the same version wins wherever they meet.
    public static func < (left: DeviceRegistration, right: DeviceRegistration) -> Bool {
        left.texts.lexicographicallyPrecedes(right.texts) { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }
}

/// Printing it shows no token.
extension DeviceRegistration: CustomStringConvertible, CustomReflectable {
    public var description: String { "\(platform.rawValue) registration of \(appID) \(appVersion), token ***" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

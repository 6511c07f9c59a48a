/// Where a reading comes from. The raw value is what the tables store: never renumber, never reuse.
public enum Source: UInt8, CaseIterable, Sendable, Hashable {
    case appleHealth = 1
    case healthConnect = 2
    case oura = 3
    case whoop = 4
    case garmin = 5
    case manual = 6
    case checkin = 7

    /// What kind of witness a source is; decides who may write it and how it counts.
    public enum Kind: Sendable, Hashable {
        /// Read on the phone itself; its pushes prove that the phone is awake.
        case onDevice
        /// Read from a provider's cloud by a connector.
        case cloud
        /// Typed in or answered by the person.
        case handTyped
    }

    public var name: StaticString {
        switch self {
        case .appleHealth: "apple_health"
        case .healthConnect: "health_connect"
        case .oura: "oura"
        case .whoop: "whoop"
        case .garmin: "garmin"
        case .manual: "manual"
        case .checkin: "checkin"
        }
    }

    public var kind: Kind {
        switch self {
        case .appleHealth, .healthConnect: .onDevice
        case .oura, .whoop, .garmin: .cloud
        case .manual, .checkin: .handTyped
        }
    }

    /// Measured by something, not told by someone.
    public var isDeviceOrCloud: Bool { kind != .handTyped }

    public init?(name: String) {
        guard let match = Self.allCases.first(where: { $0.description == name }) else { return nil }
        self = match
    }
}

extension Source: CustomStringConvertible {
    public var description: String { name.description }
}

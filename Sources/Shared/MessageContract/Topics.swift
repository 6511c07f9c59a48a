public import Domain

/// The topics, their order of importance, and how they are kept.
public enum Topic: CaseIterable, Sendable, Hashable {
    /// Days within the last 35: what phones send again and again is one record.
    case daysLive
    /// Older days, apart, so that a back-fill can't delay today.
    case daysHistory
    /// Time series of wearables.
    case points
    /// Device tokens registered and withdrawn.
    case devices
    /// Deletions, disconnections and pins.
    case accounts
    /// Poison records as they were, with where they came from.
    case deadLetters

    public var name: StaticString {
        switch self {
        case .daysLive: "daybook.days.live.v1"
        case .daysHistory: "daybook.days.history.v1"
        case .points: "daybook.points.v1"
        case .devices: "daybook.devices.v1"
        case .accounts: "daybook.accounts.v1"
        case .deadLetters: "daybook.dead-letters.v1"
        }
    }

    /// The topic's name behind a prefix, with which several installations share one Kafka.
    public func name(prefix: String) -> String {
        prefix + name.description
    }

    /// How long its records are kept unless configured otherwise; nil: for ever.
    ///
    /// Apps register their device token at every launch, so that a withdrawal outlives its registration. A deletion
    /// has to outlive every record that could bring back what was deleted.
    public var retentionDays: Int? {
        switch self {
        case .daysLive, .daysHistory, .points: 30
        case .devices, .deadLetters: 90
        case .accounts: nil
        }
    }

    /// The largest record, in bytes, that the topic has to take; dead letters carry another record and its origin.
    public var maximumRecordBytes: Int {
        switch self {
        case .daysLive, .daysHistory, .points, .devices, .accounts: 1 << 20
        case .deadLetters: 2 << 20
        }
    }

    /// Keyed by user: these topics all have the same number of partitions.
    public var isKeyedByUser: Bool {
        switch self {
        case .daysLive, .daysHistory, .points, .accounts: true
        case .devices, .deadLetters: false
        }
    }

    /// Takes as much traffic as needs all the partitions that were asked for.
    public var isWide: Bool { self != .deadLetters }

    /// A worker of this build applies its records, so that what is left to read is lag.
    public var isApplied: Bool {
        switch self {
        case .daysLive, .daysHistory, .devices, .accounts: true
        case .points, .deadLetters: false
        }
    }

    /// What every topic must be set to; weaker settings can lose accepted records.
    public static let replicationFactor = 3
    public static let minimumInSyncReplicas = 2
    public static let defaultPartitions = 32
}

/// How a day finds its lane.
public enum Lane: Sendable, Hashable, CaseIterable {
    case live
    case history

    /// Days up to this many days before the user's date are live.
    public static let liveDays = 35

    public init(day: CalendarDay, today: CalendarDay) {
        self = today.days(since: day) <= Self.liveDays ? .live : .history
    }

    public var topic: Topic {
        switch self {
        case .live: .daysLive
        case .history: .daysHistory
        }
    }
}

/// Limits of a record that writers keep and readers check.
public enum RecordLimits {
    /// The largest value that ingest writes.
    public static let valueBytes = 900_000
    public static let days = 400
    public static let originBytes = 128
    public static let zoneBytes = 64
    /// The largest value of an account or device record that is read.
    public static let smallValueBytes = 16_384
    public static let deviceTokenBytes = 2048
    public static let deviceTextBytes = 256
    /// Points of one request.
    public static let points = 5000
    public static let deviceIDBytes = 128
    /// The `data` of a point, as compact JSON, and how deep it may be nested, itself included.
    public static let pointDataBytes = 4096
    public static let pointDataDepth = 4
    /// A `received-at` further ahead of the broker's append time than this is poison.
    public static let clockSeconds = 300
}

public import Domain

/// The topics, their order of importance, and how they are kept.
public enum Topic: CaseIterable, Sendable, Hashable {
    /// Days within the last 35: what phones send again and again is one record.
    case daysLive
    /// Older days, apart, so that a back-fill can't delay today.
    case daysHistory
    /// Poison records as they were, with where they came from.
    case deadLetters

    public var name: StaticString {
        switch self {
        case .daysLive: "daybook.days.live.v1"
        case .daysHistory: "daybook.days.history.v1"
        case .deadLetters: "daybook.dead-letters.v1"
        }
    }

    /// The topic's name behind a prefix, with which several installations share one Kafka.
    public func name(prefix: String) -> String {
        prefix + name.description
    }

    /// How long its records are kept unless configured otherwise.
    public var retentionDays: Int {
        switch self {
        case .daysLive, .daysHistory: 30
        case .deadLetters: 90
        }
    }

    /// The largest record, in bytes, that the topic has to take; dead letters carry another record and its origin.
    public var maximumRecordBytes: Int {
        switch self {
        case .daysLive, .daysHistory: 1 << 20
        case .deadLetters: 2 << 20
        }
    }

    /// Keyed by user: these topics all have the same number of partitions.
    public var isKeyedByUser: Bool { self != .deadLetters }

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
    /// A `received-at` further ahead of the broker's append time than this is poison.
    public static let clockSeconds = 300
}

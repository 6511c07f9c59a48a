public import Domain
public import MessageContract

/// A request of `POST /v1/days` after all checks: what is stored, and what is said of the rest.
public struct DaysRequest: Hashable, Sendable {
    /// Something that was left out by a rule, and is no error.
    public struct Skipped: Hashable, Sendable {
        public enum Reason: String, Sendable {
            /// More than 400 days ago.
            case tooOld = "too_old"
            /// More than one day ahead of the user's date.
            case tooFarAhead = "too_far_ahead"
            /// A later day of the request has the same date.
            case duplicateDate = "duplicate_date"
            /// A zero is taken for a read that found nothing.
            case zero
            /// The day has no metric.
            case empty
        }

        public var index: Int
        public var date: CalendarDay
        /// The metric that was left out; nil: the whole day.
        public var metric: Metric?
        public var reason: Reason
    }

    public var source: Source
    public var origin: String
    /// When the phone read its store, not later than our clock.
    public var observedAt: Instant?
    public var timeZone: String
    /// The user's date now: decides the lane, and what is too old or too far ahead.
    public var today: CalendarDay
    /// The user's date when the values were read.
    public var localDate: CalendarDay
    /// What is stored: one day a date, each with a value.
    public var days: [DaysRecord.Day]
    public var skipped: [Skipped]
    public var errors: [FieldError]
    /// A day was read whose date is good, even if none of its values is stored.
    public var hasGoodDate: Bool
    /// Days that break a rule.
    public var badDays: Int
    public var dayCount: Int
}

/// What a request's days are read with besides the body.
public struct DaysContext {
    public var receivedAt: Instant
    /// The token's claim `time_zone`.
    public var claimedZone: String?
    /// The header `X-Time-Zone`.
    public var headerZone: UnsafeRawBufferPointer?
    /// `DAYBOOK_FALLBACK_ZONE`; a name that the table knows.
    public var fallbackZone: String

    public init(
        receivedAt: Instant,
        claimedZone: String? = nil,
        headerZone: UnsafeRawBufferPointer? = nil,
        fallbackZone: String = "UTC"
    ) {
        self.receivedAt = receivedAt
        self.claimedZone = claimedZone
        self.headerZone = headerZone
        self.fallbackZone = fallbackZone
    }
}

/// Rules of `POST /v1/days`.
public enum DaysRules {
    public static let mostDays = RecordLimits.days
    public static let oldestDays = 400
    public static let mostListedErrors = 400

    /// What Health Connect says of steps that the phone itself counted: `android` in the past, since 2026 a name of
    /// its own for each device and reader. It is one origin.
    static let phoneOrigin: StaticString = "android"
    static let phoneOriginPrefix: StaticString = "com.android.healthconnect.phone."

    /// Whether a role may write a source.
    public static func mayWrite(_ source: Source, isConnector: Bool) -> Bool {
        isConnector ? source.kind == .cloud : source.kind != .cloud
    }
}

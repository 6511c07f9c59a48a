/// The version of a metric of a source row: the larger one wins, whatever the order of arrival.
///
/// 51 bits of microseconds since 2020-01-01, then 12 bits of the event id's random part; always positive, so that
/// zero can mean "none" in the tables.
public struct Version: Hashable, Comparable, Sendable {
    public let rawValue: Int64

    public init(rawValue: Int64) {
        self.rawValue = rawValue
    }

    /// - Parameters:
    ///   - observedAt: when the phone read its store, if it says so; clamped to `receivedAt`.
    ///   - receivedAt: the ingest clock, written once into the record.
    ///   - event: the record's event id, whose random bits break ties.
    public init(observedAt: Instant?, receivedAt: Instant, event: EventID) {
        self.init(
            at: Self.effectiveInstant(observedAt: observedAt, receivedAt: receivedAt),
            tieBreak: event.low & 0xfff
        )
    }

    /// The watermark of a deletion: one minute past its arrival, so that no tolerated clock skew escapes it.
    public static func watermark(deletedAt receivedAt: Instant) -> Version {
        Version(at: receivedAt.advanced(bySeconds: 60), tieBreak: 0)
    }

    /// When the values were read: `observedAt` clamped to `receivedAt`, and never before 2020.
    public static func effectiveInstant(observedAt: Instant?, receivedAt: Instant) -> Instant {
        max(min(observedAt ?? receivedAt, receivedAt), .earliest)
    }

    /// When the values were read, back from the version.
    public var instant: Instant {
        Instant(microseconds: Instant.earliest.microseconds + rawValue >> 12)
    }

    private init(at instant: Instant, tieBreak: UInt64) {
        let limit: Int64 = 1 << 51 - 1
        let (since, overflow) = instant.microseconds.subtractingReportingOverflow(Instant.earliest.microseconds)
        let microseconds = overflow ? 0 : min(max(since, 0), limit)
        rawValue = max(1, microseconds << 12 | Int64(tieBreak))
    }

    public static func < (left: Version, right: Version) -> Bool {
        left.rawValue < right.rawValue
    }
}

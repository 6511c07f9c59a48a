public import Domain

/// The database's clock went forward by itself: whatever was written before seems older than it is.
public struct ClockJump: Hashable, Sendable {
    /// What the clock would have said without it, when it was noticed: no time of before is later.
    public let through: Instant
    /// By how much, in microseconds; negative where the clock was put back.
    public let by: Int64

    public init(through: Instant, by: Int64) {
        self.through = through
        self.by = by
    }

    /// When it was noticed, by the clock that had jumped.
    public var end: Instant { Instant(microseconds: through.microseconds.advancedSaturating(by: by)) }

    /// A time of before as the present clock would have named it; others as they are.
    func presentTime(of time: Int64) -> Int64 {
        by > 0 && time <= through.microseconds ? time.advancedSaturating(by: by) : time
    }
}

/// Watches whether the database's clock, which decides, goes on as evenly as one that never jumps and also runs while
/// the machine sleeps (`CLOCK_BOOTTIME`). Pure; each worker has one, and looks at every turn.
public struct ClockWatch: Sendable {
    /// A change by more between two looks is a jump.
    public static let toleranceSeconds = 60
    /// Nobody is woken for so long after a jump: then no lease of before it is open.
    public static let settlingSeconds = WakeRule.longestLeaseSeconds

    /// The database's time less the even clock's, in microseconds: between these two.
    private var offset: ClosedRange<Int64>?
    /// What holds until the clock has settled, if that is less.
    private var earlierOffset: Int64 = .max
    private var settlesAt: Int64 = .min
    private var lastSeen = Instant.earliest

    public init() {}

    /// Takes a reading of the database's clock.
    ///
    /// - Parameters:
    ///   - database: what it said.
    ///   - before: the even clock before it was asked, in nanoseconds.
    ///   - after: and when the answer was there.
    /// - Returns: the jump since the last look, if there was one, and what the database's clock said at that look.
    public mutating func look(
        _ database: Instant,
        between before: Int64,
        and after: Int64
    ) -> (jump: ClockJump, lastSeen: Instant)? {
        let lowest = database.microseconds.advancedSaturating(by: -(max(before, after) / 1000))
        let present = lowest...database.microseconds.advancedSaturating(by: -(before / 1000))
        defer {
            offset = present
            lastSeen = database
        }
        guard let last = offset else { return nil }
        let tolerance = Int64(Self.toleranceSeconds) * 1_000_000
        let isForward = present.lowerBound > last.upperBound.advancedSaturating(by: tolerance)
        guard isForward || present.upperBound < last.lowerBound.advancedSaturating(by: -tolerance) else { return nil }
        settlesAt = before.advancedSaturating(by: Int64(Self.settlingSeconds) * 1_000_000_000)
        earlierOffset = last.lowerBound
        let (by, overflow) = present.upperBound.subtractingReportingOverflow(last.lowerBound)
        let jump = ClockJump(
            through: Instant(microseconds: last.upperBound.advancedSaturating(by: after / 1000)),
            by: overflow ? (isForward ? .max : .min) : by
        )
        return (jump, lastSeen)
    }

    /// Whether it has not jumped for a while. By the even clock, in nanoseconds.
    public func isSteady(at now: Int64) -> Bool { now >= settlesAt }

    /// The database's time by the even clock; while it has not settled, the earlier of what it may be: when somebody is
    /// looked at again may be too early, and never too late.
    public func time(at now: Int64) -> Instant {
        let lowest = offset?.lowerBound ?? 0
        let offset = isSteady(at: now) ? lowest : min(lowest, earlierOffset)
        return Instant(microseconds: offset.advancedSaturating(by: now / 1000))
    }
}

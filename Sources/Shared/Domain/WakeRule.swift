/// What decides when a phone may be woken; the aggregator keeps the schedule by it.
public enum WakeRule {
    /// A phone whose last push is younger is not woken, nor one that was woken less long ago.
    public static let spacingSeconds = 4 * 3600

    /// Wakes are timed by the database's clock, pushes by the door's. A push that was received up to so long before a
    /// wake answers it: the one before that was at least a spacing older.
    public static let answerToleranceSeconds = 60

    /// No worker's lease is longer.
    public static let longestLeaseSeconds = 600

    /// The earliest time at which a user who pushed then can be due.
    public static func due(afterPush receivedAt: Instant) -> Instant {
        receivedAt.advanced(bySeconds: spacingSeconds)
    }

    /// Wakes that were claimed before this time are answered by a push that was received then.
    public static func answers(before receivedAt: Instant) -> Instant {
        receivedAt.advanced(bySeconds: answerToleranceSeconds)
    }
}

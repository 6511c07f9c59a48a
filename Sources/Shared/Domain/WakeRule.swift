/// What decides when a phone may be woken; the aggregator keeps the schedule by it.
public enum WakeRule {
    /// A phone whose last push is younger is not woken, nor one that was woken less long ago.
    public static let spacingSeconds = 4 * 3600

    /// The earliest time at which a user who pushed then can be due.
    public static func due(afterPush receivedAt: Instant) -> Instant {
        receivedAt.advanced(bySeconds: spacingSeconds)
    }
}

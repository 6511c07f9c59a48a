public import Domain

/// The rate that all workers together keep, as one number: the time up to which sends are given out. A pure state; the
/// database holds it.
public struct SendPace: Hashable, Sendable {
    /// 0 for no limit.
    public let perSecond: Int
    /// Sends are given out up to here.
    public private(set) var spentThrough: Instant

    /// What may go out at once after a pause.
    private static let burst: Int64 = 1_000_000

    public init(perSecond: Int, spentThrough: Instant) {
        self.perSecond = max(0, perSecond)
        self.spentThrough = spentThrough
    }

    /// Gives out as many sends as the rate allows now, and not more than are wanted.
    public mutating func take(_ wanted: Int, at now: Instant) -> Int {
        guard perSecond > 0 else { return max(0, wanted) }
        // A clock that was put back must not stop everything until it has caught up.
        let spent = min(
            max(spentThrough.microseconds, now.microseconds),
            now.microseconds.advancedSaturating(by: 10 * Self.burst)
        )
        let room = now.microseconds.advancedSaturating(by: Self.burst) - spent
        let allowed = room <= 0 ? 0 : Int(min(Int64(clamping: wanted), room * Int64(perSecond) / 1_000_000))
        let given = max(0, allowed)
        spentThrough = Instant(microseconds: spent.advancedSaturating(by: time(of: given)))
        return given
    }

    /// Takes back sends that were not used.
    public mutating func giveBack(_ count: Int) {
        guard perSecond > 0, count > 0 else { return }
        spentThrough = Instant(microseconds: spentThrough.microseconds.advancedSaturating(by: -time(of: count)))
    }

    /// What so many sends take, in microseconds.
    private func time(of count: Int) -> Int64 {
        let (time, overflow) = Int64(clamping: count).multipliedReportingOverflow(by: 1_000_000)
        return (overflow ? .max : time) / Int64(perSecond)
    }
}

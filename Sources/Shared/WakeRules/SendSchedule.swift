public import Domain

/// When wakes are sent: all the time, or once an hour from a minute on, each user at a place of their own in a window,
/// so that a million phones don't answer in one second.
public struct SendSchedule: Hashable, Sendable {
    public enum Kind: Hashable, Sendable {
        case continuous
        case hourly(minute: Int)
    }

    public let kind: Kind
    /// Less than an hour; of no use to `continuous`, which sends whenever somebody comes due.
    public let windowSeconds: Int

    public init(_ kind: Kind = .hourly(minute: 20), windowSeconds: Int = 600) {
        self.kind = kind
        self.windowSeconds = min(max(windowSeconds, 1), 3599)
    }

    private static let hour: Int64 = 3_600_000_000

    /// The first time at which a wake may be sent to the user, not before `instant`.
    public func first(notBefore instant: Instant, for user: UserID) -> Instant {
        guard case .hourly(let minute) = kind else { return instant }
        let place = offset(of: user, minute: minute)
        let (hours, rest) = instant.microseconds.advancedSaturating(by: -place).flooredDivision(by: Self.hour)
        let start = rest == 0 ? hours : hours + 1
        let (hourStart, overflow) = start.multipliedReportingOverflow(by: Self.hour)
        guard !overflow else { return instant }
        return Instant(microseconds: hourStart.advancedSaturating(by: place))
    }

    /// The round of sends that a wake at that time belongs to, named by its beginning.
    public func campaign(at instant: Instant) -> Instant {
        var lead: Int64 = 0
        if case .hourly(let minute) = kind { lead = Int64(minute) * 60_000_000 }
        let hours = instant.microseconds.advancedSaturating(by: -lead).flooredDivision(by: Self.hour).quotient
        let (start, overflow) = hours.multipliedReportingOverflow(by: Self.hour)
        return overflow ? instant : Instant(microseconds: start.advancedSaturating(by: lead))
    }

    /// Microseconds into the hour; the same every hour, and evenly spread over users.
    private func offset(of user: UserID, minute: Int) -> Int64 {
        let spread = Int64(user.scattered % (UInt64(windowSeconds) * 1_000_000))
        return Int64(minute) * 60_000_000 + spread
    }
}

extension SendSchedule: CustomStringConvertible {
    public var description: String {
        switch kind {
        case .continuous: "continuous"
        case .hourly(let minute): "hourly at minute \(minute), spread over \(windowSeconds) s"
        }
    }
}

extension UserID {
    /// Evenly spread, whatever the ids look like (the finaliser of SplitMix64 over both words).
    var scattered: UInt64 {
        var word = high &* 0x9e37_79b9_7f4a_7c15 ^ low
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}

extension Int64 {
    /// Rounds towards negative infinity; the divisor is positive.
    func flooredDivision(by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}

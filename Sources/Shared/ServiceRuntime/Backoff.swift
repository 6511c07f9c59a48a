/// How long to wait before the next attempt: a pure function of the attempt and a random generator.
public struct Backoff: Hashable, Sendable {
    public enum Jitter: Hashable, Sendable {
        case none
        /// Anything between half of the full wait and all of it: spread, yet never hasty.
        case equal
        /// Anything between nothing and the full wait: the best spread, for crowds of clients.
        case full
    }

    public let base: Duration
    public let cap: Duration
    public let jitter: Jitter

    /// - Parameters:
    ///   - base: The full wait after the first attempt; each further one doubles it.
    ///   - cap: The longest wait.
    ///   - jitter: How much of it is left to chance.
    public init(base: Duration, cap: Duration, jitter: Jitter = .equal) {
        self.base = max(base, .zero)
        self.cap = max(cap, .zero)
        self.jitter = jitter
    }

    /// - Parameters:
    ///   - attempt: Which attempt has just failed, from 1.
    ///   - generator: Where chance comes from.
    /// - Returns: How long to wait, between zero and `cap`.
    public func delay(attempt: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        let full = fullDelay(attempt: attempt)
        let nanoseconds = full.clampedNanoseconds
        guard nanoseconds > 0 else { return .zero }
        switch jitter {
        case .none: return full
        case .full: return .nanoseconds(Int64.random(in: 0...nanoseconds, using: &generator))
        case .equal:
            let half = nanoseconds / 2
            return .nanoseconds(half + Int64.random(in: 0...(nanoseconds - half), using: &generator))
        }
    }

    /// The wait before chance makes it shorter.
    public func fullDelay(attempt: Int) -> Duration {
        var delay = base
        var left = max(attempt, 1) - 1
        while left > 0, cap > delay, delay > .zero {
            delay *= 2
            left -= 1
        }
        return min(delay, cap)
    }
}

extension Duration {
    /// Whole nanoseconds, at most what an `Int64` holds (292 years).
    public var clampedNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, sumOverflow) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        guard !overflow, !sumOverflow else { return seconds < 0 ? .min : .max }
        return sum
    }

    /// Whole milliseconds, rounded up: what `StopFlag.wait(milliseconds:)` takes.
    public var clampedMilliseconds: Int {
        let nanoseconds = clampedNanoseconds
        guard nanoseconds > 0 else { return 0 }
        return Int((nanoseconds - 1) / 1_000_000 + 1)
    }
}

/// A small generator with a seed, so that a run can be repeated (Steele, Lea and Flood, 2014). Not for secrets.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    public init(seed: UInt64) {
        state = seed
    }

    public mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

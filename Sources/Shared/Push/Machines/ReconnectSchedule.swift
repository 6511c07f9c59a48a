import ServiceRuntime

/// When the next connection may be made: at once after one that worked, with back-off after those that did not.
struct ReconnectSchedule: Sendable {
    private let backoff: Backoff
    private(set) var failures = 0
    /// Monotonic nanoseconds.
    private(set) var notBefore: Int64 = .min

    init(backoff: Backoff = Backoff(base: .seconds(1), cap: .seconds(60))) {
        self.backoff = backoff
    }

    mutating func failed(now: Int64, using generator: inout some RandomNumberGenerator) {
        failures = min(failures + 1, 1 << 20)
        let wait = backoff.delay(attempt: failures, using: &generator).clampedNanoseconds
        let (sum, overflow) = now.addingReportingOverflow(wait)
        notBefore = overflow ? .max : sum
    }

    /// An answer came.
    mutating func worked() {
        failures = 0
        notBefore = .min
    }

    func mayConnect(now: Int64) -> Bool { now >= notBefore }
}

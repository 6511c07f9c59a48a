/// When a JWKS is fetched: at the start, at an interval, sooner after a failure, and for an unknown key at most once in
/// `leastGap`. All times are nanoseconds of the monotonic clock.
struct RefreshSchedule {
    /// What an unknown key can cause, whoever sends it.
    static let leastGap: Int64 = 30_000_000_000
    private static let firstRetry: Int64 = 1_000_000_000

    private let interval: Int64
    private var lastStart: Int64?
    private var failures = 0
    private(set) var due: Int64

    init(interval: Int64, now: Int64) {
        self.interval = interval
        due = now
    }

    func isDue(_ now: Int64) -> Bool { now >= due }

    /// Brings the next fetch forward.
    mutating func keyIsUnknown(_ now: Int64) {
        let earliest = lastStart.map { $0 &+ Self.leastGap } ?? now
        due = min(due, max(now, earliest))
    }

    mutating func begin(_ now: Int64) { lastStart = now }

    mutating func succeed(_ now: Int64) {
        failures = 0
        due = now &+ interval
    }

    /// 1, 2, 4, … seconds, up to half a minute.
    mutating func fail(_ now: Int64) {
        let wait = Self.firstRetry << Int64(min(failures, 5))
        failures += 1
        due = now &+ min(wait, Self.leastGap, interval)
    }
}

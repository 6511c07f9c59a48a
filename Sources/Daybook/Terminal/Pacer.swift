import Synchronization

/// Holds a number of things to a rate. Pure: takes the time, gives how long to wait.
struct Pacer: Sendable {
    private let interval: Double
    private var next: Double

    /// - Parameters:
    ///   - rate: things a second; nil for no limit.
    ///   - now: in seconds of a monotonic clock.
    init(rate: Int?, now: Double) {
        interval = rate.map { 1 / Double(max(1, $0)) } ?? 0
        next = now
    }

    /// Takes `count` things; returns how many seconds to wait before the first of them. Time that was not used is not
    /// made up for, but for a tenth of a second.
    mutating func take(_ count: Int = 1, now: Double) -> Double {
        guard interval > 0 else { return 0 }
        next = max(next, now - 0.1)
        let wait = max(0, next - now)
        next += interval * Double(max(0, count))
        return wait
    }
}

/// One pace for several threads.
final class SharedPacer: Sendable {
    private let pacer: Mutex<Pacer>

    init(rate: Int?, now: Double) {
        pacer = Mutex(Pacer(rate: rate, now: now))
    }

    /// As `Pacer.take`.
    func take(_ count: Int = 1, now: Double) -> Double {
        pacer.withLock { $0.take(count, now: now) }
    }
}

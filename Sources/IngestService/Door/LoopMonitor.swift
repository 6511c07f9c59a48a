import HTTPServer
import Observability

/// Watches one loop from within: how late its timer is, and what it did since the last time. One loop's own.
///
/// What a loop counts for itself costs its requests nothing; it is handed to the shared instruments four times a second.
final class LoopMonitor {
    static let interval = Duration.milliseconds(250)
    private static let nanoseconds: Int64 = 250_000_000

    private let lag: Histogram
    private let requests: Counter
    private let received: Counter
    private let now: () -> Int64
    private var dueAt: Int64
    private var knownBytes: UInt64 = 0
    /// Requests that reached the handler since the last report.
    var handled = 0

    init(_ metrics: IngestMetrics, loop: Int, now: @escaping () -> Int64) {
        lag = metrics.loopLag
        requests = metrics.loopRequests(loop)
        received = metrics.bytesReceived
        self.now = now
        dueAt = now() + Self.nanoseconds
    }

    /// The loop runs from now on.
    func begin() {
        dueAt = now() + Self.nanoseconds
    }

    /// Called by the loop's timer.
    func report(bytesReceived: UInt64) {
        let moment = now()
        lag.observe(nanoseconds: max(0, moment - dueAt))
        dueAt = moment + Self.nanoseconds
        requests.add(handled)
        handled = 0
        received.add(Int(clamping: bytesReceived &- knownBytes))
        knownBytes = bytesReceived
    }
}

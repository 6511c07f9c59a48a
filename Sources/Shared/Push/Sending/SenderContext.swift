import Domain
import HTTP2
import ServiceRuntime
import Synchronization

/// What the lanes of a sender share. Any thread.
final class SenderContext: Sendable {
    let configuration: PushConfiguration
    let project: String?
    let tls: TLSContext
    let keeper: CredentialKeeper
    let resolver = Resolver()
    let stops = StopBoard()
    let time: any TimeSource
    let delegate: any PushSenderDelegate
    let underWay = Atomic<Int>(0)
    let counters = PushCounters()
    private let alarmTimes = Mutex<[String: Int64]>([:])

    init(
        _ configuration: PushConfiguration,
        project: String?,
        tls: TLSContext,
        keeper: CredentialKeeper,
        time: any TimeSource,
        delegate: any PushSenderDelegate
    ) {
        self.configuration = configuration
        self.project = project
        self.tls = tls
        self.keeper = keeper
        self.time = time
        self.delegate = delegate
    }

    func end(_ request: PushRequest, _ outcome: PushOutcome) {
        underWay.subtract(1, ordering: .acquiringAndReleasing)
        delegate.ended(request, outcome)
    }

    /// Stops a place; a person is told once.
    func stop(_ alarm: PushAlarm) {
        if stops.add(alarm) { delegate.raise(alarm) }
    }

    /// Tells a person, at most once a minute.
    func warn(_ alarm: PushAlarm) {
        let now = time.monotonicNanoseconds()
        let key = "\(alarm.lane.rawValue) \(alarm.code.rawValue)"
        let isDue = alarmTimes.withLock { times in
            if let last = times[key], now - last < 60_000_000_000 { return false }
            times[key] = now
            return true
        }
        if isDue { delegate.raise(alarm) }
    }

    var wallTime: Instant { Instant(microseconds: time.wallMicroseconds()) }
}

/// Figures for metrics.
final class PushCounters: Sendable {
    let connections = Atomic<Int>(0)
    let openStreams = Atomic<Int>(0)
    let tries = Atomic<Int>(0)
    let reconnects = Atomic<Int>(0)
}

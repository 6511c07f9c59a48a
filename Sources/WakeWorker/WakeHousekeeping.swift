internal import Configuration
internal import Domain
internal import Observability
internal import ServiceRuntime
internal import Storage
internal import Synchronization

/// Makes the months of the records of wakes ahead, drops old ones, and looks how many wakes are answered. Every worker
/// does it; whoever comes second finds nothing to do.
final class WakeHousekeeping: Service {
    let name: StaticText = "housekeeping"

    private static let interval = 300_000
    private static let retryInterval = 30_000

    private let configuration: WakeConfiguration
    private let metrics: WakeMetrics
    private let log: Log
    private let stop = StopFlag()
    private let thread = Mutex<WorkerThread?>(nil)

    init(_ configuration: WakeConfiguration, metrics: WakeMetrics, log: Log) {
        self.configuration = configuration
        self.metrics = metrics
        self.log = log
    }

    func start(_ context: ServiceContext) throws {
        let started = try WorkerThread.spawn(name: "housekeeping") { [self] in
            while !stop.isRaised {
                let isDone = work()
                _ = stop.wait(milliseconds: isDone ? Self.interval : Self.retryInterval)
            }
        }
        thread.withLock { $0 = started }
    }

    private func work() -> Bool {
        do {
            let connection = try DatabaseSession.open(configuration.database, name: "housekeeping")
            try SchemaGate.check(connection, build: Int32(clamping: BuildInfo.current.number))
            let now = Instant(microseconds: Log.systemMicroseconds())
            let today = now.day(secondsFromUTC: 0)
            let months = WakeMonths(connection)
            try months.ensureAhead(of: today)
            let dropped = try months.drop(olderThan: configuration.recordDays, today: today)
            if dropped > 0 { log.info("months of old wakes were dropped", [.count: .integer(dropped)]) }
            let answers = try WakeReports(connection).answers(now: now)
            if let share = answers.share { metrics.registry.gauge(WakeMetric.answeredShare).set(share) }
            for (quantile, minutes) in answers.minutes {
                metrics.registry.gauge(WakeMetric.minutesToAnswer, [quantile]).set(minutes)
            }
            return true
        } catch {
            log.warning("the records of wakes could not be kept in order; trying again", [.error: .text("\(error)")])
            return false
        }
    }

    func beginStop() {
        stop.raise()
    }

    func waitStopped(until deadline: Deadline) -> Bool {
        thread.withLock { $0 }?.join(until: deadline) ?? true
    }
}

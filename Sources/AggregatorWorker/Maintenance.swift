internal import Configuration
internal import Domain
internal import MessageContract
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage
internal import Synchronization

/// Keeps the months: those that will be needed are made ahead, those that nobody keeps any more are dropped; and drops
/// what is left of dead device tokens. Every worker does it; whoever comes second finds nothing to do.
final class Maintenance: Service {
    let name: StaticText = "maintenance"

    private static let interval = 3_600_000
    private static let retryInterval = 60_000

    private let configuration: AggregatorConfiguration
    private let log: Log
    private let stop = StopFlag()
    private let thread = Mutex<WorkerThread?>(nil)

    init(_ configuration: AggregatorConfiguration, log: Log) {
        self.configuration = configuration
        self.log = log
    }

    func start(_ context: ServiceContext) throws {
        let started = try WorkerThread.spawn(name: "maintenance") { [self] in
            while !stop.isRaised {
                let isDone = work()
                _ = stop.wait(milliseconds: isDone ? Self.interval : Self.retryInterval)
            }
        }
        thread.withLock { $0 = started }
    }

    /// False where it has to be tried again soon; a lane that meets a missing month makes it by itself.
    private func work() -> Bool {
        do {
            let connection = try DatabaseSession.open(configuration.database, name: "maintenance")
            try SchemaGate.check(connection, build: Int32(clamping: BuildInfo.current.number))
            let now = Instant(microseconds: Log.systemMicroseconds())
            let today = now.day(secondsFromUTC: 0)
            try MonthPartitions(connection).ensureAhead(of: today)
            let outcome = try Retention(connection).enforce(days: configuration.retentionDays, today: today)
            if !outcome.dropped.isEmpty {
                log.info("months below the retention floor were dropped", [.count: .integer(outcome.dropped.count)])
            }
            try dropDeadTokens(connection, now)
            return true
        } catch {
            log.warning("months could not be kept in order; trying again", [.error: .text("\(error)")])
            return false
        }
    }

    /// The broker drops whole segments, which takes up to a week longer than the retention.
    private func dropDeadTokens(_ connection: PostgresConnection, _ now: Instant) throws {
        guard let days = Topic.devices.retentionDays else { return }
        let oldest = now.advanced(bySeconds: -(days + 10) * 86_400)
        var dropped = 0
        while !stop.isRaised {
            let portion = try DeviceTokens(connection).drop(olderThan: oldest)
            if portion == 0 { break }
            dropped += portion
        }
        if dropped > 0 { log.info("entries of dead device tokens were dropped", [.count: .integer(dropped)]) }
    }

    func beginStop() {
        stop.raise()
    }

    func waitStopped(until deadline: Deadline) -> Bool {
        thread.withLock { $0 }?.join(until: deadline) ?? true
    }
}

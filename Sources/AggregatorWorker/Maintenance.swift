internal import Configuration
internal import Domain
internal import MessageContract
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage
internal import WorkerProgram

/// Keeps the months: those that will be needed are made ahead, those that nobody keeps any more are dropped; and drops
/// what is left of dead device tokens. Every worker does it; whoever comes second finds nothing to do.
struct Maintenance: Sendable {
    let configuration: AggregatorConfiguration
    let log: Log

    var service: PeriodicService {
        PeriodicService(name: "maintenance", interval: 3_600_000, retryInterval: 60_000) { stop in work(until: stop) }
    }

    /// False where it has to be tried again soon; a lane that meets a missing month makes it by itself.
    private func work(until stop: StopFlag) -> Bool {
        do {
            let connection = try DatabaseSession.open(configuration.database, name: "aggregator maintenance")
            try SchemaGate.check(connection, build: Int32(clamping: BuildInfo.current.number))
            let now = Instant(microseconds: Log.systemMicroseconds())
            let today = now.day(secondsFromUTC: 0)
            try MonthPartitions(connection).ensureAhead(of: today)
            let outcome = try Retention(connection).enforce(days: configuration.retentionDays, today: today)
            if !outcome.dropped.isEmpty {
                log.info("months below the retention floor were dropped", [.count: .integer(outcome.dropped.count)])
            }
            try dropDeadTokens(connection, now, until: stop)
            return true
        } catch let failure as Retention.Failure {
            log.error("retention is not enforced", [.error: .text("\(failure)")])
            return false
        } catch {
            log.warning("months could not be kept in order; trying again", [.error: .text("\(error)")])
            return false
        }
    }

    /// The broker drops whole segments, which takes up to a week longer than the retention.
    private func dropDeadTokens(_ connection: PostgresConnection, _ now: Instant, until stop: StopFlag) throws {
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
}

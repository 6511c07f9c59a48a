internal import Configuration
internal import Domain
internal import Observability
internal import ServiceRuntime
internal import Storage

/// Makes the months of the records of wakes ahead, drops old ones, and looks how many wakes are answered. Every worker
/// does it; whoever comes second finds nothing to do.
struct WakeHousekeeping: Sendable {
    let configuration: WakeConfiguration
    let metrics: WakeMetrics
    let log: Log

    var service: PeriodicService {
        PeriodicService(name: "housekeeping", interval: 300_000, retryInterval: 30_000) { _ in work() }
    }

    private func work() -> Bool {
        do {
            let connection = try WakeSession.open(configuration, "housekeeping")
            try SchemaGate.check(connection, build: Int32(clamping: BuildInfo.current.number))
            let now = Instant(microseconds: Log.systemMicroseconds())
            let today = now.day(secondsFromUTC: 0)
            let months = WakeMonths(connection)
            try months.ensureAhead(of: today)
            let dropped = try months.drop(olderThan: configuration.recordDays, today: today)
            if dropped > 0 { log.info("months of old wakes were dropped", [.count: .integer(dropped)]) }
            metrics.answers.set(try WakeReports(connection).answers(now: now))
            return true
        } catch {
            log.warning("the records of wakes could not be kept in order; trying again", [.error: .text("\(error)")])
            return false
        }
    }
}

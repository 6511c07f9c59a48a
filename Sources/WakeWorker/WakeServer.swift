internal import AdminServer
public import Configuration
internal import Domain
internal import MessageContract
public import Observability
internal import Postgres
internal import Push
public import ServiceRuntime
internal import Storage
internal import TimeZones
public import WakeRules

/// The wake worker: its loop, the sender, and the operators' door. The one place where they are put together.
public enum WakeServer {
    /// Runs until the flag is raised; returns the status to end the process with.
    public static func run(
        _ configuration: WakeConfiguration,
        log: Log,
        until stop: StopFlag = ShutdownSignal.flag
    ) -> Int32 {
        let registry = MetricsRegistry()
        ProcessMetrics.register(in: registry)
        let metrics = WakeMetrics(registry)
        let time = SystemTime()
        let dispatcher = WakeDispatcher(time: time, metrics: metrics)
        let tokens = SharedTokens { try WakeSession.open(configuration, "provider tokens") }
        let sender: PushService
        do {
            sender = try PushService(configuration.push, tokens: tokens, delegate: dispatcher, log: log)
        } catch {
            log.error("the push servers' settings are wrong", [.error: .text("\(error)")])
            return ExitCode.configuration
        }
        registry.gauge(WakeMetric.tokenAge) {
            tokens.lastIssuedAt.map { (Double(time.wallMicroseconds()) - Double($0.microseconds)) / 1_000_000 }
        }
        registry.gauge(WakeMetric.streams) { Double(sender.figures.openStreams) }
        let loop = WakeLoop(
            timing: .init(
                scanMilliseconds: configuration.scanIntervalMilliseconds,
                drainMilliseconds: max(100, configuration.process.gracePeriodMilliseconds - 2000)
            ),
            log: log
        ) {
            let factory = WakeWorkFactory(configuration: configuration, metrics: metrics, log: log, time: time)
            let (work, store) = try factory.make(dispatcher, sender.sending)
            return (work, store, dispatcher)
        }
        let admin = AdminServer(
            host: configuration.process.adminAddress.host,
            port: configuration.process.adminAddress.port,
            metrics: registry,
            readiness: { AdminServer.Readiness(reasons: loop.reasons) }
        )
        let group = ServiceGroup(
            [admin, WakeHousekeeping(configuration: configuration, metrics: metrics, log: log).service, sender, loop],
            graceMilliseconds: configuration.process.gracePeriodMilliseconds,
            log: log
        )
        return group.run(until: stop)
    }
}

/// What a loop's work is made of, from the configuration; on the loop's own thread.
struct WakeWorkFactory: Sendable {
    let configuration: WakeConfiguration
    let metrics: WakeMetrics
    let log: Log
    let time: any TimeSource

    func make(
        _ dispatcher: WakeDispatcher,
        _ sender: any PushSending,
        batch: Int? = nil
    ) throws -> (work: WakeWork, store: WakeStore) {
        let connection = try WakeSession.open(configuration, "wakes")
        try SchemaGate.check(connection, build: Int32(clamping: BuildInfo.current.number))
        try WakeMonths(connection).ensureAhead(
            of: Instant(microseconds: time.wallMicroseconds()).day(secondsFromUTC: 0)
        )
        let zones = ZoneTable()
        let store = WakeStore(
            connection,
            topic: Topic.daysLive.name(prefix: configuration.topicPrefix),
            zoneOffset: { zones.offset($0, at: $1) }
        )
        let work = WakeWork(
            settings: .init(
                policy: configuration.rules.policy,
                worker: Self.newWorker(time),
                batch: batch ?? configuration.batch,
                ratePerSecond: configuration.ratePerSecond,
                leaseSeconds: configuration.leaseSeconds,
                logSeconds: configuration.rules.logDays * 86_400,
                missingLanes: configuration.push.missingLanes
            ),
            store: store,
            deactivate: { try store.deactivate($0) },
            dispatcher: dispatcher,
            sender: sender,
            metrics: metrics,
            log: log,
            time: time
        )
        return (work, store)
    }

    private static func newWorker(_ time: any TimeSource) -> UUID128 {
        var generator = SystemRandomNumberGenerator()
        let now = Instant(microseconds: time.wallMicroseconds())
        return UUID128.version7(at: now, random: (generator.next(), generator.next()))
    }
}

extension WakeRulesConfiguration {
    /// The figures that the settings stand for.
    public var policy: WakePolicy {
        let kind: SendSchedule.Kind =
            switch schedule {
            case .hourly: .hourly(minute: minute)
            case .continuous: .continuous
            }
        return WakePolicy(
            schedule: SendSchedule(kind, windowSeconds: windowSeconds),
            quietHours: quietHours.flatMap { QuietHours($0) }
        )
    }
}

extension WakeServer {
    /// What one scan did.
    public struct Once: Sendable {
        public var candidates = 0
        /// Users by what became of them: claimed ones by their outcome, the others by why not.
        public var byOutcome: [String: Int] = [:]
        /// Why nobody was looked at, if the cause is ours and holds for all.
        public var heldBack: WakeCondition.Name?
    }

    /// One scan with everything that follows from it; blocks until the last outcome is written.
    ///
    /// - Parameters:
    ///   - configuration: a worker's.
    ///   - limit: how many users are looked at.
    ///   - log: for what happens on the way.
    /// - Returns: what was done.
    /// - Throws: `PostgresError` and what else kept it from being done; claims whose outcome could not be written are
    ///   settled by time.
    public static func runOnce(_ configuration: WakeConfiguration, limit: Int, log: Log) throws -> Once {
        let metrics = WakeMetrics(MetricsRegistry())
        let time = SystemTime()
        let dispatcher = WakeDispatcher(time: time, metrics: metrics)
        let tokens = SharedTokens { try WakeSession.open(configuration, "provider tokens") }
        let sender = try PushService(configuration.push, tokens: tokens, delegate: dispatcher, log: log)
        let work = try WakeWorkFactory(configuration: configuration, metrics: metrics, log: log, time: time)
            .make(dispatcher, sender.sending, batch: limit).work
        try sender.start()
        defer {
            sender.beginStop()
            _ = sender.waitStopped(until: .after(milliseconds: 5000))
        }
        _ = try work.turn(claims: true)
        let last = Deadline.after(milliseconds: configuration.leaseSeconds * 1000)
        while !work.isIdle, !last.hasPassed() {
            StopFlag().wait(milliseconds: 20)
            _ = try work.turn(claims: false)
        }
        return work.once
    }
}

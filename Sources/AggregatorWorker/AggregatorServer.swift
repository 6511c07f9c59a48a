internal import AdminServer
internal import Aggregation
public import Configuration
internal import Domain
internal import Kafka
internal import MessageContract
public import Observability
internal import Postgres
public import ServiceRuntime
internal import Storage
internal import Synchronization
internal import WorkerProgram

/// The worker: its lanes, and the operators' door. The one place where they are put together.
public enum AggregatorServer {
    /// Runs until the flag is raised; returns the status to end the process with.
    public static func run(
        _ configuration: AggregatorConfiguration,
        log: Log,
        until stop: StopFlag = ShutdownSignal.flag
    ) -> Int32 {
        KafkaMemory.keepFreedPages(block: 32, total: 128)
        let registry = MetricsRegistry()
        ProcessMetrics.register(in: registry)
        let lanes = LanePool(configuration, metrics: WorkerMetrics(registry), log: log)
        let admin = AdminServer(
            host: configuration.process.adminAddress.host,
            port: configuration.process.adminAddress.port,
            metrics: registry,
            readiness: { lanes.readiness }
        )
        let group = ServiceGroup(
            [admin, Maintenance(configuration: configuration, log: log).service, lanes],
            graceMilliseconds: configuration.process.gracePeriodMilliseconds,
            log: log
        )
        return group.run(until: stop)
    }
}

/// The worker's lanes, each a thread with a consumer and a connection of its own.
final class LanePool: Service {
    let name: StaticText = "lanes"

    private struct State {
        var threads: [WorkerThread] = []
        var health: [String: Lane.Health] = [:]
        var isStopping = false
    }

    private let configuration: AggregatorConfiguration
    private let metrics: WorkerMetrics
    private let log: Log
    private let stop = StopFlag()
    private let state = Mutex(State())

    init(_ configuration: AggregatorConfiguration, metrics: WorkerMetrics, log: Log) {
        self.configuration = configuration
        self.metrics = metrics
        self.log = log
    }

    func start(_ context: ServiceContext) throws {
        let prefix = configuration.kafka.topicPrefix
        // Each kind is a consumer group of its own, so that neither a back-fill nor a large deletion delays today.
        let pressure = LivePressure()
        let kinds: [(name: String, topic: Topic, reads: RecordReader.Kind, count: Int, role: Lane.Role)] = [
            ("live", .daysLive, .days, configuration.liveLanes, .live(pressure)),
            ("history", .daysHistory, .days, configuration.historyLanes, .history(pressure)),
            ("accounts", .accounts, .accounts, 1, .apart),
            ("devices", .devices, .devices, 1, .apart),
        ]
        let share = LaneFactory.Share(
            lanes: kinds.reduce(0) { $0 + $1.count },
            kinds: kinds.count,
            partitions: PartitionCounts(
                kinds.map { $0.topic.name(prefix: prefix) },
                properties: configuration.kafka.clientProperties
            )
        )
        for kind in kinds {
            for number in 0..<kind.count {
                let name = "\(kind.name)-\(number)"
                state.withLock { $0.health[name] = Lane.Health() }
                let factory = LaneFactory(
                    configuration: configuration,
                    name: name,
                    group: "\(configuration.consumer.group)-\(kind.name)",
                    topic: kind.topic.name(prefix: prefix),
                    reads: kind.reads,
                    role: kind.role,
                    share: share,
                    metrics: metrics,
                    log: log.with([.lane: .text(name)])
                )
                let thread = try WorkerThread.spawn(name: name) { [self] in
                    run(factory, name: name, context: context)
                }
                state.withLock { $0.threads.append(thread) }
            }
        }
    }

    /// A lane is made on its own thread, and made again until what it depends on is there.
    private func run(_ factory: LaneFactory, name: String, context: ServiceContext) {
        var generator = SystemRandomNumberGenerator()
        let backoff = Backoff(base: .milliseconds(200), cap: .seconds(5))
        var attempt = 0
        while !stop.isRaised {
            do {
                let lane = try factory.make { [self] health in publish(health, of: name) }
                attempt = 0
                try lane.run(until: stop)
            } catch let refusal as SchemaGate.Refusal where !refusal.isCuredByMigrating {
                context.log.error("this build must not write to this database", [.error: .text("\(refusal)")])
                context.fail("the schema asks for another build of the worker")
                return
            } catch {
                attempt += 1
                publish(Lane.Health(), of: name)
                let delay = backoff.delay(attempt: attempt, using: &generator).clampedMilliseconds
                context.log.warning(
                    "a lane could not start; trying again",
                    [.lane: .text(name), .error: .text("\(error)"), .delayMilliseconds: .integer(delay)]
                )
                _ = stop.wait(milliseconds: delay)
            }
        }
    }

    private func publish(_ health: Lane.Health, of name: String) {
        let all = state.withLock { state in
            state.health[name] = health
            return Array(state.health.values)
        }
        metrics.assigned.set(all.reduce(0) { $0 + $1.partitions })
        metrics.braked.set(all.reduce(0) { $0 + $1.braked })
        metrics.stopped.set(all.reduce(0) { $0 + $1.stopped })
    }

    /// Ready: every lane reaches the database and has joined its group. A braked or stopped partition does not make
    /// the worker unready, since a restart would not mend it: the metrics and the log tell.
    var readiness: AdminServer.Readiness {
        state.withLock { state in
            var reasons: [String] = state.isStopping ? ["stopping"] : []
            for (name, health) in state.health.sorted(by: { $0.key < $1.key }) {
                if !health.isDatabaseReachable { reasons.append("\(name): the database is away") }
                if !health.hasJoined { reasons.append("\(name): not yet in the consumer group") }
            }
            return AdminServer.Readiness(reasons: reasons)
        }
    }

    func beginStop() {
        state.withLock { $0.isStopping = true }
        stop.raise()
    }

    func waitStopped(until deadline: Deadline) -> Bool {
        state.withLock(\.threads).map { $0.join(until: deadline) }.allSatisfy { $0 }
    }
}

/// What a lane is made of, from the configuration.
struct LaneFactory: Sendable {
    /// With how many others a lane shares the process's memory.
    struct Share: Sendable {
        let lanes: Int
        /// How many topics they read.
        let kinds: Int
        let partitions: PartitionCounts
    }

    let configuration: AggregatorConfiguration
    let name: String
    let group: String
    let topic: String
    let reads: RecordReader.Kind
    let role: Lane.Role
    let share: Share
    let metrics: WorkerMetrics
    let log: Log

    func make(publish: @escaping (Lane.Health) -> Void) throws -> Lane {
        let build = BuildInfo.current
        let connection = try connect()
        let gate = {
            try SchemaGate.check(connection, build: Int32(clamping: build.number))
            try SchemaGate.checkWrites(connection)
        }
        try gate()
        let owner = Self.newOwner()
        let store = BatchStore(connection)
        let runner = BatchRunner(store: store, build: Int32(clamping: build.number))
        let stages = Dictionary(uniqueKeysWithValues: BatchRunner.Stage.allCases.map { ($0, metrics.stage($0)) })
        runner.onStage = { stage, duration in stages[stage]?.observe(nanoseconds: duration.clampedNanoseconds) }
        let processor = BatchProcessor(
            runner: runner,
            months: MonthKeeper { () throws(PostgresError) in try connect() },
            letters: DeadLetterWriter(
                properties: kafkaProperties,
                topic: Topic.deadLetters.name(prefix: configuration.kafka.topicPrefix),
                build: "\(build.version)+\(build.number)",
                log: log
            ),
            owner: owner,
            limits: .init(
                records: configuration.batch.records,
                days: configuration.batch.days,
                bytes: configuration.batch.bytes
            ),
            metrics: metrics,
            log: log,
            time: SystemTime()
        )
        let memory = memory
        return Lane(
            settings: settings(memory),
            owner: owner,
            consumer: try KafkaConsumer(properties: consumerProperties(memory), topics: [topic], log: forward),
            connection: connection,
            processor: processor,
            store: store,
            reader: try RecordReader(reads, believesAppendTimes: !configuration.kafka.isDevelopmentBroker),
            gate: gate,
            metrics: metrics,
            log: log,
            time: SystemTime(),
            publish: publish
        )
    }

    private func settings(_ memory: LaneMemory) -> Lane.Settings {
        Lane.Settings(
            role: role,
            limits: .init(
                records: configuration.batch.records,
                days: configuration.batch.days,
                bytes: configuration.batch.bytes
            ),
            brake: .init(
                window: configuration.brake.window,
                sharePercent: configuration.brake.sharePercent,
                run: configuration.brake.run
            ),
            bufferBytes: memory.bufferBytes,
            batchWaitMilliseconds: configuration.batch.waitMilliseconds,
            sessionTimeoutMilliseconds: configuration.consumer.sessionTimeoutMilliseconds,
            resumesAfterLoss: configuration.consumer.lostLogPolicy == .resume
        )
    }

    private var memory: LaneMemory {
        LaneMemory(
            processBytes: configuration.bufferBytes,
            lanes: share.lanes,
            kinds: share.kinds,
            partitions: share.partitions.count(of: topic)
        )
    }

    private func consumerProperties(_ memory: LaneMemory) -> KafkaProperties.List {
        var ours: KafkaProperties.List = [
            ("group.id", group),
            ("session.timeout.ms", String(configuration.consumer.sessionTimeoutMilliseconds)),
            ("max.poll.interval.ms", String(configuration.consumer.maxPollIntervalMilliseconds)),
            ("queued.max.messages.kbytes", String(memory.queuedKilobytes)),
            ("max.partition.fetch.bytes", String(memory.fetchBytes)),
        ]
        // Every lane is a member of its own.
        if let instance = configuration.consumer.instance { ours.append(("group.instance.id", "\(instance)-\(name)")) }
        return ours + kafkaProperties
    }

    private func connect() throws(PostgresError) -> PostgresConnection {
        try DatabaseSession.open(configuration.database, name: "aggregator \(name)", BatchStore.sessionSettings)
    }

    private var kafkaProperties: KafkaProperties.List { configuration.kafka.clientProperties }

    private var forward: KafkaLog {
        let log = log
        return { line in
            switch line.kind {
            case .error(let error): log.warning("kafka", [.error: .text(error.message)])
            case .log: log.info("kafka", [.reason: .text(line.text)])
            case .statistics: break
            }
        }
    }

    private static func newOwner() -> UUID128 {
        var generator = SystemRandomNumberGenerator()
        let now = Instant(microseconds: Log.systemMicroseconds())
        return UUID128.version7(at: now, random: (generator.next(), generator.next()))
    }
}

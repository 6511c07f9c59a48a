public import AdminServer
import Authentication
public import Configuration
import Domain
import HTTPServer
import Kafka
import MessageContract
public import Observability
public import ServiceRuntime
import Synchronization
import TimeZones

/// The ingest service: the public door, its producer and its heartbeats.
///
/// `start` returns once it listens; it is ready when Kafka has told about the topics and acknowledged heartbeats.
public final class IngestServer: Service {
    public let name: StaticText = "ingest"

    private let configuration: IngestConfiguration
    private let registry: MetricsRegistry
    private let time: any TimeSource
    private let readiness: Readiness
    private let running = Mutex(Running())
    /// Loops that have not ended.
    private let liveLoops = Atomic<Int>(0)

    private struct Running {
        var loops: [HTTPEventLoop] = []
        var doors: [Door] = []
        var threads: [WorkerThread] = []
        var keeper: TopicKeeper?
        var keys: KeyKeeper?
        var holder: ProducerHolder?
        var port: UInt16?
    }

    public init(
        _ configuration: IngestConfiguration,
        registry: MetricsRegistry,
        log: Log,
        time: any TimeSource = SystemTime()
    ) {
        self.configuration = configuration
        self.registry = registry
        self.time = time
        readiness = Readiness(log: log)
    }

    /// The public port; nil before `start`.
    public var port: UInt16? { running.withLock(\.port) }

    /// What `/readyz` says: empty when ready.
    public var isReady: Bool { readiness.reasons.isEmpty }

    /// The service and its admin server, in the order for a `ServiceGroup`.
    public static func services(
        _ configuration: IngestConfiguration,
        registry: MetricsRegistry,
        log: Log
    ) -> [any Service] {
        let server = IngestServer(configuration, registry: registry, log: log)
        return [server.makeAdminServer(), server]
    }

    public func makeAdminServer() -> AdminServer {
        AdminServer(
            host: configuration.process.adminAddress.host,
            port: configuration.process.adminAddress.port,
            metrics: registry,
            readiness: { [readiness] in
                AdminServer.Readiness(reasons: readiness.reasons.map { "\($0.code): \($0.detail)" })
            }
        )
    }

    public func start(_ context: ServiceContext) throws {
        let metrics = IngestMetrics(registry)
        let holder = try ProducerHolder(
            properties: kafkaProperties,
            topics: Topic.published.map { $0.name(prefix: configuration.kafka.topicPrefix) },
            log: context.log,
            replaced: metrics.producersReplaced
        )
        readiness.set(keys: .noKeys)
        let keys = try KeyKeeper(configuration.tokens, time: time, log: context.log) { [readiness] in
            readiness.set(keys: nil)
        }
        metrics.show { keys.status }
        let state = DoorState(
            tokens: DoorState.Tokens(
                policy: configuration.tokens.policy,
                keys: keys.ring,
                remembered: configuration.tokens.rememberedTokens
            ),
            fallbackZone: configuration.fallbackZone,
            limiter: makeLimiter(),
            maximumInFlightBytes: configuration.limits.inFlightBytes,
            holder: holder,
            readiness: readiness,
            metrics: metrics,
            time: time
        )
        metrics.show(
            queueDepth: { holder.producer.outstandingCount },
            // The state holds the metrics: held by them in turn, neither would ever go.
            inFlightBytes: { [weak state] in holder.producer.outstandingBytes + (state?.heldBytes ?? 0) },
            isReady: { [readiness] in readiness.reasons.isEmpty }
        )
        let publisher = Publisher(state: state, settings: publisherSettings, log: context.log)
        let loops = try makeLoops(state, publisher, DoorObserver(metrics, log: context.log), context.log)
        publisher.attach(loops)
        let keeper = TopicKeeper(
            holder: holder,
            readiness: readiness,
            allowsWeakTopics: configuration.allowsWeakTopics,
            log: context.log,
            onReady: { publisher.topicsAreKnown() }
        )
        let threads = try startLoops(loops.map(\.loop), publisher)
        running.withLock { running in
            running.loops = loops.map(\.loop)
            running.doors = loops.map(\.door)
            running.threads = threads
            running.keeper = keeper
            running.keys = keys
            running.holder = holder
        }
        try keys.start()
        try keeper.start()
    }

    private func makeLoops(
        _ state: DoorState,
        _ publisher: Publisher,
        _ observer: DoorObserver,
        _ log: Log
    ) throws -> [(loop: HTTPEventLoop, door: Door)] {
        let count = configuration.http.loops
        let address = configuration.http.address
        var port = address.port
        var loops: [(loop: HTTPEventLoop, door: Door)] = []
        for index in 0..<count {
            let door = try Door(index: index, state: state, log: log) { [weak publisher] in publisher?.replace($0) }
            let loop = try HTTPEventLoop(configuration: httpConfiguration, handler: door, observer: observer)
            // The first may let the system choose; the others share what it got.
            port = try loop.listen(address: address.host, port: port)
            loops.append((loop, door))
        }
        running.withLock { $0.port = port }
        let actual = SocketAddress(host: address.host, port: port)
        log.info("listening", [.address: .text(actual.description), .port: .integer(port)])
        return loops
    }

    private func startLoops(_ loops: [HTTPEventLoop], _ publisher: Publisher) throws -> [WorkerThread] {
        liveLoops.store(loops.count, ordering: .relaxed)
        var threads: [WorkerThread] = []
        for (index, loop) in loops.enumerated() {
            let thread = try WorkerThread.spawn(name: "http-\(index)") { [self] in
                loop.run()
                liveLoops.wrappingSubtract(1, ordering: .relaxed)
                // The first loop reads the reports that the others wait for.
                if index == 0 { publisher.drain { liveLoops.load(ordering: .relaxed) > 0 } }
            }
            threads.append(thread)
        }
        return threads
    }

    /// `/readyz` says no at once; the doors close after the configured delay, and answer what is in flight.
    public func beginStop() {
        readiness.beginDraining()
        let (loops, doors, keeper) = running.withLock { ($0.loops, $0.doors, $0.keeper) }
        keeper?.beginStop()
        running.withLock { $0.keys }?.beginStop()
        let delay = configuration.process.drainDelayMilliseconds
        let limit = max(100, configuration.process.gracePeriodMilliseconds - delay - Self.flushMilliseconds)
        for (loop, door) in zip(loops, doors) {
            loop.post {
                let drain = {
                    loop.beginDrain(deadline: .milliseconds(limit))
                    loop.after(.milliseconds(limit - 50)) { door.giveUp() }
                }
                if delay > 0 { loop.after(.milliseconds(delay), drain) } else { drain() }
            }
        }
    }

    public func waitStopped(until deadline: Deadline) -> Bool {
        let (threads, keeper, holder) = running.withLock { ($0.threads, $0.keeper, $0.holder) }
        for thread in threads {
            guard thread.join(until: deadline) else { return false }
        }
        // Whoever is still waiting was answered 503; what the producer holds has a last chance to arrive.
        let left = min(deadline.remainingMilliseconds(), Self.flushMilliseconds)
        if let holder, left > 0 {
            holder.producer.close(timeoutMilliseconds: Int32(clamping: max(0, left - 200))) { _ in }
        }
        guard running.withLock({ $0.keys })?.waitStopped(until: deadline) ?? true else { return false }
        return keeper?.waitStopped(until: deadline) ?? true
    }

    private static let flushMilliseconds = 1500
}

extension IngestServer {
    private var kafkaProperties: [(String, String)] {
        // Bounds the memory that waits for a broker that is away; beyond it requests get 503 at once.
        [("queue.buffering.max.kbytes", "131072")] + configuration.kafka.clientProperties
    }

    private func makeLimiter() -> RateLimiter? {
        let limits = configuration.limits
        guard limits.requestsPerMinute > 0 else { return nil }
        return RateLimiter(
            perMinute: limits.requestsPerMinute,
            burst: limits.burst,
            now: time.monotonicNanoseconds()
        )
    }

    private var publisherSettings: Publisher.Settings {
        Publisher.Settings(
            heartbeatInterval: .milliseconds(configuration.heartbeatIntervalMilliseconds),
            clockToleranceMilliseconds: configuration.clockToleranceMilliseconds,
            believesAppendTimes: !configuration.kafka.isDevelopmentBroker
        )
    }

    private var httpConfiguration: HTTPServerConfiguration {
        let http = configuration.http
        var result = HTTPServerConfiguration()
        result.maximumConnections = max(1, http.maxConnections / http.loops)
        result.listenBacklog = Int32(clamping: http.listenBacklog)
        result.maximumHeadBytes = http.maxHeaderBytes
        result.maximumHeaders = http.maxHeaders
        result.maximumTargetBytes = http.maxTargetBytes
        result.maximumBodyBytes = http.maxBodyBytes
        result.maximumDecompressedBytes = http.maxDecompressedBytes
        result.maximumBufferedBytes = configuration.limits.arrivingBytes / http.loops
        result.requestTimeout = .milliseconds(http.arrivalDeadlineMilliseconds)
        result.idleTimeout = .milliseconds(http.idleTimeoutMilliseconds)
        result.answerTimeout = .milliseconds(http.requestDeadlineMilliseconds)
        result.writeTimeout = .milliseconds(http.answerReadTimeoutMilliseconds)
        result.sharesPort = http.loops > 1
        return result
    }
}

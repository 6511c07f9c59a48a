import Authentication
import Domain
import Glibc
import HTTPServer
import MessageContract
public import Observability

/// The catalogue of what ingest counts.
public enum IngestMetricsCatalogue {
    static let requests = MetricDescription(
        "daybook_ingest_requests_total",
        .counter,
        help: "Answered requests, by route and status.",
        labels: ["route", "status"],
        maximumChildren: 200
    )
    static let refusals = MetricDescription(
        "daybook_ingest_refusals_total",
        .counter,
        help: "Requests that were not accepted, by the problem's code.",
        labels: ["reason"],
        maximumChildren: 100
    )
    static let requestSeconds = MetricDescription(
        "daybook_ingest_request_seconds",
        .histogram(buckets: MetricDescription.latencyBuckets),
        help: "Time from a request's first byte to its answer."
    )
    static let acknowledgementSeconds = MetricDescription(
        "daybook_ingest_acknowledgement_seconds",
        .histogram(buckets: MetricDescription.latencyBuckets),
        help: "Time from handing a request's records to Kafka to the last acknowledgement."
    )
    static let days = MetricDescription(
        "daybook_ingest_days_total",
        .counter,
        help: "Days of acknowledged requests, by what became of them (skipped counts single metrics too).",
        labels: ["outcome"]
    )
    static let points = MetricDescription(
        "daybook_ingest_points_total",
        .counter,
        help: "Points of acknowledged requests, by what became of them.",
        labels: ["outcome"]
    )
    static let records = MetricDescription(
        "daybook_ingest_records_total",
        .counter,
        help: "Records, by topic and whether Kafka acknowledged them.",
        labels: ["topic", "outcome"]
    )
    static let heartbeats = MetricDescription(
        "daybook_ingest_heartbeats_total",
        .counter,
        help: "Heartbeat records, by whether Kafka acknowledged them.",
        labels: ["outcome"]
    )
    static let producersReplaced = MetricDescription(
        "daybook_ingest_producers_replaced_total",
        .counter,
        help: "Producers given up after a fatal error and made anew."
    )
    static let queueDepth = MetricDescription(
        "daybook_ingest_queue_records",
        .gauge,
        help: "Records that wait for Kafka's acknowledgement."
    )
    static let inFlightBytes = MetricDescription(
        "daybook_ingest_in_flight_bytes",
        .gauge,
        help:
            "Keys and values of the records that wait for Kafka's acknowledgement, and long answers that wait with them."
    )
    static let bytesReceived = MetricDescription(
        "daybook_ingest_received_bytes_total",
        .counter,
        help: "What clients sent, headers and refused requests included."
    )
    static let recordBytes = MetricDescription(
        "daybook_ingest_record_bytes_total",
        .counter,
        help: "Keys and values of records handed to Kafka, by topic.",
        labels: ["topic"]
    )
    static let loopLag = MetricDescription(
        "daybook_ingest_loop_lag_seconds",
        .histogram(buckets: MetricDescription.latencyBuckets),
        help:
            "How late the event loops' timers were, looked at four times a second: what a request waited before anything."
    )
    static let loopRequests = MetricDescription(
        "daybook_ingest_loop_requests_total",
        .counter,
        help: "Requests that reached a handler, by event loop.",
        labels: ["loop"],
        maximumChildren: 64
    )
    static let connectionsClosed = MetricDescription(
        "daybook_ingest_connections_closed_total",
        .counter,
        help: "Connections that ended, by why.",
        labels: ["reason"],
        maximumChildren: 50
    )
    static let acceptPauses = MetricDescription(
        "daybook_ingest_accept_pauses_total",
        .counter,
        help: "Times that new connections had to wait because descriptors or memory were used up."
    )
    static let waiting = MetricDescription(
        "daybook_ingest_waiting_requests",
        .gauge,
        help: "Requests that wait for Kafka's acknowledgement."
    )
    static let connections = MetricDescription(
        "daybook_ingest_connections",
        .gauge,
        help: "Open connections on the public address."
    )
    static let ready = MetricDescription("daybook_ingest_ready", .gauge, help: "1 when /readyz says yes, else 0.")
    static let clockSkew = MetricDescription(
        "daybook_ingest_clock_skew_seconds",
        .gauge,
        help: "How far this clock is ahead of the brokers' append times, at the last heartbeat."
    )
    static let keys = MetricDescription(
        "daybook_ingest_token_keys",
        .gauge,
        help: "Keys that tokens are verified with, by algorithm.",
        labels: ["algorithm"]
    )
    static let keysRefreshed = MetricDescription(
        "daybook_ingest_token_keys_refreshed_timestamp_seconds",
        .gauge,
        help: "When a source of keys was last found in order, in seconds since 1970.",
        labels: ["source"]
    )
    static let keyFailures = MetricDescription(
        "daybook_ingest_token_keys_failures_total",
        .counter,
        help: "Looks at a source of keys that failed; the keys read before stay.",
        labels: ["source"]
    )

    public static let all = [
        requests, refusals, requestSeconds, acknowledgementSeconds, days, points, records, heartbeats,
        producersReplaced, queueDepth, inFlightBytes, bytesReceived, recordBytes, loopLag, loopRequests,
        connectionsClosed, acceptPauses, waiting, connections, ready, clockSkew, keys, keysRefreshed, keyFailures,
    ]
}

/// The instruments, looked up once. Any thread may use them.
final class IngestMetrics: Sendable {
    private typealias Catalogue = IngestMetricsCatalogue
    private let registry: MetricsRegistry
    let requestSeconds: Histogram
    let acknowledgementSeconds: Histogram
    let accepted: Counter
    let skipped: Counter
    let bad: Counter
    let acceptedPoints: Counter
    let badPoints: Counter
    /// By the producer's topic index.
    let acknowledged: [Counter]
    let failed: [Counter]
    let recordBytes: [Counter]
    let bytesReceived: Counter
    let loopLag: Histogram
    let acceptPauses: Counter
    let heartbeatsAcknowledged: Counter
    let heartbeatsFailed: Counter
    let producersReplaced: Counter
    let waiting: Gauge
    let connections: Gauge
    let clockSkew: Gauge

    init(_ registry: MetricsRegistry) {
        self.registry = registry
        requestSeconds = registry.histogram(Catalogue.requestSeconds)
        acknowledgementSeconds = registry.histogram(Catalogue.acknowledgementSeconds)
        accepted = registry.counter(Catalogue.days, ["accepted"])
        skipped = registry.counter(Catalogue.days, ["skipped"])
        bad = registry.counter(Catalogue.days, ["error"])
        acceptedPoints = registry.counter(Catalogue.points, ["accepted"])
        badPoints = registry.counter(Catalogue.points, ["error"])
        acknowledged = Topic.published.map { registry.counter(Catalogue.records, ["\($0.name)", "acknowledged"]) }
        failed = Topic.published.map { registry.counter(Catalogue.records, ["\($0.name)", "failed"]) }
        recordBytes = Topic.published.map { registry.counter(Catalogue.recordBytes, ["\($0.name)"]) }
        bytesReceived = registry.counter(Catalogue.bytesReceived)
        loopLag = registry.histogram(Catalogue.loopLag)
        acceptPauses = registry.counter(Catalogue.acceptPauses)
        heartbeatsAcknowledged = registry.counter(Catalogue.heartbeats, ["acknowledged"])
        heartbeatsFailed = registry.counter(Catalogue.heartbeats, ["failed"])
        producersReplaced = registry.counter(Catalogue.producersReplaced)
        waiting = registry.gauge(Catalogue.waiting)
        connections = registry.gauge(Catalogue.connections)
        clockSkew = registry.gauge(Catalogue.clockSkew)
    }

    /// Keep what it returns: it takes a lock.
    func requests(route: StaticString, status: Int) -> Counter {
        registry.counter(Catalogue.requests, [route.description, String(status)])
    }

    func refusals(reason: String) -> Counter {
        registry.counter(Catalogue.refusals, [reason])
    }

    func loopRequests(_ loop: Int) -> Counter {
        registry.counter(Catalogue.loopRequests, [String(loop)])
    }

    func connectionsClosed(reason: String) -> Counter {
        registry.counter(Catalogue.connectionsClosed, [reason])
    }

    func show(
        queueDepth: @escaping @Sendable () -> Int,
        inFlightBytes: @escaping @Sendable () -> Int,
        isReady: @escaping @Sendable () -> Bool
    ) {
        registry.gauge(Catalogue.queueDepth) { Double(queueDepth()) }
        registry.gauge(Catalogue.inFlightBytes) { Double(inFlightBytes()) }
        registry.gauge(Catalogue.ready) { isReady() ? 1 : 0 }
    }
}

extension IngestMetrics {
    /// Shows what is known of the keys of tokens; sources that are not used are left out.
    func show(keys status: @escaping @Sendable () -> KeyKeeper.Status) {
        for algorithm in TokenAlgorithm.allCases {
            registry.gauge(Catalogue.keys, [algorithm.rawValue]) { Double(status().counts[algorithm] ?? 0) }
        }
        for kind in KeySources.Kind.allCases {
            registry.gauge(Catalogue.keysRefreshed, [kind.rawValue]) {
                status().lastSuccess[kind].map { Double($0.microseconds) / 1e6 }
            }
            registry.counter(Catalogue.keyFailures, [kind.rawValue]) {
                let status = status()
                guard status.lastSuccess[kind] != nil || status.failures[kind] != nil else { return nil }
                return Double(status.failures[kind] ?? 0)
            }
        }
    }
}

/// Counts what the server does by itself.
final class DoorObserver: HTTPServerObserver, Sendable {
    private let metrics: IngestMetrics
    private let log: Log
    private let pauses: LogThrottle

    init(_ metrics: IngestMetrics, log: Log, now: @escaping @Sendable () -> Int64 = { Log.systemMicroseconds() }) {
        self.metrics = metrics
        self.log = log
        pauses = LogThrottle(now: now)
    }

    func connectionOpened() { metrics.connections.add(1) }

    func connectionClosed(reason: StaticString) {
        metrics.connections.add(-1)
        metrics.connectionsClosed(reason: reason.description).increment()
    }

    /// The listeners wait a tenth of a second, then try again.
    func acceptPaused(errno: Int32) {
        metrics.acceptPauses.increment()
        guard let count = pauses.note("\(errno)") else { return }
        log.warning(
            "new connections wait: raise ulimit -n, or lower DAYBOOK_MAX_CONNECTIONS",
            [.errorNumber: .integer(errno), .error: .text(String(cString: strerror(errno))), .count: .integer(count)]
        )
    }

    func requestRefused(status: Int, reason: StaticString) {
        metrics.requests(route: "none", status: status).increment()
        metrics.refusals(reason: reason.description).increment()
    }

    func requestAnswered(status: Int, nanoseconds: UInt64) {
        metrics.requestSeconds.observe(nanoseconds: Int64(clamping: nanoseconds))
    }
}

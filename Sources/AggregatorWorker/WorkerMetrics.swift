public import Observability

/// Every metric of the worker.
public enum AggregatorMetric {
    public static let records = MetricDescription(
        "daybook_aggregator_records_total",
        .counter,
        help: "Records applied or put aside, by topic.",
        labels: ["topic"]
    )
    public static let days = MetricDescription(
        "daybook_aggregator_days_total",
        .counter,
        help: "Days of applied records, by what they did: changed, confirmed, older, suppressed, below_floor.",
        labels: ["outcome"]
    )
    public static let canonicalDays = MetricDescription(
        "daybook_aggregator_canonical_days_total",
        .counter,
        help: "Canonical days written or removed."
    )
    public static let sourceRows = MetricDescription(
        "daybook_aggregator_source_rows_total",
        .counter,
        help: "Source rows written: of days that the windows did not confirm."
    )
    public static let batchSeconds = MetricDescription(
        "daybook_aggregator_batch_seconds",
        .histogram(buckets: MetricDescription.latencyBuckets),
        help: "A batch from its first statement to the end of its transaction."
    )
    public static let batchDays = MetricDescription(
        "daybook_aggregator_batch_days",
        .histogram(buckets: MetricDescription.sizeBuckets),
        help: "Days in a batch."
    )
    public static let deadLetters = MetricDescription(
        "daybook_aggregator_dead_letters_total",
        .counter,
        help: "Records sent to the dead-letter topic.",
        labels: ["reason"]
    )
    public static let retries = MetricDescription(
        "daybook_aggregator_retries_total",
        .counter,
        help: "Batches tried again, by why: conflict, database, fence, dead_letters.",
        labels: ["why"]
    )
    public static let brakes = MetricDescription(
        "daybook_aggregator_braked_partitions",
        .gauge,
        help: "Partitions that stand still because too many of their records are dead letters."
    )
    public static let stopped = MetricDescription(
        "daybook_aggregator_stopped_partitions",
        .gauge,
        help: "Partitions that stand still because of an error that trying again cannot mend."
    )
    public static let assigned = MetricDescription(
        "daybook_aggregator_assigned_partitions",
        .gauge,
        help: "Partitions that this process reads."
    )
    public static let otherLogs = MetricDescription(
        "daybook_aggregator_other_logs_total",
        .counter,
        help: "Partitions found to be another log than the one read before, and read from the beginning."
    )
    public static let lostRecords = MetricDescription(
        "daybook_aggregator_lost_records_total",
        .counter,
        help: "Records that retention dropped before they were read, where the policy is to go on behind the gap."
    )

    public static let all = [
        records, days, sourceRows, canonicalDays, batchSeconds, batchDays, deadLetters, retries, brakes, stopped,
        assigned,
        otherLogs, lostRecords,
    ]
}

/// The worker's instruments, shared by its lanes.
struct WorkerMetrics: Sendable {
    let registry: MetricsRegistry
    let changed, confirmed, older, suppressed, belowFloor, sourceRows, canonical: Counter
    let batchSeconds, batchDays: Histogram
    let braked, stopped, assigned: Gauge
    let otherLogs, lostRecords: Counter

    init(_ registry: MetricsRegistry) {
        self.registry = registry
        changed = registry.counter(AggregatorMetric.days, ["changed"])
        confirmed = registry.counter(AggregatorMetric.days, ["confirmed"])
        older = registry.counter(AggregatorMetric.days, ["older"])
        suppressed = registry.counter(AggregatorMetric.days, ["suppressed"])
        belowFloor = registry.counter(AggregatorMetric.days, ["below_floor"])
        sourceRows = registry.counter(AggregatorMetric.sourceRows)
        canonical = registry.counter(AggregatorMetric.canonicalDays)
        batchSeconds = registry.histogram(AggregatorMetric.batchSeconds)
        batchDays = registry.histogram(AggregatorMetric.batchDays)
        braked = registry.gauge(AggregatorMetric.brakes)
        stopped = registry.gauge(AggregatorMetric.stopped)
        assigned = registry.gauge(AggregatorMetric.assigned)
        otherLogs = registry.counter(AggregatorMetric.otherLogs)
        lostRecords = registry.counter(AggregatorMetric.lostRecords)
    }

    func records(_ topic: String) -> Counter { registry.counter(AggregatorMetric.records, [topic]) }
    func deadLetter(_ reason: String) { registry.counter(AggregatorMetric.deadLetters, [reason]).increment() }
    func retry(_ why: String) { registry.counter(AggregatorMetric.retries, [why]).increment() }
}

internal import Aggregation
internal import Kafka
internal import MessageContract
public import Observability
internal import ServiceRuntime

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
        help: "Batches tried again, by why: database, fence, dead_letters, deadlock, lock_timeout and others.",
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
        help:
            "Records that retention dropped before they were read, whether the partition went on behind the gap or not."
    )

    public static let stageSeconds = MetricDescription(
        "daybook_aggregator_stage_seconds",
        .histogram(buckets: MetricDescription.latencyBuckets),
        help: "The parts of a batch: lock, confirm, read, merge, write.",
        labels: ["stage"]
    )
    public static let endToEndSeconds = MetricDescription(
        "daybook_aggregator_end_to_end_seconds",
        .histogram(buckets: MetricDescription.latencyBuckets),
        help: "From a record's received-at to its COMMIT: of heartbeats, and of each batch's last record.",
        labels: ["topic"]
    )
    public static let lagRecords = MetricDescription(
        "daybook_aggregator_lag_records",
        .gauge,
        help: "Records in the log that are not applied, by partition, as the last fetch or question saw its end.",
        labels: ["topic", "partition"]
    )
    public static let lagSeconds = MetricDescription(
        "daybook_aggregator_lag_seconds",
        .gauge,
        help: "How long ago the newest applied record of the partition was received; heartbeats keep it small.",
        labels: ["topic", "partition"]
    )
    public static let epoch = MetricDescription(
        "daybook_aggregator_epoch",
        .gauge,
        help: "The partition's epoch: every claim and every rewind raises it.",
        labels: ["topic", "partition"]
    )

    public static let all = [
        records, days, sourceRows, canonicalDays, batchSeconds, batchDays, deadLetters, retries, brakes, stopped,
        assigned,
        otherLogs, lostRecords, stageSeconds, endToEndSeconds,
        lagRecords, lagSeconds, epoch,
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
        // An alert sees how much a counter grew, and so misses the first of a counter that was not there before.
        for reason in PoisonReason.allCases { _ = registry.counter(AggregatorMetric.deadLetters, [reason.code]) }
        for why in ["database", "fence"] + BatchProcessor.Retry.allCases.map(\.rawValue) {
            _ = registry.counter(AggregatorMetric.retries, [why])
        }
    }

    func stage(_ stage: BatchRunner.Stage) -> Histogram {
        registry.histogram(AggregatorMetric.stageSeconds, [stage.rawValue])
    }

    /// The partition's lag and epoch as they stand.
    func note(_ partition: LanePartition, _ log: KafkaWatermarks?, _ time: any TimeSource) {
        let labels = [partition.name.topic, String(partition.name.partition)]
        registry.gauge(AggregatorMetric.epoch, labels).set(Double(partition.epoch))
        if let log {
            registry.gauge(AggregatorMetric.lagRecords, labels).set(Double(max(0, log.high - partition.position)))
        }
        guard partition.appliedThrough > 0 else { return }
        let age = Double(time.wallMicroseconds() - partition.appliedThrough) / 1_000_000
        registry.gauge(AggregatorMetric.lagSeconds, labels).set(max(0, age))
    }

    /// The partition is somebody else's now.
    func forget(_ name: TopicPartition) {
        let labels = [name.topic, String(name.partition)]
        for metric in [AggregatorMetric.epoch, AggregatorMetric.lagRecords, AggregatorMetric.lagSeconds] {
            registry.remove(metric, labels)
        }
    }

    func endToEnd(_ topic: String) -> Histogram { registry.histogram(AggregatorMetric.endToEndSeconds, [topic]) }

    func records(_ topic: String) -> Counter { registry.counter(AggregatorMetric.records, [topic]) }
    func deadLetter(_ reason: String) { registry.counter(AggregatorMetric.deadLetters, [reason]).increment() }
    func retry(_ why: String) { registry.counter(AggregatorMetric.retries, [why]).increment() }
}

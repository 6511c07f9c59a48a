public import Observability
internal import WakeRules

/// Every metric of the wake worker.
public enum WakeMetric {
    public static let candidates = MetricDescription(
        "daybook_wake_candidates_total",
        .counter,
        help: "Users looked at because their time had come."
    )
    public static let due = MetricDescription(
        "daybook_wake_due_total",
        .counter,
        help: "Users found to be due, whether they could be woken then or not."
    )
    public static let claimed = MetricDescription(
        "daybook_wake_claimed_total",
        .counter,
        help: "Wakes claimed, each before it was sent."
    )
    public static let ended = MetricDescription(
        "daybook_wake_ended_total",
        .counter,
        help: "Wakes of users, by outcome: accepted, unknown, waits, not_spent.",
        labels: ["outcome"]
    )
    public static let sent = MetricDescription(
        "daybook_wake_pushes_total",
        .counter,
        help: "Pushes to device tokens, by lane (apns_production, apns_sandbox, fcm) and outcome.",
        labels: ["lane", "outcome"]
    )
    public static let heldBack = MetricDescription(
        "daybook_wake_held_back_total",
        .counter,
        help: "Users due and not woken because of us, by reason; a scan that is left out for all users counts as one.",
        labels: ["reason"]
    )
    public static let refused = MetricDescription(
        "daybook_wake_late_ends_total",
        .counter,
        help: "Outcomes that came after the lease and were not written."
    )
    public static let settled = MetricDescription(
        "daybook_wake_settled_total",
        .counter,
        help: "Claims of workers that were late or dead, settled by time as unknown."
    )
    public static let deactivated = MetricDescription(
        "daybook_wake_tokens_deactivated_total",
        .counter,
        help: "Device tokens that a push server called dead."
    )
    public static let unreadable = MetricDescription(
        "daybook_wake_unreadable_tokens_total",
        .counter,
        help: "Rows of device tokens that could not be read and were passed over, each time that they were met."
    )
    public static let underWay = MetricDescription(
        "daybook_wake_claims_under_way",
        .gauge,
        help: "Wakes claimed by this process of which the end is not written yet."
    )
    public static let scanSeconds = MetricDescription(
        "daybook_wake_scan_seconds",
        .histogram(buckets: MetricDescription.latencyBuckets),
        help: "A scan from its first statement to its COMMIT."
    )
    public static let lagSeconds = MetricDescription(
        "daybook_wake_pipeline_lag_seconds",
        .gauge,
        help: "How far behind the live partition is that is furthest behind; above 300 its users are not woken."
    )
    public static let doorShut = MetricDescription(
        "daybook_wake_door_shut",
        .gauge,
        help: "1 while the door refuses most write requests, so that nobody is woken."
    )
    public static let paused = MetricDescription(
        "daybook_wake_paused",
        .gauge,
        help: "1 while an operator has paused wakes."
    )
    public static let clockJumps = MetricDescription(
        "daybook_wake_clock_jumps_total",
        .counter,
        help: "Times that the database's clock was seen to jump by more than a minute."
    )
    public static let clockGood = MetricDescription(
        "daybook_wake_clock_good",
        .gauge,
        help: "0 while nobody is woken because the database's clock has jumped lately, or is not this machine's."
    )
    public static let stops = MetricDescription(
        "daybook_wake_stops",
        .gauge,
        help:
            "Lanes and topics to which nothing is sent, by code: the breaker, a refused credential or topic, a pause.",
        labels: ["code"],
        maximumChildren: 50
    )
    public static let tokenAge = MetricDescription(
        "daybook_wake_provider_token_age_seconds",
        .gauge,
        help: "Age of the provider token that all workers share; above 3600 Apple refuses it."
    )
    public static let streams = MetricDescription(
        "daybook_wake_streams",
        .gauge,
        help: "Requests at push servers that are not answered yet."
    )
    public static let answeredShare = MetricDescription(
        "daybook_wake_answered_ratio",
        .gauge,
        help: "Of the wakes that were accepted 4 to 8 hours ago, the share that a phone answered within 4 hours."
    )
    public static let minutesToAnswer = MetricDescription(
        "daybook_wake_answer_minutes",
        .gauge,
        help: "Minutes from those wakes to their answers: quantiles 0.5 and 0.9.",
        labels: ["quantile"]
    )

    public static let all = [
        candidates, due, claimed, ended, sent, heldBack, refused, settled, deactivated, unreadable, underWay,
        scanSeconds, lagSeconds, doorShut, paused, clockJumps, clockGood, stops, tokenAge, streams, answeredShare,
        minutesToAnswer,
    ]
}

/// The worker's instruments.
struct WakeMetrics: Sendable {
    let registry: MetricsRegistry
    let candidates, due, claimed, refused, settled, deactivated, unreadable, clockJumps: Counter
    let underWay, lagSeconds, doorShut, paused, clockGood, tokenAge: Gauge
    let answers = AnswerFigures()
    let scanSeconds: Histogram

    init(_ registry: MetricsRegistry) {
        self.registry = registry
        candidates = registry.counter(WakeMetric.candidates)
        due = registry.counter(WakeMetric.due)
        claimed = registry.counter(WakeMetric.claimed)
        refused = registry.counter(WakeMetric.refused)
        settled = registry.counter(WakeMetric.settled)
        deactivated = registry.counter(WakeMetric.deactivated)
        unreadable = registry.counter(WakeMetric.unreadable)
        clockJumps = registry.counter(WakeMetric.clockJumps)
        clockGood = registry.gauge(WakeMetric.clockGood)
        underWay = registry.gauge(WakeMetric.underWay)
        lagSeconds = registry.gauge(WakeMetric.lagSeconds)
        doorShut = registry.gauge(WakeMetric.doorShut)
        paused = registry.gauge(WakeMetric.paused)
        tokenAge = registry.gauge(WakeMetric.tokenAge)
        scanSeconds = registry.histogram(WakeMetric.scanSeconds)
        answers.register(in: registry)
    }

    func ended(_ outcome: String) { registry.counter(WakeMetric.ended, [outcome]).increment() }
    func sent(_ lane: String, _ outcome: String) { registry.counter(WakeMetric.sent, [lane, outcome]).increment() }
    func heldBack(_ reason: WakeCondition.Name, _ count: Int) {
        registry.counter(WakeMetric.heldBack, [reason.rawValue]).add(count)
    }

    func note(stops: [WakeStop], was codes: Set<String>) -> Set<String> {
        var counts: [String: Int] = [:]
        for stop in stops { counts[stop.code, default: 0] += 1 }
        for code in codes.union(counts.keys) { registry.gauge(WakeMetric.stops, [code]).set(counts[code] ?? 0) }
        return codes.union(counts.keys)
    }
}

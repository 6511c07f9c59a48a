internal import Observability
internal import ServiceRuntime
internal import Storage
internal import Synchronization

/// How wakes of the last hours were answered, for metrics. Where none was accepted, or nobody has looked for a while,
/// there is no figure rather than an old one.
final class AnswerFigures: Sendable {
    static let longestAgeNanoseconds: Int64 = 900_000_000_000
    static let quantiles = ["0.5", "0.9"]

    private let time: any TimeSource
    private let held = Mutex<(answers: WakeReports.Answers, readAt: Int64)?>(nil)

    init(time: any TimeSource = SystemTime()) {
        self.time = time
    }

    func set(_ answers: WakeReports.Answers) {
        let now = time.monotonicNanoseconds()
        held.withLock { $0 = (answers, now) }
    }

    private var fresh: WakeReports.Answers? {
        guard let (answers, readAt) = held.withLock({ $0 }),
            time.monotonicNanoseconds() - readAt <= Self.longestAgeNanoseconds
        else { return nil }
        return answers
    }

    /// Samples that are read at each scrape.
    func register(in registry: MetricsRegistry) {
        registry.gauge(WakeMetric.answeredShare) { self.fresh?.share }
        for quantile in Self.quantiles {
            registry.gauge(WakeMetric.minutesToAnswer, [quantile]) { self.fresh?.minutes[quantile] }
        }
    }
}

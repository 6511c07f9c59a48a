import Kafka
import Observability
import ServiceRuntime
import Synchronization

/// The one producer of all loops, which a fatal error has replaced in place. Any thread may use it.
final class ProducerHolder: Sendable {
    /// In the order of `Topic.published`.
    let topics: [String]
    private let properties: [(String, String)]
    private let kafkaLog: KafkaLog
    private let log: Log
    private let current: Mutex<Current>
    private let replaced: Counter
    private let time: any TimeSource
    /// What makes one producer fail for good may do so to the next: then no more than one a second is made.
    private static let leastGap: Int64 = 1_000_000_000

    private struct Current {
        var producer: KafkaProducer
        /// On the monotonic clock, in nanoseconds; nil for the first one.
        var madeAt: Int64?
    }

    /// - Throws: when a property is refused.
    init(
        properties: [(String, String)],
        topics: [String],
        log: Log,
        replaced: Counter,
        time: any TimeSource = SystemTime()
    ) throws(KafkaError) {
        self.topics = topics
        self.properties = properties
        self.log = log
        self.replaced = replaced
        self.time = time
        let filter = KafkaLogFilter(log)
        kafkaLog = { filter.note($0) }
        current = Mutex(Current(producer: try KafkaProducer(properties: properties, topics: topics, log: kafkaLog)))
    }

    var producer: KafkaProducer { current.withLock { $0.producer } }

    /// Makes a new producer if this one is still the current one. The caller closes the old one and watches the new.
    ///
    /// - Returns: the new producer; nil if another thread was quicker, or if there can't be one now: ask again when this
    ///   one has failed again.
    func replace(_ old: KafkaProducer) -> KafkaProducer? {
        current.withLock { current in
            guard current.producer === old else { return nil }
            let now = time.monotonicNanoseconds()
            if let madeAt = current.madeAt, now - madeAt < Self.leastGap { return nil }
            do throws(KafkaError) {
                let new = try KafkaProducer(properties: properties, topics: topics, log: kafkaLog)
                current = Current(producer: new, madeAt: now)
                replaced.increment()
                let reason = old.fatalError?.name ?? "unknown"
                log.warning("producer made anew after a fatal error", [.reason: .text(reason)])
                return new
            } catch {
                log.error("no new producer could be made", [.error: .text(error.message)])
                return nil
            }
        }
    }
}

/// Passes librdkafka's lines on: the same trouble at most once in ten seconds.
final class KafkaLogFilter: Sendable {
    private let log: Log
    private let throttle = LogThrottle()

    init(_ log: Log) {
        self.log = log
    }

    func note(_ line: KafkaLogLine) {
        switch line.kind {
        case .statistics: break
        case .error(let error):
            guard throttle.note(error.name) != nil else { return }
            log.warning("kafka is in trouble", [.code: .text(error.name), .error: .text(error.message)])
        case .log:
            guard line.severity <= 4 else {
                log.debug("kafka", [.reason: .text(line.facility), .error: .text(line.text)])
                return
            }
            guard throttle.note(line.facility) != nil else { return }
            log.warning("kafka", [.reason: .text(line.facility), .error: .text(line.text)])
        }
    }
}

import Domain
import Glibc
import HTTPServer
import Kafka
import MessageContract
import Observability
import ServiceRuntime

/// The side of the first loop that faces Kafka: reads all delivery reports and hands them to their loops, sends
/// heartbeats, and puts a new producer in the place of one that failed for good.
///
/// `@unchecked Sendable`: all state belongs to the first loop's thread; other threads call what is marked, which posts.
final class Publisher: @unchecked Sendable {
    struct Settings {
        var heartbeatInterval: Duration
        var clockToleranceMilliseconds: Int
        /// The development broker makes append times up.
        var believesAppendTimes: Bool
    }

    private let state: DoorState
    private let settings: Settings
    private let log: Log
    private var loops: [(loop: HTTPEventLoop, door: Door)] = []
    private var batches: [[DeliveryReport]] = []
    private var monitor = HeartbeatMonitor()
    private var partitions = 0
    /// What the present round of heartbeats tells.
    private var sentCounts = (requests: 0, answered: 0)
    private var isClockOff = false
    /// How long a start waits for partitions that don't answer.
    private static let settlingTime = Duration.seconds(2)
    private let failures = LogThrottle()
    /// The producer whose reports are read.
    private var watched: KafkaProducer?

    init(state: DoorState, settings: Settings, log: Log) {
        self.state = state
        self.settings = settings
        self.log = log
    }

    /// Before the loops run.
    func attach(_ loops: [(loop: HTTPEventLoop, door: Door)]) {
        self.loops = loops
        batches = Array(repeating: [], count: loops.count)
        watch(state.holder.producer)
        first?.every(settings.heartbeatInterval) { [weak self] in self?.beat() }
    }

    private var first: HTTPEventLoop? { loops.first?.loop }

    private func watch(_ producer: KafkaProducer) {
        watched = producer
        let isWatched = first?.addDescriptor(producer.reportsDescriptor) { [weak self, weak producer] in
            if let producer { self?.drain(producer) }
        }
        if isWatched != true { log.error("delivery reports can't be watched", [.reason: "no descriptor"]) }
    }

    /// From any thread: the topics are known.
    func topicsAreKnown() {
        first?.post { [weak self] in self?.refreshPartitions() }
    }

    /// From any thread: a producer has failed for good. The next request finds a new one.
    func replace(_ old: KafkaProducer) {
        guard let new = state.holder.replace(old) else { return }
        first?.post { [weak self] in self?.exchange(old, for: new) }
    }

    private func exchange(_ old: KafkaProducer, for new: KafkaProducer) {
        first?.removeDescriptor(old.reportsDescriptor)
        watch(new)
        // Whoever lets go of it last, maybe a loop, must not wait for its threads.
        old.retire()
        // What the old one still holds is reported as failed; closing may take a second, so not here.
        let retired = try? WorkerThread.spawn(name: "old-producer") { [self] in
            old.close(timeoutMilliseconds: 0) { report in
                first?.post { [self] in route(report, now: state.time.monotonicNanoseconds()) }
            }
            first?.post { [self] in flushBatches(now: state.time.monotonicNanoseconds()) }
        }
        if retired == nil {
            log.warning("no thread to close the failed producer; its requests run into their deadline")
        }
    }

    private func refreshPartitions() {
        let count = state.holder.producer.partitionCount(topicIndex: Topic.daysLive.publishedIndex)
        guard count > 0 else { return }
        let isFirst = partitions == 0
        partitions = count
        guard isFirst else { return }
        beat()
        first?.after(Self.settlingTime) { [weak self] in
            self?.monitor.endSettling()
            self?.tellConfirmed()
        }
    }

    private func tellConfirmed() {
        if monitor.isConfirmed { state.readiness.set(heartbeat: nil) }
    }

    /// Sends a heartbeat to each live partition whose last one is not still on its way.
    private func beat() {
        let now = Instant(microseconds: state.time.wallMicroseconds())
        if monitor.isSilent(now: now) { state.readiness.set(heartbeat: .noHeartbeat) }
        let toldNobody = monitor.acknowledged == 0
        let due = monitor.begin(partitions: partitions, now: now)
        guard !due.isEmpty else { return }
        // What no heartbeat has told is told by the next: the requests of an outage are the ones that matter.
        if toldNobody { state.putBack(sentCounts) }
        let counts = state.takeCounts()
        sentCounts = counts
        let value = HeartbeatRecord(requests: counts.requests, answered: counts.answered).encoded()
        let producer = state.holder.producer
        let tag = RecordTag(heartbeatRound: monitor.round).rawValue
        for partition in due {
            do throws(KafkaError) {
                try send(value, producer, Int32(clamping: partition), tag, now)
            } catch {
                if error.isFatal { replace(producer) }
                note(isAcknowledged: false, tag, Int32(clamping: partition), appendTime: nil)
            }
        }
    }

    private func send(
        _ value: [UInt8],
        _ producer: KafkaProducer,
        _ partition: Int32,
        _ tag: UInt64,
        _ now: Instant
    ) throws(KafkaError) {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: value.count, alignment: 1)
        defer { bytes.deallocate() }
        bytes.copyBytes(from: value)
        try producer.produce(
            topicIndex: Topic.daysLive.publishedIndex,
            partition: partition,
            key: nil,
            value: UnsafeRawBufferPointer(bytes),
            tag: tag
        ) { writer in
            writer.add(HeaderName.schema, Schema.heartbeat1.id.description)
            writer.add(HeaderName.receivedAt, now.description)
        }
    }

    /// Reads what reports there are, on the first loop's thread; also used by it after its loop has ended.
    func drain(_ producer: KafkaProducer) {
        var hasFailure = false
        // One look at the clock for all: they are here.
        let now = state.time.monotonicNanoseconds()
        producer.drainReports { report in
            if report.error != nil { hasFailure = true }
            route(report, now: now)
        }
        flushBatches(now: now)
        if hasFailure, producer.fatalError != nil { replace(producer) }
    }

    /// Goes on reading reports after the first loop has ended, for as long as others run. On its thread.
    func drain(while isNeeded: () -> Bool) {
        while isNeeded() {
            drain(state.holder.producer)
            usleep(2000)
        }
    }

    /// Tells why Kafka did not take a record: by its error alone, once in ten seconds for each.
    private func tell(_ error: KafkaError, of topicIndex: Int) {
        guard let count = failures.note(error.name) else { return }
        let topics = state.holder.topics
        log.warning(
            "records were not acknowledged",
            [
                .code: .text(error.name), .error: .text(error.message), .count: .integer(count),
                .topic: .text(topics.indices.contains(topicIndex) ? topics[topicIndex] : "none"),
            ]
        )
    }

    private func route(_ report: DeliveryReport, now: Int64) {
        if let error = report.error { tell(error, of: report.topicIndex) }
        let tag = RecordTag(rawValue: report.tag)
        switch tag.loop {
        case RecordTag.heartbeatLoop:
            let isBelieved = settings.believesAppendTimes && report.timestampType == .appended
            let (time, overflow) = report.timestampMilliseconds.multipliedReportingOverflow(by: 1000)
            let appendTime = isBelieved && !overflow ? Instant(microseconds: time) : nil
            note(isAcknowledged: report.error == nil, report.tag, report.partition, appendTime: appendTime)
        case 0: loops.first?.door.deliver(report, now: now)
        case let loop where loop < batches.count: batches[loop].append(report)
        default: break
        }
    }

    private func flushBatches(now: Int64) {
        guard batches.count > 1 else { return }
        for (index, batch) in batches.enumerated() where !batch.isEmpty {
            let door = loops[index].door
            loops[index].loop.post { for report in batch { door.deliver(report, now: now) } }
            batches[index].removeAll()
        }
    }

    private func note(isAcknowledged: Bool, _ tag: UInt64, _ partition: Int32, appendTime: Instant?) {
        (isAcknowledged ? state.metrics.heartbeatsAcknowledged : state.metrics.heartbeatsFailed).increment()
        monitor.report(
            partition: Int(partition),
            round: RecordTag(rawValue: tag).heartbeatRound,
            isAcknowledged: isAcknowledged,
            appendTime: appendTime,
            now: Instant(microseconds: state.time.wallMicroseconds())
        )
        tellConfirmed()
        guard isAcknowledged, let skew = monitor.skewMilliseconds else { return }
        state.metrics.clockSkew.set(Double(skew) / 1000)
        let isOff = skew.magnitude > UInt64(max(0, settings.clockToleranceMilliseconds))
        if isOff, !isClockOff { log.error("clock differs from the brokers'", [.skewMilliseconds: .integer(skew)]) }
        isClockOff = isOff
        state.readiness.set(clock: isOff ? .clockOff : nil)
    }
}

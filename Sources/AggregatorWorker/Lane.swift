internal import Aggregation
internal import Domain
internal import Kafka
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage

/// One lane of work: a thread, a member of the consumer group and a database connection.
///
/// Everything happens in turns on the lane's own thread: poll, then apply what waits, a partition at a time. A
/// rebalance therefore never meets a batch in the middle: it comes with the next poll, when the batch is committed
/// or dropped.
final class Lane {
    /// How a lane minds others of its process.
    enum Role: Sendable {
        /// History keeps its batches short while it has work.
        case live(LivePressure)
        case history(LivePressure)
        case apart
    }

    struct Settings: Sendable {
        let role: Role
        let limits: BatchCut.Limits
        let brake: Brake.Limits
        /// What the lane holds in memory before it stops fetching.
        let bufferBytes: Int
        /// How long a batch that is not full waits for more records.
        let batchWaitMilliseconds: Int
        let sessionTimeoutMilliseconds: Int
        let resumesAfterLoss: Bool
    }

    /// What the admin endpoint tells of a lane.
    struct Health: Sendable, Hashable {
        var hasJoined = false
        var isDatabaseReachable = false
        var partitions = 0
        var braked = 0
        var stopped = 0
    }

    let settings: Settings
    let owner: UUID128
    let consumer: KafkaConsumer
    let store: BatchStore
    let offsets: OffsetsStore
    let processor: BatchProcessor
    let gate: () throws -> Void
    let reader: RecordReader
    let metrics: WorkerMetrics
    let log: Log
    let time: any TimeSource
    let publish: (Health) -> Void
    var generator = SystemRandomNumberGenerator()

    var partitions: [TopicPartition: LanePartition] = [:]
    var paused: Set<TopicPartition> = []
    /// The group gave partitions that are not read yet, because the database could not be asked.
    var needsAssign = false
    var assignAt: Int64 = 0
    var health = Health()
    var databaseFailures = 0
    var databaseRetryAt: Int64 = 0
    var nextLookAt: Int64 = 0
    var yielding: YieldingLimit
    private var isBusy = false
    /// Partitions whose record before the position was another one: they are read from the beginning.
    var otherLogs: Set<TopicPartition> = []
    /// The last gathering took all there was, so that no batch needs wait to get larger.
    var isDrained = true
    /// Read while the database worked on the batch before.
    var ahead = ReadAhead<PendingRecord>()
    /// What was polled behind it and is no record: its turn comes once the batch is done.
    var heldPoll: KafkaPoll?
    /// A batch is in the database.
    var isApplying = false
    /// The fetcher is not woken before this, in monotonic nanoseconds.
    var wakeFetcherAt: Int64 = 0
    /// Set while a partition is somebody else's in the database but ours in the group, or could not be asked.
    var claimAgainAt: Int64?
    /// What the consumer was told to read.
    var assigned: Set<TopicPartition> = []
    /// A partition among those is claimed anew.
    var isAssignmentStale = false
    /// Whose log was asked last; the next turn begins behind it.
    var askedLast: TopicPartition?
    /// Logs that are not fetched are not asked for their ends before this.
    var askEndsAt: Int64 = 0
    /// Why the database could not be used last, and when that may be said again.
    var failureSaid: (text: String, until: Int64)?
    /// The topic was deleted. A client of librdkafka 2.0.2 that has read it may not find the one that is made in its place.
    var missingTopic: KafkaError?
    /// Why the worker must not go on.
    var refusal: SchemaGate.Refusal?

    static let databaseBackoff = Backoff(base: .milliseconds(100), cap: .seconds(5))
    static let batchBackoff = Backoff(base: .milliseconds(20), cap: .seconds(5))
    /// A partition whose records wait this long gets its batch although others have more; in multiples of the wait.
    static let longestWait: Int64 = 10
    static let lookInterval: Int64 = 5_000_000_000
    /// Between two tries to find out what log a partition is.
    static let recheckDelay: Int64 = 500_000_000
    /// Between two tries to claim a partition that has no leader.
    static let leaderlessDelay: Int64 = 5_000_000_000
    static let kafkaTimeout: Int32 = 5000
    /// A part of the grace period; the end of a question to a broker that hangs is another.
    static let closeTimeout: Int32 = 4000
    /// Between two times that the fetcher is woken, and after one that failed.
    static let fetcherInterval: Int64 = 5_000_000
    /// After so many tries in a row it is nobody who wrote by hand.
    static let mostMovedRows = 10
    static let fetcherPatience: Int32 = 2
    static let fetcherPenalty: Int64 = 100_000_000
    /// Short, as it may be spent once a partition; the first time shorter still, as most that answer at all do at once.
    static let watermarkTimeout: Int32 = 2000
    static let firstWatermarkTimeout: Int32 = 500
    /// What questions without an answer may take of one turn, in which nothing is applied.
    static let claimPatience: Int64 = 4_000_000_000
    static let endsTimeout: Int32 = 300
    /// Before the ends are asked for again where nobody answered.
    static let endsPenalty: Int64 = 30_000_000_000
    /// Between two times that the same failure is said.
    static let sayingInterval: Int64 = 30_000_000_000

    init(
        settings: Settings,
        owner: UUID128,
        consumer: KafkaConsumer,
        connection: PostgresConnection,
        processor: BatchProcessor,
        store: BatchStore,
        reader: RecordReader,
        gate: @escaping () throws -> Void,
        metrics: WorkerMetrics,
        log: Log,
        time: any TimeSource,
        publish: @escaping (Health) -> Void
    ) {
        self.settings = settings
        yielding = YieldingLimit(largest: settings.limits.days)
        self.owner = owner
        self.consumer = consumer
        self.store = store
        offsets = OffsetsStore(connection)
        self.processor = processor
        self.reader = reader
        self.gate = gate
        self.metrics = metrics
        self.log = log
        self.time = time
        self.publish = publish
        health.isDatabaseReachable = true
        connection.whileWaiting = { [weak self] in self?.readAhead() ?? false }
    }

    /// Works until the flag is raised; then leaves the group. What was polled and not applied is left to the next
    /// owner. Throws only where the worker must not go on at all.
    func run(until stop: StopFlag) throws {
        defer {
            setBusy(false)
            forgetGauges()
            partitions.removeAll()
            ahead.removeAll()
            heldPoll = nil
            consumer.close(timeoutMilliseconds: Self.closeTimeout)
        }
        while !stop.isRaised {
            let now = time.monotonicNanoseconds()
            try mendDatabase(now)
            // Before anything is claimed: what came during a batch may have taken the partitions away.
            while heldPoll != nil { pollOnce(timeoutMilliseconds: 0) }
            if needsAssign && now >= assignAt && isDatabaseReady(now) { assignAll(stop) }
            pollOnce(timeoutMilliseconds: pollTimeout(now))
            gather()
            setBusy(partitions.values.contains { !$0.waiting.isEmpty && $0.isReading })
            // Such a client does nothing any more: the lane is made anew.
            if let error = consumer.fatalError ?? missingTopic { throw error }
            applyWaiting(stop)
            if let refusal { throw refusal }
            look(time.monotonicNanoseconds(), stop)
            updatePauses()
            publishHealth()
        }
    }

    // MARK: Polling

    func pollTimeout(_ now: Int64) -> Int32 {
        let waits = partitions.values.contains { !$0.waiting.isEmpty && $0.isReading }
        if !waits { return 100 }
        if !isDatabaseReady(now) { return 50 }
        let next = partitions.values.filter { !$0.waiting.isEmpty }.map(\.retryAt).min() ?? 0
        return Int32(clamping: min(max((next - now) / 1_000_000, 0), 100))
    }

    /// Takes what comes, up to a full batch of one partition or the lane's memory. A batch that is not full waits a
    /// moment for more: one transaction for ten records costs little more than one for a single one.
    /// Records that nobody wants any more count too: they come as fast as they can be dropped.
    func gather() {
        isDrained = true
        guard partitions.values.contains(where: { !$0.waiting.isEmpty && $0.failures == 0 }) else { return }
        let until = time.monotonicNanoseconds() + Int64(settings.batchWaitMilliseconds) * 1_000_000
        let limits = processor.limits
        var records = 0
        while records < 4 * limits.records {
            // Not for every record: it asks all partitions.
            if records % 16 == 0 && isEnough(limits) { break }
            let left = Int32(clamping: max(0, (until - time.monotonicNanoseconds()) / 1_000_000))
            guard pollOnce(timeoutMilliseconds: left) != nil else { return }
            records += 1
        }
        isDrained = false
    }

    private func isEnough(_ limits: BatchCut.Limits) -> Bool {
        bufferedBytes >= settings.bufferBytes || partitions.values.contains { $0.isFull(limits) }
    }

    var bufferedBytes: Int { partitions.values.reduce(0) { $0 + $1.waitingBytes } }

    /// Returns the days of a record that was taken; nil for anything else.
    @discardableResult
    func pollOnce(timeoutMilliseconds: Int32) -> Int? {
        if let pending = ahead.popFirst() { return take(pending.record, pending.content) }
        let next = heldPoll ?? consumer.poll(timeoutMilliseconds: timeoutMilliseconds)
        heldPoll = nil
        switch next {
        case .nothing: return nil
        case .record(let record): return take(record, nil)
        case .assigned(let names):
            forgetGauges()
            partitions = [:]
            paused = []
            assigned = []
            for name in names { partitions[name] = LanePartition(name: name, brake: Brake(limits: settings.brake)) }
            needsAssign = true
            assignAt = 0
            health.hasJoined = true
            log.info("partitions assigned", [.count: .integer(names.count)])
            // At once, with nothing: the others of the group wait for this answer, and a claim may have to wait for
            // the database. What is claimed is assigned with its start then.
            attempt("assign") { () throws(KafkaError) in try consumer.assign([]) }
        case .revoked(let names):
            forgetGauges()
            partitions = [:]
            paused = []
            assigned = []
            needsAssign = false
            log.info("partitions revoked", [.count: .integer(names.count)])
            attempt("unassign") { () throws(KafkaError) in try consumer.unassign() }
        case .partitionError(let name, let error):
            log.warning(
                "a partition cannot be read; looking what log it is",
                [.topic: .text(name.topic), .partition: .integer(name.partition), .error: .text(error.message)]
            )
            if error.isUnknownTopic { missingTopic = error }
            // The same check as at the start: another log, an end below the position, or records that are gone. One
            // that goes on complaining does not put off the check that is due.
            if partitions[name]?.isReading == true { partitions[name]?.standing = .unclaimed }
            if !needsAssign { assignAt = time.monotonicNanoseconds() + Self.recheckDelay }
            needsAssign = true
        case .error(let error):
            log.warning("kafka is in trouble; the client goes on trying", [.error: .text(error.message)])
        }
        return nil
    }

    /// Returns the record's days; none where it is not wanted.
    private func take(_ record: KafkaRecord, _ content: RecordContent?) -> Int {
        // In place: this is done for every record.
        guard let index = partitions.index(forKey: record.topicPartition) else { return 0 }
        if let expected = partitions.values[index].expectedDigest {
            partitions.values[index].expectedDigest = nil
            let position = partitions.values[index].position
            if record.offset == position - 1 && RecordDigest.of(record) != expected {
                log.warning(
                    "another record stands where this one was read: it is another log, read from its beginning",
                    [
                        .topic: .text(record.topic), .partition: .integer(record.partition),
                        .offset: .integer(record.offset),
                    ]
                )
                // The saved digest stays in the row and the cluster id is the same, so say it in the row.
                partitions.values[index].clusterID = ""
                partitions.values[index].standing = .unclaimed
                needsAssign = true
                otherLogs.insert(record.topicPartition)
                return 0
            }
        }
        let (isReading, position) = (partitions.values[index].isReading, partitions.values[index].position)
        guard isReading, record.offset >= position else { return 0 }
        let pending = content.map { PendingRecord(record: record, content: $0) } ?? reader.read(record)
        let days = pending.content.dayCount
        partitions.values[index].take(pending) { [time] in time.monotonicNanoseconds() }
        return days
    }

    // MARK: Flow

    /// Fetches only for partitions that are worked on: not while the database is away, the lane's memory is full, or
    /// a partition stands still.
    func updatePauses() {
        guard !needsAssign else { return }
        let isHeld = !health.isDatabaseReachable || bufferedBytes >= settings.bufferBytes
        // One partition that does not get on (its dead letters can't be written) must not fill the lane alone.
        let share = settings.bufferBytes / 4
        let wanted = Set(partitions.values.filter { isHeld || !$0.isReading || $0.waitingBytes >= share }.map(\.name))
        let toPause = wanted.subtracting(paused).intersection(assigned)
        let toResume = paused.subtracting(wanted)
        if !toPause.isEmpty { attempt("pause") { () throws(KafkaError) in try consumer.pause(toPause.sorted()) } }
        if !toResume.isEmpty { attempt("resume") { () throws(KafkaError) in try consumer.resume(toResume.sorted()) } }
        paused = paused.union(toPause).subtracting(toResume)
    }

    func attempt(_ what: StaticString, _ body: () throws(KafkaError) -> Void) {
        do throws(KafkaError) {
            try body()
        } catch {
            log.warning("a call to kafka failed", [.reason: .constant(StaticText(what)), .error: .text(error.message)])
        }
    }

    func publishHealth() {
        var now = health
        now.partitions = partitions.count
        now.braked = partitions.values.count { $0.standing == .braked }
        now.stopped = partitions.values.count { $0.standing == .stopped }
        publish(now)
    }

    // MARK: What others see

    private func setBusy(_ busy: Bool) {
        guard case .live(let pressure) = settings.role, busy != isBusy else { return }
        isBusy = busy
        if busy { pressure.begin() } else { pressure.end() }
    }

    /// Of partitions that this lane no longer has; their next owner tells.
    private func forgetGauges() {
        for name in partitions.keys { metrics.forget(name) }
    }
}

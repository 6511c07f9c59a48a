internal import Aggregation
internal import Domain
internal import Kafka
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage
internal import Synchronization

/// One lane of work: a thread, a member of the consumer group and a database connection.
///
/// Everything happens in turns on the lane's own thread: poll, then apply what waits, a partition at a time. A
/// rebalance therefore never meets a batch in the middle: it comes with the next poll, when the batch is committed
/// or dropped.
final class Lane {
    struct Settings: Sendable {
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

    private let settings: Settings
    private let owner: UUID128
    private let consumer: KafkaConsumer
    private let store: BatchStore
    private let offsets: OffsetsStore
    private let processor: BatchProcessor
    private let gate: () throws -> Void
    private let reader: RecordReader
    private let metrics: WorkerMetrics
    private let log: Log
    private let time: any TimeSource
    private let publish: (Health) -> Void
    private var generator = SystemRandomNumberGenerator()

    private var partitions: [TopicPartition: LanePartition] = [:]
    private var paused: Set<TopicPartition> = []
    /// The group gave partitions that are not read yet, because the database could not be asked.
    private var needsAssign = false
    private var assignAt: Int64 = 0
    private var health = Health()
    private var databaseFailures = 0
    private var databaseRetryAt: Int64 = 0
    private var nextLookAt: Int64 = 0

    private static let databaseBackoff = Backoff(base: .milliseconds(100), cap: .seconds(5))
    private static let batchBackoff = Backoff(base: .milliseconds(20), cap: .seconds(5))
    private static let lookInterval: Int64 = 5_000_000_000
    /// Between two tries to find out what log a partition is.
    private static let recheckDelay: Int64 = 500_000_000
    private static let kafkaTimeout: Int32 = 5000

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
    }

    /// Works until the flag is raised; then leaves the group. What was polled and not applied is left to the next
    /// owner. Throws only where the worker must not go on at all.
    func run(until stop: StopFlag) throws {
        defer {
            partitions.removeAll()
            consumer.close(timeoutMilliseconds: 5000)
        }
        while !stop.isRaised {
            let now = time.monotonicNanoseconds()
            try mendDatabase(now)
            if needsAssign && now >= assignAt && isDatabaseReady(now) { assignAll() }
            pollOnce(timeoutMilliseconds: pollTimeout(now))
            gather()
            // Such a client does nothing any more: the lane is made anew.
            if let error = consumer.fatalError { throw error }
            applyWaiting(stop)
            look(time.monotonicNanoseconds())
            updatePauses()
            publishHealth()
        }
    }

    // MARK: Polling

    private func pollTimeout(_ now: Int64) -> Int32 {
        let waits = partitions.values.contains { !$0.waiting.isEmpty && $0.isReading }
        if !waits { return 100 }
        if !isDatabaseReady(now) { return 50 }
        let next = partitions.values.filter { !$0.waiting.isEmpty }.map(\.retryAt).min() ?? 0
        return Int32(clamping: min(max((next - now) / 1_000_000, 0), 100))
    }

    /// Takes what comes, up to a full batch or the lane's memory. A batch that is not full waits a moment for more:
    /// one transaction for ten records costs little more than one for a single one.
    /// Records that nobody wants any more count too: they come as fast as they can be dropped.
    private func gather() {
        guard partitions.values.contains(where: { !$0.waiting.isEmpty && $0.failures == 0 }) else { return }
        let until = time.monotonicNanoseconds() + Int64(settings.batchWaitMilliseconds) * 1_000_000
        var days = 0
        var records = 0
        while days < settings.limits.days, records < settings.limits.records, bufferedBytes < settings.bufferBytes {
            let left = Int32(clamping: max(0, (until - time.monotonicNanoseconds()) / 1_000_000))
            guard let taken = pollOnce(timeoutMilliseconds: left) else { return }
            days += taken
            records += 1
        }
    }

    private var bufferedBytes: Int { partitions.values.reduce(0) { $0 + $1.waitingBytes } }

    /// Returns the days of a record that was taken; nil for anything else.
    @discardableResult
    private func pollOnce(timeoutMilliseconds: Int32) -> Int? {
        switch consumer.poll(timeoutMilliseconds: timeoutMilliseconds) {
        case .nothing: return nil
        case .record(let record): return take(record)
        case .assigned(let names):
            partitions = [:]
            paused = []
            for name in names { partitions[name] = LanePartition(name: name, brake: Brake(limits: settings.brake)) }
            needsAssign = true
            health.hasJoined = true
            log.info("partitions assigned", [.count: .integer(names.count)])
        case .revoked(let names):
            partitions = [:]
            paused = []
            needsAssign = false
            log.info("partitions revoked", [.count: .integer(names.count)])
            attempt("unassign") { () throws(KafkaError) in try consumer.unassign() }
        case .partitionError(let name, let error):
            log.warning(
                "a partition cannot be read; looking what log it is",
                [.topic: .text(name.topic), .partition: .integer(name.partition), .error: .text(error.message)]
            )
            // The same check as at the start: another log, an end below the position, or records that are gone. One
            // that goes on complaining does not put off the check that is due.
            if !needsAssign { assignAt = time.monotonicNanoseconds() + Self.recheckDelay }
            needsAssign = true
        case .error(let error):
            log.warning("kafka is in trouble; the client goes on trying", [.error: .text(error.message)])
        }
        return nil
    }

    private func take(_ record: KafkaRecord) -> Int? {
        guard var partition = partitions.removeValue(forKey: record.topicPartition) else { return 0 }
        defer { partitions[record.topicPartition] = partition }
        if let expected = partition.expectedDigest {
            partition.expectedDigest = nil
            if record.offset == partition.position - 1 && RecordDigest.of(record) != expected {
                log.warning(
                    "another record stands where this one was read: it is another log, read from its beginning",
                    [
                        .topic: .text(record.topic), .partition: .integer(record.partition),
                        .offset: .integer(record.offset),
                    ]
                )
                // The saved digest stays in the row and the cluster id is the same, so say it in the row.
                partition.clusterID = ""
                partition.standing = .unclaimed
                needsAssign = true
                otherLogs.insert(partition.name)
                return 0
            }
        }
        guard partition.isReading, record.offset >= partition.position else { return 0 }
        let pending = reader.read(record)
        partition.take(pending)
        return pending.content.dayCount
    }

    /// Partitions whose record before the position was another one: they are read from the beginning.
    private var otherLogs: Set<TopicPartition> = []

    // MARK: Applying

    private func applyWaiting(_ stop: StopFlag) {
        for name in partitions.keys.sorted() {
            guard !stop.isRaised, !needsAssign, isDatabaseReady(time.monotonicNanoseconds()) else { return }
            guard let partition = partitions[name], partition.isReading, !partition.waiting.isEmpty,
                partition.retryAt <= time.monotonicNanoseconds()
            else { continue }
            conclude(processor.process(partition), of: name)
        }
    }

    private func conclude(_ outcome: BatchProcessor.Outcome, of name: TopicPartition) {
        guard var partition = partitions[name] else { return }
        switch outcome {
        case .finished(let count, let next, let lastRecord, let brake, let braked):
            partition.position = next
            partition.lastRecord = lastRecord
            partition.brake = brake
            partition.finish(count)
            databaseFailures = 0
            if braked { stand(&partition, .braked, "too many dead letters: the brake is on") }
            attempt("commit") { () throws(KafkaError) in try consumer.commit([(name, offset: next)]) }
        case .again(let why):
            metrics.retry(why.description)
            partition.failures += 1
            let delay = Self.batchBackoff.delay(attempt: partition.failures, using: &generator)
            partition.retryAt = time.monotonicNanoseconds() + delay.clampedNanoseconds
        case .databaseAway:
            metrics.retry("database")
            // Whatever answers there is not of use: a server that was demoted keeps its sessions.
            store.disconnect()
            noteDatabaseAway()
        case .monthsAway:
            metrics.retry("database")
            noteDatabaseAway()
        case .fenceLost:
            metrics.retry("fence")
            recover(&partition)
        case .stop(let reason):
            log.error("a partition stops: trying again cannot mend this", [.error: .text(reason)])
            stand(&partition, .stopped, "the partition stands still until the worker is restarted")
        }
        partitions[name] = partition
    }

    private func stand(_ partition: inout LanePartition, _ standing: LanePartition.Standing, _ why: StaticString) {
        partition.standing = standing
        partition.dropWaiting()
        log.error(
            why,
            [
                .topic: .text(partition.name.topic), .partition: .integer(partition.name.partition),
                .nextOffset: .integer(partition.position),
            ]
        )
    }

    /// The row is not as this lane left it. Still mine: an operator moved it, or a COMMIT arrived whose answer was
    /// lost; go on from where it says. Somebody else's: drop the batch and wait for the rebalance.
    private func recover(_ partition: inout LanePartition) {
        partition.dropWaiting()
        do throws(PostgresError) {
            let state = try offsets.look(partition.stored)
            guard let state, state.owner == owner else {
                let delay = settings.sessionTimeoutMilliseconds
                partition.retryAt = time.monotonicNanoseconds() + Int64(delay) * 1_000_000
                log.warning(
                    "the partition was claimed by another worker; waiting for the rebalance",
                    [.partition: .integer(partition.name.partition), .delayMilliseconds: .integer(delay)]
                )
                claimAgainAt = max(claimAgainAt ?? 0, partition.retryAt)
                partition.standing = .unclaimed
                return
            }
            log.info(
                "the position was moved; going on from there",
                [.partition: .integer(partition.name.partition), .nextOffset: .integer(state.nextOffset)]
            )
            partition.standing = .unclaimed
            needsAssign = true
        } catch {
            noteDatabaseAway()
            partition.standing = .unclaimed
            needsAssign = true
        }
    }

    /// Set while a partition is somebody else's in the database, but ours in the group.
    private var claimAgainAt: Int64?

    // MARK: Claiming

    /// Claims what is not claimed, decides where each partition starts, and hands all of them to the consumer anew.
    /// What waits is dropped: it is fetched again.
    private func assignAll() {
        do {
            let clusterID = try consumer.clusterID(timeoutMilliseconds: Self.kafkaTimeout)
            var starts: [(TopicPartition, KafkaStart)] = []
            for name in partitions.keys.sorted() {
                guard var partition = partitions[name] else { continue }
                partition.dropWaiting()
                if partition.standing != .braked && partition.standing != .stopped {
                    starts.append((name, .offset(try claim(&partition, clusterID: clusterID))))
                }
                partitions[name] = partition
            }
            try consumer.assign(starts)
            paused = []
            otherLogs = []
            needsAssign = false
            claimAgainAt = nil
            databaseFailures = 0
        } catch let error as PostgresError {
            log.warning("partitions could not be claimed; trying again", [.error: .text(error.message)])
            noteDatabaseAway()
        } catch {
            let text = (error as? KafkaError)?.message ?? "\(error)"
            log.warning("the log could not be asked where it begins; trying again", [.error: .text(text)])
            assignAt = time.monotonicNanoseconds() + Self.recheckDelay
        }
    }

    /// Returns the offset to start at.
    private func claim(_ partition: inout LanePartition, clusterID: String) throws -> Int64 {
        var marks = try consumer.watermarks(partition.name, timeoutMilliseconds: Self.kafkaTimeout)
        var (state, isNew) = try offsets.claim(
            partition.stored,
            owner: owner,
            clusterID: clusterID,
            startingAt: marks.low
        )
        // A former owner may have applied, until the claim, what was not in the log when it was asked.
        if state.nextOffset > marks.high {
            marks = try consumer.watermarks(partition.name, timeoutMilliseconds: Self.kafkaTimeout)
        }
        if otherLogs.contains(partition.name) { state.clusterID = "" }
        let decision = StartDecision.decide(state, isNew: isNew, clusterID: clusterID, low: marks.low, high: marks.high)
        partition.clusterID = clusterID
        partition.epoch = state.epoch
        partition.brake = Brake(encoded: state.brake, limits: settings.brake)
        partition.lastRecord = state.lastRecord
        partition.expectedDigest = nil
        partition.standing = state.brakedAt == nil ? .running : .braked
        switch decision {
        case .start(let offset):
            partition.position = offset
            if offset != state.nextOffset { try move(&partition, to: offset, lost: 0) }
            return offset
        case .verify(let digest, let offset):
            partition.position = offset
            partition.expectedDigest = digest
            return offset - 1
        case .anotherLog(let offset):
            metrics.otherLogs.increment()
            log.warning(
                "this is another log than the one read before; starting at its beginning",
                [
                    .topic: .text(partition.name.topic), .partition: .integer(partition.name.partition),
                    .clusterID: .text(clusterID), .nextOffset: .integer(offset),
                ]
            )
            try move(&partition, to: offset, lost: 0)
            return offset
        case .lost(let records, let offset):
            log.error(
                "records were dropped by retention before they were read",
                [
                    .topic: .text(partition.name.topic), .partition: .integer(partition.name.partition),
                    .count: .integer(records), .nextOffset: .integer(offset),
                ]
            )
            if settings.resumesAfterLoss {
                // Not where the partition stops: it would be counted at every claim.
                metrics.lostRecords.add(Int(clamping: records))
                try move(&partition, to: offset, lost: records)
            } else {
                partition.position = state.nextOffset
                stand(
                    &partition,
                    .stopped,
                    "stopped by policy: set DAYBOOK_LOST_LOG_POLICY=resume to go on behind the gap"
                )
            }
            return offset
        }
    }

    private func move(_ partition: inout LanePartition, to offset: Int64, lost: Int64) throws {
        let isMine = try offsets.move(
            partition.stored,
            owner: owner,
            epoch: partition.epoch,
            clusterID: partition.clusterID,
            to: offset,
            lost: lost
        )
        // Claimed a moment ago, so it is another worker's claim that came between: the next turn sees it.
        guard isMine else { throw PostgresError(sqlState: "40001", message: "the claim was overtaken") }
        partition.position = offset
        partition.lastRecord = nil
    }

    // MARK: The database

    private func isDatabaseReady(_ now: Int64) -> Bool { now >= databaseRetryAt && !store.isBroken }

    private func noteDatabaseAway() {
        health.isDatabaseReachable = false
        databaseFailures += 1
        let delay = Self.databaseBackoff.delay(attempt: databaseFailures, using: &generator)
        databaseRetryAt = time.monotonicNanoseconds() + delay.clampedNanoseconds
    }

    /// Connects again, for ever. A schema that this build must not write to ends the worker.
    private func mendDatabase(_ now: Int64) throws {
        guard now >= databaseRetryAt, store.isBroken || !health.isDatabaseReachable else { return }
        do {
            if store.isBroken { try store.reconnect() }
            try gate()
            // The count of failures stays until something was written: a full disk lets everybody in.
            health.isDatabaseReachable = true
            log.info("the database answers again")
        } catch let refusal as SchemaGate.Refusal {
            throw refusal
        } catch {
            noteDatabaseAway()
        }
    }

    /// A lane without records reads its rows every five seconds: an operator may have moved a position, or another
    /// cluster may answer under the same address.
    private func look(_ now: Int64) {
        if let claimAgainAt, now >= claimAgainAt {
            needsAssign = true
            self.claimAgainAt = nil
        }
        guard now >= nextLookAt, !needsAssign, isDatabaseReady(now) else { return }
        nextLookAt = now + Self.lookInterval
        do {
            let clusterID = try consumer.clusterID(timeoutMilliseconds: 0)
            for (name, partition) in partitions where partition.waiting.isEmpty && partition.standing != .unclaimed {
                guard let state = try offsets.look(partition.stored) else { continue }
                let isMoved = state.epoch != partition.epoch || state.nextOffset != partition.position
                let isReleased = partition.standing == .braked && state.brakedAt == nil
                guard isMoved || isReleased || partition.clusterID != clusterID else { continue }
                // Another worker's claim is its business until the group says otherwise.
                guard state.owner == owner else { continue }
                partitions[name]?.standing = .unclaimed
                needsAssign = true
            }
        } catch is PostgresError {
            noteDatabaseAway()
        } catch {
            // Kafka is away: the client goes on trying by itself.
        }
    }

    // MARK: Flow

    /// Fetches only for partitions that are worked on: not while the database is away, the lane's memory is full, or
    /// a partition stands still.
    private func updatePauses() {
        guard !needsAssign else { return }
        let isHeld = !health.isDatabaseReachable || bufferedBytes >= settings.bufferBytes
        let wanted = Set(partitions.values.filter { isHeld || !$0.isReading }.map(\.name))
        let reading = Set(partitions.values.filter { $0.standing != .unclaimed }.map(\.name))
        let toPause = wanted.subtracting(paused).intersection(reading)
        let toResume = paused.subtracting(wanted)
        if !toPause.isEmpty { attempt("pause") { () throws(KafkaError) in try consumer.pause(toPause.sorted()) } }
        if !toResume.isEmpty { attempt("resume") { () throws(KafkaError) in try consumer.resume(toResume.sorted()) } }
        paused = paused.union(toPause).subtracting(toResume)
    }

    private func attempt(_ what: StaticString, _ body: () throws(KafkaError) -> Void) {
        do throws(KafkaError) {
            try body()
        } catch {
            log.warning("a call to kafka failed", [.reason: .constant(StaticText(what)), .error: .text(error.message)])
        }
    }

    private func publishHealth() {
        var now = health
        now.partitions = partitions.count
        now.braked = partitions.values.count { $0.standing == .braked }
        now.stopped = partitions.values.count { $0.standing == .stopped }
        publish(now)
    }
}

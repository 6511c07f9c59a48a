internal import Aggregation
internal import Domain
internal import Kafka
internal import MessageContract
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage

/// Applies the records that wait on one partition, a batch at a time. Belongs to one lane's thread.
final class BatchProcessor {
    /// Why a batch is tried again; a label of the metric.
    enum Retry: String, CaseIterable {
        case deadLetters = "dead_letters"
        case deadlock
        case empty
        /// The transaction waited for us longer than the database allows.
        case idleTimeout = "idle_timeout"
        case lockTimeout = "lock_timeout"
        /// Rows were elsewhere than where they had been read.
        case movedRow = "moved_row"
        case partition
        /// COMMIT was answered with ROLLBACK.
        case rolledBack = "rolled_back"
        case serialization
        case statementTimeout = "statement_timeout"

        /// Of a failure whose disposition is to try again.
        init(_ error: PostgresError) {
            self =
                switch error.sqlState {
                case "40P01": .deadlock
                case "25P03": .idleTimeout
                case "55P03": .lockTimeout
                case "57014": .statementTimeout
                default: error.isMovedRow ? .movedRow : .serialization
                }
        }
    }

    enum Outcome {
        /// So many records are done; `next` is the new position.
        case finished(count: Int, next: Int64, lastRecord: Int64, brake: Brake, braked: Bool)
        /// Nothing was done, for a reason that passes.
        case again(Retry)
        /// The database, or the way to it, is away, or does not take writes.
        case databaseAway
        /// The same on the connection that makes months; the lane's own was not asked.
        case monthsAway
        /// The partition's row is not as this lane left it.
        case fenceLost
        /// This build must not write to the database any more.
        case refused(SchemaGate.Refusal)
        /// Trying again cannot mend it.
        case stop(reason: String)
    }

    private let runner: BatchRunner
    private let months: MonthKeeper
    private let letters: DeadLetterWriter
    private let owner: UUID128
    private var growth: BatchGrowth
    private var sent: [TopicPartition: SentLetters] = [:]
    private let metrics: WorkerMetrics
    private let log: Log
    private let time: any TimeSource

    init(
        runner: BatchRunner,
        months: MonthKeeper,
        letters: DeadLetterWriter,
        owner: UUID128,
        limits: BatchCut.Limits,
        metrics: WorkerMetrics,
        log: Log,
        time: any TimeSource
    ) {
        self.runner = runner
        self.months = months
        self.letters = letters
        self.owner = owner
        growth = BatchGrowth(limits)
        self.metrics = metrics
        self.log = log
        self.time = time
    }

    /// What the next batch may hold.
    var limits: BatchCut.Limits { growth.limits }

    /// - Parameters:
    ///   - partition: with what waits on it.
    ///   - days: a smaller bound than the configured one, for a lane that yields to others.
    /// - Returns: what became of as much of it as went into one batch.
    func process(_ partition: LanePartition, days: Int? = nil) -> Outcome {
        let items = partition.waiting.lazy.map { pending -> BatchCut.Item in
            var isPoison = false
            if case .poison = pending.content { isPoison = true }
            return BatchCut.Item(
                days: pending.content.dayCount,
                bytes: pending.record.byteCount,
                isPoison: isPoison,
                isCounted: pending.content.isCounted
            )
        }
        let bound = BatchCut.Limits(
            records: limits.records,
            days: min(limits.days, days ?? limits.days),
            bytes: limits.bytes
        )
        let cut = BatchCut(items, limits: bound, brake: partition.brake)
        let outcome = apply(partition.waiting[..<cut.count], of: partition, cut: cut)
        if case .finished(_, let next, _, _, _) = outcome {
            sent[partition.name]?.forget(before: next)
            return outcome
        }
        growth.reset()
        return outcome
    }

    /// Letters that were acknowledged are not sent again, however often the batch is.
    private func write(_ poison: [DeadLetterWriter.Letter], of partition: LanePartition) -> Bool {
        guard !poison.isEmpty else { return true }
        var known = sent[partition.name] ?? SentLetters(epoch: partition.epoch)
        if known.epoch != partition.epoch { known = SentLetters(epoch: partition.epoch) }
        let new = poison.filter { !known.has($0.record.offset) }
        guard letters.write(new, clusterID: partition.clusterID) else { return false }
        for letter in new { known.note(letter.record.offset) }
        sent[partition.name] = known
        return true
    }

    private func apply(_ batch: ArraySlice<PendingRecord>, of partition: LanePartition, cut: BatchCut) -> Outcome {
        var records = TopicRecords()
        var poison: [DeadLetterWriter.Letter] = []
        var door = DoorTally()
        var appliedThrough: Int64 = 0
        for pending in batch {
            appliedThrough = max(appliedThrough, pending.content.receivedAt)
            switch pending.content {
            case .days(let days): records.days.append(days)
            case .account(let change): records.accounts.append(change)
            case .device(let device): records.devices.append(device)
            case .heartbeat(let heartbeat): door.count(heartbeat)
            case .poison(let reason): poison.append(.init(record: pending.record, reason: reason.code))
            }
        }
        guard let last = batch.last?.record else { return .again(.empty) }
        if let outcome = prepareMonths(of: records.days) { return outcome }
        guard write(poison, of: partition) else { return .again(.deadLetters) }
        let digest = RecordDigest.of(last)
        let fence = Fence(
            name: partition.stored,
            owner: owner,
            epoch: partition.epoch,
            position: partition.position,
            nextOffset: last.offset + 1,
            lastRecord: digest,
            appliedThrough: appliedThrough,
            brake: cut.brake.encoded,
            brakedAt: cut.tripsBrake ? time.wallMicroseconds() : nil,
            door: door.minutes(now: time.wallMicroseconds())
        )
        let started = time.monotonicNanoseconds()
        do {
            switch try runner.run(records, fence: fence) {
            case .applied(let counts):
                let taken = time.monotonicNanoseconds() - started
                metrics.batchSeconds.observe(nanoseconds: taken)
                growth.note(nanoseconds: taken, days: records.days.reduce(0) { $0 + $1.readings.count })
                note(counts, poison, records: batch.count, topic: partition.name.topic)
                if appliedThrough > 0 {
                    let age = Double(time.wallMicroseconds() - appliedThrough) / 1_000_000
                    metrics.endToEnd(partition.name.topic).observe(max(0, age))
                }
                return .finished(
                    count: batch.count,
                    next: fence.nextOffset,
                    lastRecord: digest,
                    brake: cut.brake,
                    braked: cut.tripsBrake
                )
            case .fenceLost: return .fenceLost
            case .rolledBack: return .again(.rolledBack)
            case .tooManyOrigins(let refused): return retry(batch, without: refused, of: partition)
            }
        } catch let error as PostgresError {
            return outcome(of: error, batch, partition, cut)
        } catch let refusal as SchemaGate.Refusal {
            return .refused(refusal)
        } catch {
            // What stands in the database is not what this build can read: it describes itself without values.
            return .stop(reason: "\(error)")
        }
    }

    /// Nil when the months that the records need are there.
    private func prepareMonths(of records: [DecodedDays]) -> Outcome? {
        do throws(PostgresError) {
            try months.prepare(for: records)
            return nil
        } catch {
            switch error.disposition {
            case .retry: return .again(.partition)
            case .unavailable:
                log.warning("the database is away", [.error: .text(error.message)])
                months.close()
                return .monthsAway
            case .stop, .poison, .missingPartition: return .stop(reason: "\(error)")
            }
        }
    }

    private func outcome(
        of error: PostgresError,
        _ batch: ArraySlice<PendingRecord>,
        _ partition: LanePartition,
        _ cut: BatchCut
    ) -> Outcome {
        switch error.disposition {
        case .retry where error.isMovedRow:
            log.warning(
                "somebody writes to Daybook's tables without the accounts' locks",
                [.error: .text(error.message)]
            )
            return .again(.movedRow)
        case .retry:
            log.info("batch will be tried again", [.sqlState: .text(error.sqlState ?? "")])
            return .again(Retry(error))
        case .missingPartition:
            months.forget()
            return .again(.partition)
        case .unavailable:
            log.warning("the database is away", [.error: .text(error.message)])
            return .databaseAway
        case .stop:
            return .stop(reason: "\(error)")
        case .poison:
            return bisect(batch, partition, error)
        }
    }

    /// The batch again, with the records of which a connection would be one origin too many as dead letters.
    private func retry(
        _ batch: ArraySlice<PendingRecord>,
        without refused: [Int],
        of partition: LanePartition
    ) -> Outcome {
        let refused = Set(refused)
        var number = 0
        var again = partition
        again.waiting = batch.map { pending in
            guard case .days = pending.content else { return pending }
            defer { number += 1 }
            return refused.contains(number)
                ? PendingRecord(record: pending.record, content: .poison(.tooManyOrigins)) : pending
        }
        return process(again)
    }

    /// The database refuses something in the batch: halves find the one record, which becomes a dead letter; all
    /// before it are applied by the way.
    private func bisect(_ batch: ArraySlice<PendingRecord>, _ partition: LanePartition, _ error: PostgresError)
        -> Outcome
    {
        if batch.count == 1, let only = batch.first {
            log.error(
                "the database refuses a record; it becomes a dead letter",
                [.offset: .integer(only.record.offset), .sqlState: .text(error.sqlState ?? "")]
            )
            var refused = partition
            refused.waiting = [PendingRecord(record: only.record, content: .poison(.refused))]
            return process(refused)
        }
        var half = partition
        half.waiting = Array(batch.prefix(batch.count / 2))
        return process(half)
    }

    private func note(_ counts: BatchCounts, _ poison: [DeadLetterWriter.Letter], records: Int, topic: String) {
        metrics.records(topic).add(records)
        metrics.changed.add(counts.changed)
        metrics.confirmed.add(counts.confirmed)
        metrics.older.add(counts.older)
        metrics.suppressed.add(counts.suppressed)
        metrics.belowFloor.add(counts.belowFloor)
        metrics.sourceRows.add(counts.sourceRowsWritten)
        metrics.canonical.add(counts.canonicalWritten)
        metrics.batchDays.observe(Double(counts.changed + counts.confirmed + counts.older))
        for letter in poison { metrics.deadLetter(letter.reason) }
    }
}

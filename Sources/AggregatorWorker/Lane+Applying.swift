internal import Kafka
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage

/// A batch after another, and what each of its ends means for the partition.
extension Lane {
    func applyWaiting(_ stop: StopFlag) {
        for name in partitions.keys.sorted() {
            guard !stop.isRaised, !needsAssign, isDatabaseReady(time.monotonicNanoseconds()) else { return }
            guard let outcome = applyNext(of: name) else { continue }
            conclude(outcome, of: name)
        }
    }

    /// Nil where it is not the partition's turn. A function of its own, since what waits is copied by `conclude` as long as
    /// somebody else holds it.
    private func applyNext(of name: TopicPartition) -> BatchProcessor.Outcome? {
        guard let partition = partitions[name], partition.isReading, !partition.waiting.isEmpty,
            partition.retryAt <= time.monotonicNanoseconds(), isDue(partition)
        else { return nil }
        isApplying = true
        defer { isApplying = false }
        return process(partition)
    }

    /// History gives way: while live lanes have work its batches are short, so that live ones wait little for it.
    private func process(_ partition: LanePartition) -> BatchProcessor.Outcome {
        guard case .history(let pressure) = settings.role, pressure.isOn else { return processor.process(partition) }
        let started = time.monotonicNanoseconds()
        let outcome = processor.process(partition, days: yielding.days)
        if case .finished(let count, _, _, _, _) = outcome {
            let taken = partition.waiting.prefix(count).reduce(0) { $0 + $1.content.dayCount }
            yielding.note(days: taken, nanoseconds: time.monotonicNanoseconds() - started)
        }
        return outcome
    }

    /// While there is more to fetch, batches that are not full get larger first.
    private func isDue(_ partition: LanePartition) -> Bool {
        if isDrained || partition.isFull(processor.limits) { return true }
        let wait = Self.longestWait * Int64(settings.batchWaitMilliseconds) * 1_000_000
        return time.monotonicNanoseconds() - partition.waitingSince >= wait
    }

    func conclude(_ outcome: BatchProcessor.Outcome, of name: TopicPartition) {
        guard var partition = partitions.removeValue(forKey: name) else { return }
        defer { partitions[name] = partition }
        switch outcome {
        case .finished(let count, let next, let lastRecord, let brake, let braked):
            partition.position = next
            partition.lastRecord = lastRecord
            partition.brake = brake
            let received = partition.waiting.prefix(count).map(\.content.receivedAt).max() ?? 0
            partition.appliedThrough = max(partition.appliedThrough, received)
            partition.finish(count)
            databaseFailures = 0
            if braked { stand(&partition, .braked, "too many dead letters: the brake is on") }
            attempt("commit") { () throws(KafkaError) in try consumer.commit([(name, offset: next)]) }
        case .again(let why):
            metrics.retry(why.rawValue)
            partition.noteFailure(isMovedRow: why == .movedRow)
            let delay = Self.batchBackoff.delay(attempt: partition.failures, using: &generator)
            partition.retryAt = time.monotonicNanoseconds() + delay.clampedNanoseconds
            if partition.movedRows >= Self.mostMovedRows {
                stand(
                    &partition,
                    .stopped,
                    "rows are never where they were read: look for triggers, rules and damaged indexes, then restart"
                )
            }
        case .databaseAway:
            metrics.retry("database")
            // Whatever answers there is not of use: a server that was demoted keeps its sessions.
            store.disconnect()
            noteDatabaseAway(nil)
        case .monthsAway:
            metrics.retry("database")
            noteDatabaseAway(nil)
        case .fenceLost:
            metrics.retry("fence")
            recover(&partition)
        case .refused(let why):
            refusal = why
        case .stop(let reason):
            log.error("a partition stops: trying again cannot mend this", [.error: .text(reason)])
            stand(&partition, .stopped, "the partition stands still until the worker is restarted")
        }
    }

    func stand(_ partition: inout LanePartition, _ standing: LanePartition.Standing, _ why: StaticString) {
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
    func recover(_ partition: inout LanePartition) {
        partition.dropWaiting()
        do throws(PostgresError) {
            let state = try offsets.look(partition.stored)
            guard let state, state.owner == owner else {
                waitForRebalance(&partition)
                return
            }
            log.info(
                "the position was moved; going on from there",
                [.partition: .integer(partition.name.partition), .nextOffset: .integer(state.nextOffset)]
            )
            partition.standing = .unclaimed
            needsAssign = true
        } catch {
            noteDatabaseAway(error)
            partition.standing = .unclaimed
            needsAssign = true
        }
    }

    /// Another worker's claim is its business until the group says otherwise. If it does not within a session's time,
    /// there is no such worker (a restored backup names owners that are gone), and the partition is claimed again.
    func waitForRebalance(_ partition: inout LanePartition) {
        let delay = settings.sessionTimeoutMilliseconds
        partition.retryAt = time.monotonicNanoseconds() + Int64(delay) * 1_000_000
        log.warning(
            "the partition was claimed by another worker; waiting for the rebalance",
            [.partition: .integer(partition.name.partition), .delayMilliseconds: .integer(delay)]
        )
        claimAgainAt = max(claimAgainAt ?? 0, partition.retryAt)
        partition.standing = .unclaimed
    }
}

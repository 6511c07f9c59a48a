internal import Kafka
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage

/// Losing the database, getting it back, and noticing what others changed in it.
extension Lane {
    func isDatabaseReady(_ now: Int64) -> Bool { now >= databaseRetryAt && !store.isBroken }

    func noteDatabaseAway() {
        health.isDatabaseReachable = false
        databaseFailures += 1
        let delay = Self.databaseBackoff.delay(attempt: databaseFailures, using: &generator)
        databaseRetryAt = time.monotonicNanoseconds() + delay.clampedNanoseconds
    }

    /// Connects again, for ever. A schema that this build must not write to ends the worker.
    func mendDatabase(_ now: Int64) throws {
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
    func look(_ now: Int64) {
        if let claimAgainAt, now >= claimAgainAt {
            needsAssign = true
            self.claimAgainAt = nil
        }
        guard now >= nextLookAt else { return }
        nextLookAt = now + Self.lookInterval
        for partition in partitions.values { metrics.note(partition, consumer.cachedWatermarks(partition.name), time) }
        guard !needsAssign, isDatabaseReady(now) else { return }
        do {
            let clusterID = try consumer.clusterID(timeoutMilliseconds: 0)
            for (name, partition) in partitions where partition.waiting.isEmpty && partition.standing != .unclaimed {
                guard let state = try offsets.look(partition.stored), state.owner == owner else {
                    // Even without a record to apply: a restored backup has to be caught up with.
                    var partition = partition
                    waitForRebalance(&partition)
                    partitions[name] = partition
                    continue
                }
                let isMoved = state.epoch != partition.epoch || state.nextOffset != partition.position
                let isReleased = partition.standing == .braked && state.brakedAt == nil
                guard isMoved || isReleased || partition.clusterID != clusterID else { continue }
                partitions[name]?.standing = .unclaimed
                needsAssign = true
            }
        } catch is PostgresError {
            noteDatabaseAway()
        } catch {
            // Kafka is away: the client goes on trying by itself.
        }
    }
}

internal import Kafka
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage

/// Losing the database, getting it back, and noticing what others changed in it.
extension Lane {
    func isDatabaseReady(_ now: Int64) -> Bool { now >= databaseRetryAt && !store.isBroken }

    /// - Parameter error: why, where nobody has said it yet.
    func noteDatabaseAway(_ error: (any Error)?) {
        if let error { say(error) }
        health.isDatabaseReachable = false
        databaseFailures += 1
        let delay = Self.databaseBackoff.delay(attempt: databaseFailures, using: &generator)
        databaseRetryAt = time.monotonicNanoseconds() + delay.clampedNanoseconds
    }

    /// At once where it is news; the same again every half minute.
    private func say(_ error: any Error) {
        let failure = error as? PostgresError
        let text = failure?.message ?? "\(error)"
        let now = time.monotonicNanoseconds()
        if let failureSaid, failureSaid.text == text, now < failureSaid.until { return }
        failureSaid = (text, now + Self.sayingInterval)
        let fields: KeyValuePairs<LogKey, LogValue> = [
            .error: .text(text), .sqlState: .text(failure?.sqlState ?? ""),
        ]
        if failure?.disposition == .stop {
            log.error("the database can't be used, and trying again does not mend it", fields)
        } else {
            log.warning("the database can't be used; trying again", fields)
        }
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
            // A session may outlive the reason why it is of no use.
            store.disconnect()
            noteDatabaseAway(error)
        }
    }

    /// A lane without records reads its rows every five seconds: an operator may have moved a position, or another
    /// cluster may answer under the same address.
    func look(_ now: Int64, _ stop: StopFlag) {
        if let claimAgainAt, now >= claimAgainAt {
            needsAssign = true
            self.claimAgainAt = nil
        }
        guard now >= nextLookAt else { return }
        nextLookAt = now + Self.lookInterval
        let asked = askEnds(now, stop)
        for partition in partitions.values {
            metrics.note(partition, asked[partition.name] ?? consumer.cachedWatermarks(partition.name), time)
        }
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
        } catch let error as PostgresError {
            noteDatabaseAway(error)
        } catch {
            // Kafka is away: the client goes on trying by itself.
        }
    }

    /// Of a partition that stands still or is paused the last fetch knows nothing new, so its leader is asked. Where one
    /// does not answer, none is asked for a while: the lane has other work.
    private func askEnds(_ now: Int64, _ stop: StopFlag) -> [TopicPartition: KafkaWatermarks] {
        guard now >= askEndsAt else { return [:] }
        var found: [TopicPartition: KafkaWatermarks] = [:]
        for (name, partition) in partitions {
            let isStanding = partition.standing == .braked || partition.standing == .stopped
            guard isStanding || paused.contains(name) else { continue }
            if stop.isRaised { break }
            do throws(KafkaError) {
                found[name] = try consumer.watermarks(name, timeoutMilliseconds: Self.endsTimeout)
            } catch {
                askEndsAt = time.monotonicNanoseconds() + Self.endsPenalty
                break
            }
        }
        return found
    }
}

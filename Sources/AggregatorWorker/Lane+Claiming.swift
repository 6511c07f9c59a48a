internal import Aggregation
internal import Kafka
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage

/// Taking partitions over in the database, and finding out which log they are and where it is read from.
extension Lane {
    /// Claims what is not claimed, decides where each partition starts, and hands all of them to the consumer anew.
    /// What waits is dropped: it is fetched again. A partition whose log can't be asked (it has no leader now) holds
    /// up no other: it is left out, and asked again shortly.
    func assignAll() {
        do {
            let clusterID = try consumer.clusterID(timeoutMilliseconds: Self.kafkaTimeout)
            var starts: [(TopicPartition, KafkaStart)] = []
            var isOneMissing = false
            for name in partitions.keys.sorted() {
                guard var partition = partitions[name] else { continue }
                partition.dropWaiting()
                if partition.standing != .braked && partition.standing != .stopped {
                    do {
                        starts.append((name, .offset(try claim(&partition, clusterID: clusterID))))
                    } catch let error as KafkaError {
                        partition.standing = .unclaimed
                        isOneMissing = true
                        noteUnreadable(name, error)
                    }
                }
                partitions[name] = partition
            }
            // Read in the assignment before: what follows from the new starts on may lie before it.
            ahead.removeAll()
            try consumer.assign(starts)
            paused = []
            otherLogs = []
            needsAssign = false
            claimAgainAt = isOneMissing ? time.monotonicNanoseconds() + Self.leaderlessDelay : nil
            databaseFailures = 0
        } catch let error as PostgresError {
            noteUnclaimed(error)
        } catch {
            let text = (error as? KafkaError)?.message ?? "\(error)"
            log.warning("the log could not be asked where it begins; trying again", [.error: .text(text)])
            assignAt = time.monotonicNanoseconds() + Self.recheckDelay
        }
    }

    private func noteUnreadable(_ name: TopicPartition, _ error: KafkaError) {
        log.warning(
            "a partition could not be asked where its log begins; it is asked again shortly",
            [.topic: .text(name.topic), .partition: .integer(name.partition), .error: .text(error.message)]
        )
    }

    private func noteUnclaimed(_ error: PostgresError) {
        if error.disposition == .stop {
            log.error(
                "partitions can't be claimed, and trying again does not mend it: look at the worker's rights",
                [.error: .text(error.message)]
            )
        } else {
            log.warning("partitions could not be claimed; trying again", [.error: .text(error.message)])
        }
        noteDatabaseAway()
    }

    /// Returns the offset to start at.
    func claim(_ partition: inout LanePartition, clusterID: String) throws -> Int64 {
        var marks = try consumer.watermarks(partition.name, timeoutMilliseconds: Self.watermarkTimeout)
        var (state, isNew) = try offsets.claim(
            partition.stored,
            owner: owner,
            clusterID: clusterID,
            startingAt: marks.low
        )
        // A former owner may have applied, until the claim, what was not in the log when it was asked.
        if state.nextOffset > marks.high {
            marks = try consumer.watermarks(partition.name, timeoutMilliseconds: Self.watermarkTimeout)
        }
        if otherLogs.contains(partition.name) { state.clusterID = "" }
        let decision = StartDecision.decide(state, isNew: isNew, clusterID: clusterID, low: marks.low, high: marks.high)
        partition.clusterID = clusterID
        partition.epoch = state.epoch
        partition.brake = Brake(encoded: state.brake, limits: settings.brake)
        partition.lastRecord = state.lastRecord
        partition.appliedThrough = state.appliedThrough
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

    func move(_ partition: inout LanePartition, to offset: Int64, lost: Int64) throws {
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
}

internal import Aggregation
internal import Kafka
internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage

/// Taking partitions over in the database, and finding out which log they are and where it is read from.
extension Lane {
    /// Claims what is not claimed, decides where each partition starts, and hands all of them to the consumer. Ends early
    /// when the flag is raised.
    func assignAll(_ stop: StopFlag) {
        do {
            let clusterID = try consumer.clusterID(timeoutMilliseconds: Self.kafkaTimeout)
            let again = try claimUnclaimed(clusterID, stop)
            if stop.isRaised { return }
            try assignClaimed()
            needsAssign = false
            claimAgainAt = again
            databaseFailures = 0
        } catch let error as PostgresError {
            noteUnclaimed(error)
        } catch {
            let text = (error as? KafkaError)?.message ?? "\(error)"
            log.warning("the log could not be asked where it begins; trying again", [.error: .text(text)])
            assignAt = time.monotonicNanoseconds() + Self.recheckDelay
        }
    }

    /// A partition whose log can't be asked (it has no leader now, or one that hangs) holds up no other for long: it is
    /// left out, and asked again shortly. Those that had no turn are the first in the next one.
    ///
    /// - Returns: when that is, in monotonic nanoseconds; nil where nothing is left to claim.
    private func claimUnclaimed(_ clusterID: String, _ stop: StopFlag) throws -> Int64? {
        let names = partitions.keys.sorted()
        let before = askedLast.map { last in names.firstIndex { $0 > last } ?? names.count } ?? 0
        var spent: Int64 = 0
        var delay: Int64?
        for name in names[before...] + names[..<before] {
            guard var partition = partitions[name], needsClaim(partition, clusterID) else { continue }
            if stop.isRaised || spent >= Self.claimPatience {
                delay = Self.recheckDelay
                break
            }
            let started = time.monotonicNanoseconds()
            if partition.standing == .unclaimed && partition.retryAt > started {
                // Another worker's claim, until the group says whose it is.
                delay = min(delay ?? .max, partition.retryAt - started)
                continue
            }
            partition.dropWaiting()
            partition.standing = .unclaimed
            isAssignmentStale = isAssignmentStale || assigned.contains(name)
            askedLast = name
            do {
                try claim(&partition, clusterID: clusterID)
                partition.unanswered = 0
                otherLogs.remove(name)
            } catch let error as KafkaError {
                partition.standing = .unclaimed
                partition.unanswered += 1
                spent += time.monotonicNanoseconds() - started
                delay = min(delay ?? .max, partition.unanswered == 1 ? Self.recheckDelay : Self.leaderlessDelay)
                noteUnreadable(name, error)
            }
            partitions[name] = partition
        }
        return delay.map { time.monotonicNanoseconds() + $0 }
    }

    /// One that stands still stays so until it is released; all are claimed anew where another cluster answers.
    private func needsClaim(_ partition: LanePartition, _ clusterID: String) -> Bool {
        switch partition.standing {
        case .unclaimed: true
        case .running: partition.clusterID != clusterID
        case .braked, .stopped: false
        }
    }

    /// Where something changed, all are handed over anew; what waits is dropped and fetched again.
    private func assignClaimed() throws(KafkaError) {
        let reading = Set(partitions.values.filter(\.isReading).map(\.name))
        guard isAssignmentStale || reading != assigned else { return }
        for name in reading { partitions[name]?.dropWaiting() }
        // Read in the assignment before: what follows from the new starts on may lie before it.
        ahead.removeAll()
        let starts = partitions.values.filter(\.isReading).map { ($0.name, KafkaStart.offset($0.start)) }
        try consumer.assign(starts.sorted { $0.0 < $1.0 })
        paused = []
        assigned = reading
        isAssignmentStale = false
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
        noteDatabaseAway(nil)
    }

    /// Takes the partition over and decides where it starts, or that it stands still.
    private func claim(_ partition: inout LanePartition, clusterID: String) throws {
        let timeout = partition.unanswered == 0 ? Self.firstWatermarkTimeout : Self.watermarkTimeout
        var marks = try consumer.watermarks(partition.name, timeoutMilliseconds: timeout)
        var (state, isNew) = try offsets.claim(
            partition.stored,
            owner: owner,
            clusterID: clusterID,
            startingAt: marks.low
        )
        // A former owner may have applied, until the claim, what was not in the log when it was asked.
        if state.nextOffset > marks.high {
            marks = try consumer.watermarks(partition.name, timeoutMilliseconds: timeout)
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
            if offset != state.nextOffset { try move(&partition, to: offset) }
        case .verify(let digest, let offset):
            partition.position = offset
            partition.expectedDigest = digest
        case .anotherLog(let offset):
            metrics.otherLogs.increment()
            log.warning(
                "this is another log than the one read before; starting at its beginning",
                [
                    .topic: .text(partition.name.topic), .partition: .integer(partition.name.partition),
                    .clusterID: .text(clusterID), .nextOffset: .integer(offset),
                ]
            )
            try move(&partition, to: offset)
        case .lost(let records, let uncounted, let offset):
            log.error(
                "records were dropped by retention before they were read",
                [
                    .topic: .text(partition.name.topic), .partition: .integer(partition.name.partition),
                    .count: .integer(records), .nextOffset: .integer(offset),
                ]
            )
            if uncounted > 0 {
                // In the row too, so that the next claim does not count them again.
                try countLoss(partition, of: uncounted, through: offset)
                metrics.lostRecords.add(Int(clamping: uncounted))
            }
            if settings.resumesAfterLoss {
                try move(&partition, to: offset, keepsLoss: true)
            } else {
                partition.position = state.nextOffset
                stand(
                    &partition,
                    .stopped,
                    "stopped by policy: set DAYBOOK_LOST_LOG_POLICY=resume to go on behind the gap"
                )
            }
        }
    }

    private func countLoss(_ partition: LanePartition, of records: Int64, through offset: Int64) throws {
        let isMine = try offsets.countLoss(
            partition.stored,
            owner: owner,
            epoch: partition.epoch,
            of: records,
            through: offset
        )
        guard isMine else { throw Self.overtaken }
    }

    private func move(_ partition: inout LanePartition, to offset: Int64, keepsLoss: Bool = false) throws {
        let isMine = try offsets.move(
            partition.stored,
            owner: owner,
            epoch: partition.epoch,
            clusterID: partition.clusterID,
            to: offset,
            keepsLoss: keepsLoss
        )
        guard isMine else { throw Self.overtaken }
        partition.position = offset
        partition.lastRecord = nil
    }

    /// Claimed a moment ago, so it is another worker's claim that came between: the next turn sees it.
    private static var overtaken: PostgresError {
        PostgresError(sqlState: "40001", message: "the claim was overtaken")
    }
}

internal import Aggregation
internal import Kafka
internal import Storage

/// One assigned partition as its lane knows it: the claim, the position, and what was polled and not yet applied.
struct LanePartition {
    enum Standing: Hashable {
        /// Not ours in the database yet.
        case unclaimed
        case running
        /// Too many dead letters: stands still until it is released.
        case braked
        /// An error that trying again cannot mend; stands still until the partition is claimed anew.
        case stopped
    }

    let name: TopicPartition
    var standing = Standing.unclaimed
    var clusterID = ""
    var epoch: Int64 = 0
    /// What this lane last read or wrote in the partition's row.
    var position: Int64 = 0
    var lastRecord: Int64?
    /// The newest received-at applied, in microseconds since 1970; 0 before the first.
    var appliedThrough: Int64 = 0
    var brake: Brake
    /// The record just before the position has to have this digest, or the log is another one.
    var expectedDigest: Int64?
    var waiting: [PendingRecord] = []
    private(set) var waitingBytes = 0
    private(set) var waitingDays = 0
    /// When the first of those that wait was taken, in monotonic nanoseconds.
    private(set) var waitingSince: Int64 = 0
    /// Consecutive batches that could not be finished.
    private(set) var failures = 0
    /// How many of the last ones in a row found rows elsewhere than where they had been read.
    private(set) var movedRows = 0
    /// Not before this, in monotonic nanoseconds.
    var retryAt: Int64 = 0
    /// How many times in a row its log could not be asked for its ends.
    var unanswered = 0

    init(name: TopicPartition, brake: Brake) {
        self.name = name
        self.brake = brake
    }

    var stored: PartitionName { PartitionName(topic: name.topic, partition: name.partition) }

    /// Where it is read from: the record before the position too, if that one has to prove what log it is.
    var start: Int64 { expectedDigest == nil ? position : position - 1 }

    /// Whether records may be fetched: only while somebody works on them.
    var isReading: Bool { standing == .running }

    func isFull(_ limits: BatchCut.Limits) -> Bool {
        waitingDays >= limits.days || waiting.count >= limits.records || waitingBytes >= limits.bytes
    }

    mutating func take(_ pending: PendingRecord, at now: () -> Int64) {
        if waiting.isEmpty { waitingSince = now() }
        waiting.append(pending)
        waitingDays += pending.content.dayCount
        waitingBytes += pending.record.byteCount
    }

    /// Takes note of a batch that could not be finished.
    mutating func noteFailure(isMovedRow: Bool) {
        failures += 1
        movedRows = isMovedRow ? movedRows + 1 : 0
    }

    /// Forgets what was polled; it is fetched again from the position.
    mutating func dropWaiting() {
        waiting.removeAll()
        waitingBytes = 0
        waitingDays = 0
        forgetFailures()
    }

    mutating func finish(_ count: Int) {
        for pending in waiting.prefix(count) {
            waitingBytes -= pending.record.byteCount
            waitingDays -= pending.content.dayCount
        }
        waiting.removeFirst(count)
        forgetFailures()
    }

    private mutating func forgetFailures() {
        failures = 0
        movedRows = 0
        retryAt = 0
    }
}

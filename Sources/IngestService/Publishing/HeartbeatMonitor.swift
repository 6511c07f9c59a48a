import Domain

/// Follows rounds of heartbeats: whether Kafka acknowledges them, and how far its clock is from ours. Pure; one loop's.
struct HeartbeatMonitor {
    /// After this long a round that was not finished is given up.
    static let patienceSeconds = 30
    /// How long no heartbeat at all may be acknowledged.
    static let silenceSeconds = 5

    private(set) var round: UInt32 = 0
    private var sentAt = Instant(microseconds: 0)
    private var outstanding = 0
    private var skews: [Int64] = []
    /// Of the present round.
    private(set) var acknowledged = 0
    /// When the first heartbeat was sent since the last one that was acknowledged.
    private var waitingSince: Instant?

    /// What a finished round says.
    struct Finished: Equatable {
        /// Kafka takes records. Partitions without a leader don't change that: their users would fare no better at
        /// another process, and the others' users no better anywhere than here.
        var isConfirmed: Bool
        /// How far our clock is ahead of the broker's that differs most, in milliseconds; nil without append times.
        var skewMilliseconds: Int64?
    }

    /// Whether a new round should begin; while one is on its way to brokers that are away, none is added.
    func isDue(now: Instant) -> Bool {
        outstanding == 0 || now >= sentAt.advanced(bySeconds: Self.patienceSeconds) || now < sentAt
    }

    /// Begins a round of so many records.
    mutating func begin(partitions: Int, now: Instant) {
        round &+= 1
        sentAt = now
        outstanding = partitions
        acknowledged = 0
        if waitingSince.map({ now < $0 }) ?? true { waitingSince = now }
        skews.removeAll(keepingCapacity: true)
    }

    /// Takes a delivery report, nil until the round's last one.
    ///
    /// - Parameters:
    ///   - round: the report's round; an older one than the present is ignored.
    ///   - isAcknowledged: whether the record is in the log.
    ///   - appendTime: the broker's time, if it is one to believe.
    ///   - now: our clock.
    /// - Returns: what the round says, once it is complete.
    mutating func report(round: UInt32, isAcknowledged: Bool, appendTime: Instant?, now: Instant) -> Finished? {
        guard round == self.round, outstanding > 0 else { return nil }
        outstanding -= 1
        if isAcknowledged {
            acknowledged += 1
            waitingSince = nil
            if let appendTime { skews.append(skew(appendTime, now)) }
        }
        guard outstanding == 0 else { return nil }
        return Finished(isConfirmed: acknowledged > 0, skewMilliseconds: skews.max { $0.magnitude < $1.magnitude })
    }

    /// The record was appended between sending and now: only what lies outside is skew.
    private func skew(_ appendTime: Instant, _ now: Instant) -> Int64 {
        // Append times have milliseconds.
        let append = appendTime.microseconds / 1000
        let sent = sentAt.microseconds / 1000
        let received = now.microseconds / 1000
        if append < sent { return sent - append }
        return append > received ? received - append : 0
    }

    /// No heartbeat was acknowledged for so long that Kafka counts as away.
    func isSilent(now: Instant) -> Bool {
        guard let waitingSince else { return false }
        return now >= waitingSince.advanced(bySeconds: Self.silenceSeconds)
    }
}

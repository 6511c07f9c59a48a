import Domain

/// Follows heartbeats, one to each live partition: whether Kafka acknowledges them, and how far its clock is from ours.
/// Partitions stand for themselves, so that one without a leader holds up nobody else's. Pure; one loop's.
struct HeartbeatMonitor {
    /// After this long without a report a partition gets another.
    static let patienceSeconds = 30
    /// How long no heartbeat at all may be acknowledged.
    static let silenceSeconds = 5

    private struct Place {
        /// Of the heartbeat that is on its way; nil if none is.
        var sentAt: Instant?
        var round: UInt32 = 0
        /// What its last heartbeat told, in milliseconds.
        var skew: Int64?
    }

    private(set) var round: UInt32 = 0
    private var places: [Place] = []
    /// Of the present round.
    private(set) var acknowledged = 0
    /// When the first heartbeat was sent since the last one that was acknowledged.
    private var waitingSince: Instant?
    /// At the start each partition is waited for, so that its first request is as fast as the second.
    private var isSettling = true

    /// Begins a round.
    ///
    /// - Parameters:
    ///   - partitions: how many there are.
    ///   - now: our clock.
    /// - Returns: those that get a heartbeat now: all but those whose last one may still be acknowledged. If it is none,
    ///   the present round goes on.
    mutating func begin(partitions: Int, now: Instant) -> [Int] {
        while places.count < partitions { places.append(Place()) }
        let due = (0..<min(partitions, places.count)).filter { partition in
            guard let sentAt = places[partition].sentAt else { return true }
            return now >= sentAt.advanced(bySeconds: Self.patienceSeconds) || now < sentAt
        }
        guard !due.isEmpty else { return [] }
        round &+= 1
        acknowledged = 0
        if waitingSince.map({ now < $0 }) ?? true { waitingSince = now }
        for partition in due {
            // What was told by a leader that does not answer any more says nothing of today.
            if places[partition].sentAt != nil { places[partition].skew = nil }
            places[partition].sentAt = now
            places[partition].round = round
        }
        return due
    }

    /// Takes a delivery report; one that patience has given up is ignored.
    ///
    /// - Parameters:
    ///   - partition: the report's.
    ///   - round: the report's.
    ///   - isAcknowledged: whether the record is in the log: then Kafka takes records. Partitions without a leader don't
    ///     change that: their users would fare no better at another process, and the others' no better anywhere.
    ///   - appendTime: the broker's time, if it is one to believe.
    ///   - now: our clock.
    mutating func report(partition: Int, round: UInt32, isAcknowledged: Bool, appendTime: Instant?, now: Instant) {
        guard places.indices.contains(partition), places[partition].round == round,
            let sentAt = places[partition].sentAt
        else { return }
        places[partition].sentAt = nil
        places[partition].skew = nil
        if places.allSatisfy({ $0.sentAt == nil }) { isSettling = false }
        guard isAcknowledged else { return }
        if round == self.round { acknowledged += 1 }
        waitingSince = nil
        if let appendTime { places[partition].skew = Self.skew(appendTime, sentAt, now) }
    }

    /// How far our clock is ahead of the broker's that differs most, in milliseconds; nil without append times.
    var skewMilliseconds: Int64? { places.lazy.compactMap(\.skew).max { $0.magnitude < $1.magnitude } }

    /// The record was appended between sending and now: only what lies outside is skew.
    private static func skew(_ appendTime: Instant, _ sentAt: Instant, _ now: Instant) -> Int64 {
        // Append times have milliseconds.
        let append = appendTime.microseconds / 1000
        let sent = sentAt.microseconds / 1000
        let received = now.microseconds / 1000
        if append < sent { return sent - append }
        return append > received ? received - append : 0
    }

    /// A partition without a leader is waited for no longer: the others' users are to be served.
    mutating func endSettling() { isSettling = false }

    /// Kafka takes records, as the last heartbeats say; not before all partitions were heard of, or `endSettling`.
    var isConfirmed: Bool { !isSettling && round > 0 && waitingSince == nil }

    /// No heartbeat was acknowledged for so long that Kafka counts as away.
    func isSilent(now: Instant) -> Bool {
        guard let waitingSince else { return false }
        return now >= waitingSince.advanced(bySeconds: Self.silenceSeconds)
    }
}

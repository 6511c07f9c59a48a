internal import Domain
internal import MessageContract
internal import Storage

/// What the heartbeats of a batch tell of the door, by minute.
struct DoorTally {
    private var byMinute: [Int64: DoorMinute] = [:]

    /// Older minutes say nothing about whether the door is open now, as in a replay.
    static let minutesKept: Int64 = 15

    mutating func count(_ heartbeat: DecodedHeartbeat) {
        guard heartbeat.counts.requests > 0 else { return }
        let minute = heartbeat.receivedAt.microseconds / 60_000_000
        var held = byMinute[minute] ?? DoorMinute(minute: minute, requests: 0, answered: 0)
        held.requests += heartbeat.counts.requests
        held.answered += heartbeat.counts.answered
        byMinute[minute] = held
    }

    /// - Parameter now: in microseconds since 1970.
    /// - Returns: the minutes that may still count, in order; fewer than the table has slots.
    func minutes(now: Int64) -> [DoorMinute] {
        guard !byMinute.isEmpty else { return [] }
        let present = now / 60_000_000
        return byMinute.values
            .filter { ($0.minute > present - Self.minutesKept) && ($0.minute <= present + 1) }
            .sorted { $0.minute < $1.minute }
    }
}

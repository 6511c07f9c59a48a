internal import Storage

/// Where a claimed partition is read from, decided from its row and from what the log says of itself.
///
/// A position belongs to one log. Another cluster id, an end below the position, or another record than the one that
/// was read last there: it is another log, which is read from its beginning; that costs nothing but time, since
/// applying records again changes nothing (D3).
enum StartDecision: Hashable, Sendable {
    /// At this offset; nothing is known to compare.
    case start(at: Int64)
    /// At this offset, after the record before it has proved to be the one that was read last.
    case verify(digest: Int64, thenAt: Int64)
    case anotherLog(startAt: Int64)
    /// The log begins behind the position: records were dropped by retention before they were read; so many of them are
    /// not counted yet.
    case lost(records: Int64, uncounted: Int64, resumeAt: Int64)

    static func decide(
        _ state: PartitionState,
        isNew: Bool,
        clusterID: String,
        low: Int64,
        high: Int64
    ) -> StartDecision {
        if isNew { return .start(at: low) }
        if state.clusterID != clusterID || high < state.nextOffset { return .anotherLog(startAt: low) }
        if state.nextOffset < low {
            let lost = distance(from: state.nextOffset, to: low)
            let uncounted = distance(from: max(state.nextOffset, state.lostThrough), to: low)
            return .lost(records: lost, uncounted: max(0, uncounted), resumeAt: low)
        }
        if let digest = state.lastRecord, state.nextOffset > low {
            return .verify(digest: digest, thenAt: state.nextOffset)
        }
        return .start(at: state.nextOffset)
    }

    private static func distance(from start: Int64, to end: Int64) -> Int64 {
        let (distance, overflow) = end.subtractingReportingOverflow(start)
        return overflow ? .max : distance
    }
}

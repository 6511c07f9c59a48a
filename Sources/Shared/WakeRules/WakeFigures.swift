public import Domain

/// The figures behind a condition; words are made of them only for who reads them.
public enum WakeFigures: Hashable, Sendable {
    case claim(until: Instant?)
    case connected(Int, of: Int)
    case tokens(Int)
    case lastPush(Instant?)
    case lastWake(Instant?, unanswered: Int)
    case turn(Instant, SendSchedule)
    case quiet(QuietHours?, minutesFromUTC: Int)
    case applied(Instant?)
    case door(DoorCounts)
    case paused(since: Instant?)
    case stops([WakeStop])
    case clock(milliseconds: Int)
}

extension WakeFigures: CustomStringConvertible {
    public var description: String {
        switch self {
        case .claim(let until): until.map { "claimed until \($0.short)" } ?? "no open claim"
        case .connected(let count, let all): "\(count) of \(all) connections of on-device sources"
        case .tokens(let count): "\(count) live"
        case .lastPush(let time): time.map { "at \($0.short)" } ?? "never"
        case .lastWake(let time, let unanswered):
            (time.map { "at \($0.short)" } ?? "never") + ", \(unanswered) unanswered in a row"
        case .turn(let time, let schedule): "from \(time.short) on; \(schedule)"
        case .quiet(let hours, let minutes): hours.map { "\($0), \(minutes) min from UTC" } ?? "none set"
        case .applied(let time): time.map { "through \($0.short)" } ?? "a partition is not read"
        case .door(let counts): "\(counts.answered) of \(counts.requests) write requests of 10 min answered 2xx"
        case .paused(let since): since.map { "paused since \($0.short)" } ?? "not paused"
        case .stops(let stops):
            stops.isEmpty ? "no stop" : stops.map { "\($0.lane): \($0.code)" }.joined(separator: ", ")
        case .clock(let milliseconds): "\(milliseconds) ms between this machine's and the database's"
        }
    }
}

extension Instant {
    /// To the second: `2026-11-30T14:20:05Z`.
    public var short: String { String(description.prefix(19)) + "Z" }
}

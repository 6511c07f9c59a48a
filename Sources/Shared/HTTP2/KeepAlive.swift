/// When a quiet connection is asked whether it lives, and when it counts as dead. In nanoseconds of a monotonic clock.
public struct KeepAlive: Hashable, Sendable {
    public enum Action: Hashable, Sendable {
        case nothing
        case ping
        case dead
    }

    private let idle: Int64
    private let busy: Int64
    private let answer: Int64
    private var heard: Int64
    private var asked: Int64?

    /// - Parameters:
    ///   - idle: how long nothing may come on an idle connection.
    ///   - busy: the same where answers are awaited.
    ///   - answer: how long a ping may take.
    ///   - now: when the connection was opened.
    public init(idle: Int64, busy: Int64, answer: Int64, now: Int64) {
        self.idle = max(1, idle)
        self.busy = max(1, busy)
        self.answer = max(1, answer)
        heard = now
    }

    /// Bytes came: the peer lives.
    public mutating func hear(now: Int64) {
        heard = max(heard, now)
        asked = nil
    }

    /// What to do now; a ping is asked for once, until something comes.
    public mutating func check(now: Int64, isBusy: Bool) -> Action {
        guard now >= due(isBusy: isBusy) else { return .nothing }
        guard asked == nil else { return .dead }
        asked = now
        return .ping
    }

    /// When to check next.
    public func due(isBusy: Bool) -> Int64 {
        let (sum, overflow) =
            if let asked { asked.addingReportingOverflow(answer) } else {
                heard.addingReportingOverflow(isBusy ? busy : idle)
            }
        return overflow ? .max : sum
    }
}

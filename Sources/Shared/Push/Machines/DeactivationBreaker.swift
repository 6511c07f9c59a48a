/// Keeps a mistake of ours from costing all tokens: deactivations that may be our environment's or topic's fault are
/// held until 20 sends of the last hour have answers. More than a fifth of them bad: it is us, none is applied.
///
/// One for each environment and topic. Time is a monotonic clock's, in nanoseconds.
public struct DeactivationBreaker: Sendable {
    public enum Decision: Hashable, Sendable {
        /// Held; too few answers so far.
        case wait
        /// Apply these.
        case release([PushDeactivation])
        /// Just now: stop sending, raise the alarm. What was held is dropped.
        case trip
        /// Tripped before: nothing is applied.
        case dropped
    }

    public static let leastAnswers = 20
    /// Bad ones of a hundred that are still taken for the tokens' fault.
    public static let mostBadPercent = 20
    private static let minutes = 60
    private static let minute: Int64 = 60_000_000_000
    /// What is beyond that is sent to again, and answered again.
    private static let mostHeld = 10_000

    private struct Minute {
        var number: Int64
        var answers = 0
        var bad = 0
    }

    /// The last hour, oldest first.
    private var counts: [Minute] = []
    private var held: [PushDeactivation] = []
    public private(set) var isTripped = false

    public init() {}

    /// Answers of the last hour that tell of a token, and how many of them call it bad.
    public private(set) var answers: (all: Int, bad: Int) = (0, 0)

    public var heldCount: Int { held.count }

    /// A send has its answer.
    ///
    /// - Parameters:
    ///   - bad: the deactivation that it asks for, behind this breaker; nil if the token is good, or dead beyond doubt.
    ///   - now: by the monotonic clock.
    /// - Returns: what to do.
    public mutating func answered(_ bad: PushDeactivation?, now: Int64) -> Decision {
        guard !isTripped else { return .dropped }
        count(isBad: bad != nil, now)
        if let bad {
            if held.count >= Self.mostHeld { held.removeFirst() }
            held.append(bad)
        }
        guard answers.all >= Self.leastAnswers else { return .wait }
        if answers.bad * 100 > answers.all * Self.mostBadPercent {
            isTripped = true
            held = []
            counts = []
            answers = (0, 0)
            return .trip
        }
        defer { held = [] }
        return .release(held)
    }

    private mutating func count(isBad: Bool, _ now: Int64) {
        let number = max(now / Self.minute, counts.last?.number ?? .min)
        if counts.last?.number != number { begin(number) }
        counts[counts.count - 1].answers += 1
        answers.all += 1
        guard isBad else { return }
        counts[counts.count - 1].bad += 1
        answers.bad += 1
    }

    /// A new minute; those that are an hour old are forgotten.
    private mutating func begin(_ number: Int64) {
        let (oldest, overflow) = number.subtractingReportingOverflow(Int64(Self.minutes))
        if !overflow { counts.removeAll { $0.number <= oldest } }
        counts.append(Minute(number: number))
        answers = counts.reduce((0, 0)) { ($0.0 + $1.answers, $0.1 + $1.bad) }
    }
}

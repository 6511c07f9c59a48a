public import Domain
public import WakeRules

/// A wake that this worker has claimed, committed and may send now.
public struct WakeClaim: Hashable, Sendable {
    public let user: UserID
    /// When it was claimed, by the database's clock, in microseconds since 1970; with the user it names the wake.
    public let wakeAt: Int64
    /// The fencing number.
    public let number: Int64
    public let tokens: [WakeToken]

    public init(user: UserID, wakeAt: Int64, number: Int64, tokens: [WakeToken]) {
        self.user = user
        self.wakeAt = wakeAt
        self.number = number
        self.tokens = tokens
    }
}

/// What a scan did.
public struct WakeScan: Sendable {
    /// Rows that were looked at.
    public var candidates = 0
    /// Of them: woken now.
    public var claims: [WakeClaim] = []
    /// Due, but more than this scan may send.
    public var overPace = 0
    /// Due, but the cause is on our side: how many, by condition.
    public var heldBack: [WakeCondition.Name: Int] = [:]
    /// Not due: set to the time at which they may be.
    public var postponed = 0
    /// Left to an event, such as a new token.
    public var parked = 0
    /// Claims whose worker was late or dead: their outcome is unknown.
    public var settled = 0
    /// Device tokens whose rows could not be read; their users are looked at without them.
    public var unreadable = 0

    public init() {}

    public var due: Int { claims.count + overPace + heldBack.values.reduce(0, +) }
}

/// How a claimed wake ended, all of its tokens together.
public struct WakeEnd: Hashable, Sendable {
    public let claim: WakeClaim
    public let kind: Kind
    /// For the record: one of a fixed set of words.
    public let outcome: String

    public enum Kind: Hashable, Sendable {
        case accepted
        case unknown
        /// Not processed and not the user's fault: to be looked at again then, in microseconds since 1970.
        case notSpent(retryAt: Int64)
        /// The push server asks to wait for the next spacing: counts as a wake, not as unanswered.
        case waits
    }

    public init(claim: WakeClaim, kind: Kind, outcome: String) {
        self.claim = claim
        self.kind = kind
        self.outcome = outcome
    }
}

/// What became of the writing of ends.
public struct WakeConclusions: Sendable {
    public var written = 0
    /// The claim was settled by others, or is gone with the account: nothing was written for it.
    public var refused: [WakeClaim] = []

    public init() {}
}

/// A user as looked at without locks, for people.
public struct WakeLook: Sendable {
    public let facts: WakeFacts
    public let decision: WakeDecision
}

/// What all workers share, besides the pipeline's state.
public struct WakeShared: Sendable {
    public let pipeline: PipelineState
    /// Raised by every resume.
    public let resumes: Int64
    /// The database's clock.
    public let now: Instant
    /// A number of partitions that nobody has written down yet.
    let newPartitionCount: Int?
    /// When it was last written down that nothing got in.
    let doorShutNotedAt: Instant?
}

public import Domain

/// A user's row in the schedule of wakes, and every way in which it changes. Pure; whoever writes it holds the lock of
/// the user's account. Times are microseconds since 1970, 0 for never.
public struct WakeSchedule: Hashable, Sendable {
    /// The user is looked at then at the earliest: a lower bound.
    public var dueAt: Int64
    /// The claim of the last wake that counts for the spacing.
    public var lastWakeAt: Int64
    /// What `lastWakeAt` was before the open claim, which may turn out to have sent nothing.
    public var previousWakeAt: Int64
    /// Wakes in a row that were accepted and that no push of a phone has answered.
    public var unanswered: Int
    /// The newest wake that counts as unanswered.
    public var struckAt: Int64
    /// The fencing number: of the open or the last claim.
    public var claim: Int64
    /// When the open claim's lease ends; 0 where none is open.
    public var claimedUntil: Int64

    /// Looked at no more until something brings it forward.
    public static let never = Int64.max

    public init(
        dueAt: Int64,
        lastWakeAt: Int64 = 0,
        previousWakeAt: Int64 = 0,
        unanswered: Int = 0,
        struckAt: Int64 = 0,
        claim: Int64 = 0,
        claimedUntil: Int64 = 0
    ) {
        self.dueAt = dueAt
        self.lastWakeAt = lastWakeAt
        self.previousWakeAt = previousWakeAt
        self.unanswered = unanswered
        self.struckAt = struckAt
        self.claim = claim
        self.claimedUntil = claimedUntil
    }

    public var isClaimed: Bool { claimedUntil != 0 }

    /// Opens a claim. Until it is concluded or settled the row says that the user was woken now, which is what keeps
    /// everybody else away, whatever becomes of the claimer.
    public mutating func open(at now: Instant, leaseSeconds: Int) {
        previousWakeAt = lastWakeAt
        lastWakeAt = now.microseconds
        claim = claim.advancedSaturating(by: 1)
        claimedUntil = now.advanced(bySeconds: leaseSeconds).microseconds
        dueAt = claimedUntil
    }

    /// The claimer is gone or late: whether it sent anything is unknown, so the wake counts for the spacing and not as
    /// unanswered. The claim's number is spent, so that what the late one writes is refused.
    public mutating func settle(by policy: WakePolicy) {
        claim = claim.advancedSaturating(by: 1)
        claimedUntil = 0
        dueAt = policy.due(afterWake: lastWakeAt, unanswered: unanswered)
    }

    /// A push of a phone: whatever was sent before it is answered.
    ///
    /// - Parameters:
    ///   - pushedAt: when it was received.
    ///   - struckSince: accepted wakes that were claimed later than it, as it may be applied late: rarely any.
    public mutating func heal(pushedAt: Int64, struckSince: Int) {
        unanswered = struckSince
        dueAt = min(dueAt, WakeRule.due(afterPush: Instant(microseconds: pushedAt)).microseconds)
    }

    /// How a claim ended.
    public enum Conclusion: Hashable, Sendable {
        /// Accepted by the push server; answered if a push came faster than this.
        case accepted(isAnswered: Bool)
        /// May have been sent: counts for the spacing, not as unanswered.
        case unknown
        /// Certainly not processed, and not the user's fault: as if there had been no claim, to be looked at then.
        case notSpent(retryAt: Instant)
    }

    /// Concludes the open claim.
    ///
    /// - Parameters:
    ///   - conclusion: how it ended.
    ///   - number: the claim's fencing number.
    ///   - wakeAt: when it was claimed.
    ///   - policy: the spacings.
    /// - Returns: false where it is not the open claim, or the lease was settled by others: then nothing has changed.
    public mutating func conclude(
        _ conclusion: Conclusion,
        claim number: Int64,
        wakeAt: Int64,
        by policy: WakePolicy
    ) -> Bool {
        guard isClaimed, claim == number, lastWakeAt == wakeAt else { return false }
        claimedUntil = 0
        switch conclusion {
        case .accepted(let isAnswered):
            if !isAnswered {
                unanswered = min(unanswered + 1, Int(Int16.max))
                struckAt = lastWakeAt
            }
            // Looked at behind the short spacing however many are unanswered: by then it is known whether the answer
            // could get in, and whoever is not forgiven is moved on to the long one.
            dueAt = policy.due(afterWake: lastWakeAt, unanswered: 0)
        case .unknown:
            dueAt = policy.due(afterWake: lastWakeAt, unanswered: unanswered)
        case .notSpent(let retryAt):
            lastWakeAt = previousWakeAt
            dueAt = retryAt.microseconds
        }
        return true
    }
}

extension WakePolicy {
    func due(afterWake wakeAt: Int64, unanswered: Int) -> Int64 {
        Instant(microseconds: wakeAt).advanced(bySeconds: spacing(unanswered: unanswered)).microseconds
    }
}

import WakeRules

/// What a worker could get wrong. With each of them the second model has to find a rule broken, else its checks check
/// nothing.
public enum Mistake: CaseIterable, Sendable {
    case shortSpacing
    case doesNotCountStrikes
    /// An answer neither forgives strikes nor brings the row forward.
    case doesNotHeal
    /// Strikes count although their answers could not get in.
    case doesNotForgive
    /// Who gets another token is not looked at.
    case doesNotBringForward
    /// Every fiftieth user is lost from the index.
    case losesUsers
    case ignoresLag
    case ignoresDoor
    /// A clock that jumps is decided by at once, and nobody writes the jump down.
    case ignoresClock
    /// What is not spent is not tried again for a spacing.
    case doesNotRetry
    /// A token that was called dead is sent to all the same.
    case keepsDeadTokens

    /// The rule that is broken by it.
    public var rule: String {
        switch self {
        case .shortSpacing, .ignoresClock: "never twice in the spacing"
        case .doesNotCountStrikes: "a day after three unanswered"
        case .doesNotHeal, .doesNotForgive, .doesNotBringForward, .losesUsers, .doesNotRetry: "nobody is starved"
        case .keepsDeadTokens: "nobody is woken without a token"
        case .ignoresLag: "nobody is woken while we lag"
        case .ignoresDoor: "nobody is woken while the door is shut"
        }
    }
}

extension WakeSimulation {
    /// The policy that the workers go by.
    var policy: WakePolicy {
        var policy = settings.policy
        if settings.mistake == .shortSpacing { policy.spacingSeconds -= 600 }
        return policy
    }
}

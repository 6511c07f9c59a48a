internal import Domain
internal import Push
internal import Storage
internal import WakeRules

/// The outcomes of a claim's pushes, one for each token, and what they come to together. Pure.
struct WakeTally {
    let claim: WakeClaim
    private var left: Int
    private var outcomes: [(token: WakeToken, outcome: PushOutcome)] = []

    init(_ claim: WakeClaim) {
        self.claim = claim
        left = claim.tokens.count
    }

    /// Takes one token's outcome. Returns whether it was the last one.
    mutating func take(_ outcome: PushOutcome, of token: WakeToken) -> Bool {
        outcomes.append((token, outcome))
        left -= 1
        return left <= 0
    }

    /// One phone that was reached is a wake; else one that may have been; else it depends on why.
    func end(now: Instant) -> WakeEnd {
        let all = outcomes.map(\.outcome)
        if all.contains(.accepted) { return WakeEnd(claim: claim, kind: .accepted, outcome: "accepted") }
        if all.contains(.unknown) { return WakeEnd(claim: claim, kind: .unknown, outcome: "unknown") }
        if all.contains(.waitsForSpacing) {
            return WakeEnd(claim: claim, kind: .waits, outcome: PushOutcome.waitsForSpacing.code)
        }
        // A token that was registered after the server had called it dead stays live, and would be tried at once again.
        if let kept = outcomes.first(where: { $0.token.staysLive(after: $0.outcome) }) {
            return WakeEnd(claim: claim, kind: .waits, outcome: kept.outcome.code)
        }
        // The one that may be tried again soonest; what is dead says nothing while another one is left.
        let alive = all.filter { !$0.isDead }
        let next = (alive.isEmpty ? all : alive).map { (outcome: $0, seconds: Self.retrySeconds($0, now)) }.min {
            $0.seconds < $1.seconds
        }
        let retryAt = now.advanced(bySeconds: next?.seconds ?? 0)
        return WakeEnd(
            claim: claim,
            kind: .notSpent(retryAt: retryAt.microseconds),
            outcome: next?.outcome.code ?? "no_token"
        )
    }

    /// When somebody whose push was not processed is looked at again.
    private static func retrySeconds(_ outcome: PushOutcome, _ now: Instant) -> Int {
        switch outcome {
        case .accepted, .unknown, .waitsForSpacing: WakeRule.spacingSeconds
        // The token is gone: another one may live, or the user is left alone.
        case .deactivate: 0
        // Whose fault it is will be known by then.
        case .held: WakeRule.spacingSeconds
        case .refused(let retryAfter): max(60, min(Int(retryAfter?.components.seconds ?? 900), WakeRule.spacingSeconds))
        case .failed: 900
        case .notSent(let cause):
            switch cause {
            case .leaseEnded, .shuttingDown: 0
            case .stopped: 600
            case .credentialPaused(let until):
                max(1, Int(clamping: now.seconds(until: until)))
            case .noCredential: 300
            case .malformedToken: 0
            case .notConfigured: 3600
            }
        }
    }

    /// Tokens that the push server calls dead, with the time up to which their registrations are.
    func dead(now: Instant) -> [(token: WakeToken, asOf: Instant)] {
        outcomes.compactMap { token, outcome in
            switch outcome {
            case .deactivate(_, let asOf): (token, asOf)
            // It can't be sent to, whatever the server thinks of it.
            case .notSent(.malformedToken): (token, now)
            default: nil
            }
        }
    }
}

extension PushOutcome {
    /// The token will not be sent to again.
    fileprivate var isDead: Bool {
        switch self {
        case .deactivate, .notSent(.malformedToken): true
        default: false
        }
    }
}

extension WakeToken {
    /// The server's answer is about an earlier registration.
    fileprivate func staysLive(after outcome: PushOutcome) -> Bool {
        guard case .deactivate(_, let asOf) = outcome else { return false }
        return registered.instant > asOf
    }
}

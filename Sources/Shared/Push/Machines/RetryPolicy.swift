import ServiceRuntime

/// What was tried for one request.
struct Attempts: Hashable, Sendable {
    /// Times that the server refused it (5xx).
    var refusals = 0
    /// Times that it provably was not processed: the connection failed before.
    var losses = 0
    /// Times that the credential was too old for it.
    var renewals = 0
    /// Times that the connection had been idle for too long.
    var idles = 0
}

/// When a request is tried again. A request that may have been processed never is.
struct RetryPolicy: Hashable, Sendable {
    enum Next: Hashable, Sendable {
        case again(after: Duration)
        /// No more tries; it was not processed.
        case end(retryAfter: Duration?)
    }

    /// Of 5xx.
    static let mostRefusals = 3
    /// Further tries after a connection failed.
    static let mostLosses = 2
    /// A longer wait is the caller's matter: the lease would not outlive it.
    var longestWait: Duration = .seconds(30)
    var backoff: Backoff

    static let apns = RetryPolicy(backoff: Backoff(base: .seconds(1), cap: .seconds(30)))
    static let fcm = RetryPolicy(backoff: Backoff(base: .seconds(10), cap: .seconds(600)))

    func afterRefusal(
        _ attempts: inout Attempts,
        retryAfter: Duration?,
        using generator: inout some RandomNumberGenerator
    ) -> Next {
        attempts.refusals += 1
        // Never sooner than the server asks, never all at the same time.
        let spread = backoff.delay(attempt: attempts.refusals, using: &generator)
        let wait = retryAfter.map { $0 + min(spread, .seconds(1)) } ?? spread
        guard attempts.refusals < Self.mostRefusals, wait <= longestWait else { return .end(retryAfter: wait) }
        return .again(after: wait)
    }

    func afterLoss(_ attempts: inout Attempts) -> Next {
        attempts.losses += 1
        return attempts.losses <= Self.mostLosses ? .again(after: .zero) : .end(retryAfter: nil)
    }

    func afterIdle(_ attempts: inout Attempts) -> Next {
        attempts.idles += 1
        return attempts.idles <= 1 ? .again(after: .zero) : .end(retryAfter: nil)
    }

    /// False: it was renewed for this request already.
    func mayRenew(_ attempts: inout Attempts) -> Bool {
        attempts.renewals += 1
        return attempts.renewals <= 1
    }
}

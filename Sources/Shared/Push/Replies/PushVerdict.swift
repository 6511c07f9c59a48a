import Domain

/// What one reply of a push server means, whatever was tried before.
enum PushVerdict: Hashable, Sendable {
    case accepted
    /// The token is dead to registrations older than that; nil: than the send.
    case dead(PushReason, asOf: Instant?)
    /// The token or our environment or topic is wrong: behind the breaker.
    case suspect(PushReason)
    /// This token waits for its next spacing.
    case enoughForNow
    /// The credential's time is over, the server says.
    case staleCredential
    /// Too many provider tokens: the credential pauses.
    case tooManyCredentials
    /// Not processed; to be tried again later.
    case refused(reconnects: Bool)
    /// The connection was idle for too long: once more, on a fresh one.
    case idle
    /// Our mistake: no retry, nothing is pruned, nothing more is sent to that topic or lane.
    case stop(PushAlarm.Code, isOfTopic: Bool)
    /// No status that HTTP knows: it may have been processed.
    case unclear
}

import Domain

/// What requests are authorized with. Never printed: it holds a token.
final class Credential: Sendable, CustomStringConvertible {
    /// The header's value.
    let authorization: String
    let issuedAt: Instant
    /// Greater for a newer one.
    let generation: Int

    init(token: String, issuedAt: Instant, generation: Int) {
        authorization = "bearer \(token)"
        self.issuedAt = issuedAt
        self.generation = generation
    }

    var description: String { "***" }
}

/// What a lane has to send with.
enum CredentialState: Sendable {
    /// Being fetched.
    case pending
    case ready(Credential)
    case paused(until: Instant)
    case unavailable(PushAlarm.Code)
    case notConfigured
}

/// Which tokens are accepted.
public struct TokenPolicy: Sendable {
    /// Secrets of HS256, for who has no `KeyRing`; more than one while they are rotated. Never printed.
    public var hmacKeys: [[UInt8]]
    /// The claim `iss` must be this; nil takes any.
    public var issuer: String?
    /// The claim `aud` must be or contain this; nil takes any.
    public var audience: String?
    /// How far clocks may be apart, for `exp` and `nbf`.
    public var leewaySeconds: Int

    public init(hmacKeys: [[UInt8]] = [], issuer: String? = nil, audience: String? = nil, leewaySeconds: Int = 30) {
        self.hmacKeys = hmacKeys
        self.issuer = issuer
        self.audience = audience
        self.leewaySeconds = leewaySeconds
    }

    /// Why tokens can't be checked or made.
    public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        public let description: String

        init(_ failure: KeyFailure) { description = failure.description }
        init(_ description: String) { self.description = description }
    }
}

extension TokenPolicy: CustomStringConvertible, CustomDebugStringConvertible {
    public var description: String { "TokenPolicy(hmacKeys: ***)" }
    public var debugDescription: String { description }
}

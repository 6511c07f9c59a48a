/// Which tokens are accepted.
public struct TokenPolicy: Sendable {
    /// Keys of HS256; more than one while they are rotated. Never printed.
    public var hmacKeys: [[UInt8]]
    /// The claim `iss` must be this; nil takes any.
    public var issuer: String?
    /// The claim `aud` must be or contain this; nil takes any.
    public var audience: String?
    /// How far clocks may be apart, for `exp` and `nbf`.
    public var leewaySeconds: Int

    public init(hmacKeys: [[UInt8]], issuer: String? = nil, audience: String? = nil, leewaySeconds: Int = 30) {
        self.hmacKeys = hmacKeys
        self.issuer = issuer
        self.audience = audience
        self.leewaySeconds = leewaySeconds
    }

    /// The shortest key that HS256 is safe with (RFC 7518).
    public static let shortestKeyBytes = 32

    /// Why tokens can't be checked with this policy.
    public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        public let description: String
    }

    func makeKeys() throws(Failure) -> [HMACKey] {
        guard !hmacKeys.isEmpty else { throw Failure(description: "There is no key for tokens: configure one.") }
        var keys: [HMACKey] = []
        for bytes in hmacKeys {
            guard bytes.count >= Self.shortestKeyBytes else {
                throw Failure(description: "The key for tokens is too short: use at least 32 random bytes.")
            }
            guard let key = HMACKey(bytes) else {
                throw Failure(description: "OpenSSL offers no HMAC-SHA256: check the installation of libssl3.")
            }
            keys.append(key)
        }
        return keys
    }
}

extension TokenPolicy: CustomStringConvertible, CustomDebugStringConvertible {
    public var description: String { "TokenPolicy(hmacKeys: ***)" }
    public var debugDescription: String { description }
}

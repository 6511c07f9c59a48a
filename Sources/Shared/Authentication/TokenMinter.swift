public import Domain
import JSON

/// Makes tokens that `TokenVerifier` accepts: for the operator's tools, for connectors, and for tests.
///
/// Production has an identity server of its own; it needs the same key and these claims.
public struct TokenMinter {
    private let key: HMACKey
    private let issuer: String?
    private let audience: String?

    /// Signs with the policy's first key, for its issuer and audience.
    public init(_ policy: TokenPolicy) throws(TokenPolicy.Failure) {
        let keys = try policy.makeKeys()
        key = keys[0]
        issuer = policy.issuer
        audience = policy.audience
    }

    /// Makes a token.
    ///
    /// - Parameters:
    ///   - subject: the user, or any name that stands for one.
    ///   - role: what the bearer may do.
    ///   - timeZone: the user's zone, an IANA name.
    ///   - platform: the kind of phone.
    ///   - now: when it starts to hold.
    ///   - seconds: for how long.
    /// - Returns: the token's text.
    /// - Throws: when OpenSSL fails.
    public func mint(
        subject: String,
        role: Role = .user,
        timeZone: String? = nil,
        platform: Platform? = nil,
        now: Instant,
        validFor seconds: Int
    ) throws(TokenPolicy.Failure) -> String {
        var claims = JSONWriter()
        claims.beginObject()
        claims.key("sub")
        claims.string(subject)
        if let issuer {
            claims.key("iss")
            claims.string(issuer)
        }
        if let audience {
            claims.key("aud")
            claims.string(audience)
        }
        claims.key("iat")
        claims.integer(now.microseconds / 1_000_000)
        claims.key("exp")
        claims.integer(now.advanced(bySeconds: seconds).microseconds / 1_000_000)
        if role != .user {
            claims.key("role")
            claims.string(role.rawValue)
        }
        if let timeZone {
            claims.key("time_zone")
            claims.string(timeZone)
        }
        if let platform {
            claims.key("platform")
            claims.string(platform.rawValue)
        }
        claims.endObject()
        return try sign(header: #"{"alg":"HS256","typ":"JWT"}"#, claims: claims.bytes)
    }

    /// Signs a header and claims as they are, right or wrong: tests make bad tokens with it.
    package func sign(header: String, claims: [UInt8]) throws(TokenPolicy.Failure) -> String {
        var token = Base64URL.encode(Array(header.utf8))
        token.append(UInt8(ascii: "."))
        token.append(contentsOf: Base64URL.encode(claims))
        guard let code = token.withUnsafeBytes({ key.code(of: $0) }) else {
            throw TokenPolicy.Failure(description: "OpenSSL could not sign: check the installation of libssl3.")
        }
        token.append(UInt8(ascii: "."))
        token.append(contentsOf: Base64URL.encode((0..<32).map { code[$0] }))
        return String(decoding: token, as: UTF8.self)
    }
}

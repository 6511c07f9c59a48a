public import Domain
import JSON

/// Makes tokens that `TokenVerifier` accepts: for the operator's tools, for connectors, and for tests.
///
/// Production has an identity server of its own; it needs the same key and these claims.
public struct TokenMinter {
    private enum Key {
        case secret(HMACKey)
        case privateKey(PrivateKey)
    }

    private let key: Key
    private let keyID: String?
    private let issuer: String?
    private let audience: String?

    /// Signs with the policy's first secret (HS256), for its issuer and audience.
    public init(_ policy: TokenPolicy) throws(TokenPolicy.Failure) {
        do throws(KeyFailure) {
            _ = try KeySet(secrets: policy.hmacKeys)
        } catch {
            throw TokenPolicy.Failure(error)
        }
        guard let first = policy.hmacKeys.first, let key = HMACKey(first) else {
            throw TokenPolicy.Failure(KeyFailure(.library))
        }
        self.key = .secret(key)
        keyID = nil
        issuer = policy.issuer
        audience = policy.audience
    }

    /// Signs with a private key in PEM: RS256 with RSA, ES256 with P-256.
    ///
    /// - Parameters:
    ///   - privateKey: the PEM text, without a password.
    ///   - keyID: the header's `kid`; nil leaves it out.
    ///   - policy: for its issuer and audience.
    /// - Throws: when it is no such key.
    public init(privateKey: [UInt8], keyID: String? = nil, _ policy: TokenPolicy) throws(TokenPolicy.Failure) {
        do throws(KeyFailure) {
            key = .privateKey(try PrivateKey(pem: privateKey))
        } catch {
            throw TokenPolicy.Failure(error)
        }
        self.keyID = keyID
        issuer = policy.issuer
        audience = policy.audience
    }

    public var algorithm: TokenAlgorithm {
        switch key {
        case .secret: .hs256
        case .privateKey(let key): key.algorithm
        }
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
        return try sign(header: header, claims: claims.bytes)
    }

    private var header: String {
        var header = JSONWriter()
        header.beginObject()
        header.key("alg")
        header.string(algorithm.rawValue)
        header.key("typ")
        header.string("JWT" as StaticString)
        if let keyID {
            header.key("kid")
            header.string(keyID)
        }
        header.endObject()
        return String(decoding: header.bytes, as: UTF8.self)
    }

    /// Signs a header and claims as they are, right or wrong: tests make bad tokens with it.
    package func sign(header: String, claims: [UInt8]) throws(TokenPolicy.Failure) -> String {
        guard let token = CompactJWT.make(header: Array(header.utf8), claims: claims, sign: signature) else {
            throw TokenPolicy.Failure(KeyFailure(.library))
        }
        return String(decoding: token, as: UTF8.self)
    }

    private func signature(of message: [UInt8]) -> [UInt8]? {
        switch key {
        case .secret(let key): message.withUnsafeBytes { key.code(of: $0) }.map { code in (0..<32).map { code[$0] } }
        case .privateKey(let key): key.signature(of: message)
        }
    }
}

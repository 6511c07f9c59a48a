/// Signs compact JWTs with a private key: ES256 with P-256, RS256 with RSA. Belongs to one thread.
public final class JWTSigner {
    private let key: PrivateKey

    /// - Parameter privateKey: PEM text without a password.
    /// - Throws: when it is no such key.
    public init(privateKey: [UInt8]) throws(KeyFailure) {
        key = try PrivateKey(pem: privateKey)
    }

    public var algorithm: TokenAlgorithm { key.algorithm }

    /// Names the key, together with what else its tokens depend on, without telling anything of it: 43 characters of a
    /// digest of both. Nil if OpenSSL fails.
    public func fingerprint(with other: String) -> String? {
        guard let der = key.publicKey, let digest = SHA256.digest(of: Array(other.utf8) + [0] + der) else { return nil }
        let text = Base64URL.encode((0..<32).map { digest[$0] })
        return String(decoding: text, as: UTF8.self)
    }

    /// The token of a header and claims, both JSON.
    ///
    /// - Throws: when OpenSSL fails.
    public func sign(header: [UInt8], claims: [UInt8]) throws(KeyFailure) -> [UInt8] {
        guard let token = CompactJWT.make(header: header, claims: claims, sign: { key.signature(of: $0) }) else {
            throw KeyFailure(.library)
        }
        return token
    }
}

/// Header, claims and signature in base64url, with dots between them.
enum CompactJWT {
    static func make(header: [UInt8], claims: [UInt8], sign: ([UInt8]) -> [UInt8]?) -> [UInt8]? {
        var token = Base64URL.encode(header)
        token.append(UInt8(ascii: "."))
        token.append(contentsOf: Base64URL.encode(claims))
        guard let signature = sign(token) else { return nil }
        token.append(UInt8(ascii: "."))
        token.append(contentsOf: Base64URL.encode(signature))
        return token
    }
}

/// Signs compact JWTs with a private key: ES256 with P-256, RS256 with RSA. Belongs to one thread.
public final class JWTSigner {
    private let key: PrivateKey

    /// - Parameter privateKey: PEM text without a password.
    /// - Throws: when it is no such key.
    public init(privateKey: [UInt8]) throws(KeyFailure) {
        key = try PrivateKey(pem: privateKey)
    }

    public var algorithm: TokenAlgorithm { key.algorithm }

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

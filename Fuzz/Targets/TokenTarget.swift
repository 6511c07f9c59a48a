import Domain

@testable import Authentication

/// A token: as it is, as an `Authorization` header, and signed, so that its claims are reached. Keys of every algorithm
/// are there, and the corpus has tokens that they have signed.
final class TokenTarget: FuzzTarget {
    private let verifier: TokenVerifier
    private let key: HMACKey

    init() throws {
        let secret = [UInt8](repeating: 7, count: 32)
        let keys = KeySet(joining: [
            try KeySet(secrets: [secret]),
            try KeySet(pem: Array((FuzzKeys.rsaPublic + "\n" + FuzzKeys.ecPublic).utf8)),
            try KeySet(jwks: FuzzKeys.jwks(FuzzKeys.ecKey(x: FuzzKeys.ecX, y: FuzzKeys.ecY, kid: "k1"))),
        ])
        let policy = TokenPolicy(issuer: "issuer", audience: "audience")
        verifier = try TokenVerifier(policy, keys: KeyRing(keys), remembering: 64)
        guard let key = HMACKey(secret) else { throw FuzzFinding(description: "the target has no key") }
        self.key = key
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        let now = FuzzSamples.now
        attempt { () throws(AuthenticationError) in _ = try verifier.verify(token: input, now: now) }
        attempt { () throws(AuthenticationError) in _ = try verifier.verify(authorization: input, now: now) }
        sign(input)
    }

    /// Takes the input for the claims of a well signed token.
    private func sign(_ input: UnsafeRawBufferPointer) {
        var token = Array("eyJhbGciOiJIUzI1NiJ9.".utf8) + Base64URL.encode(input)
        guard let code = token.withUnsafeBytes({ key.code(of: $0) }) else { return }
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(code.indices.map { code[$0] })
        token.withUnsafeBytes { token in
            attempt { () throws(AuthenticationError) in _ = try verifier.verify(token: token, now: FuzzSamples.now) }
        }
    }

    private func attempt(_ body: () throws(AuthenticationError) -> Void) {
        do throws(AuthenticationError) { try body() } catch { _ = error.description }
    }
}

/// Public keys for the tokens of the corpus.
enum FuzzKeys {
    static let rsaPublic = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAqmWWkRXguDCsw5xVSztC
        PlnRaMKg5s5eqFDZNFDTHEqjEhM73nb0NschkR75jllkCiRO/b+G2tvFm2DZWu9h
        OHzMjTU+RZQAEs+iF9v/m3A1HsSA4ErHgyzat6POJTNzZkqfNt9MAIDomi7bie6C
        LBMX+wcuzJU+sVdLI9WJNkYcwsz7f3MdlP7jv1Mn3X5W0uf/3/+mh16WRS9D3TgW
        qs5OlTmoqlJeIx0vyMPmSMHGbwdM4N86uOxzsOgURA90+PnlTt2tNEmPplPT4azx
        s9kga+QP4Hnj8bmyBb82T37YdsYyWg+ACW55BLW8RkuQ7huYG+4F/K3QpcFqAxUh
        sQIDAQAB
        -----END PUBLIC KEY-----
        """
    static let ecPublic = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETH5GgHNKhiDJQvxeQf0iY+SbH2X6
        e6qBgeOv6EJPV7UW71cSUDA0ilXAkHGVkVtq+31x30Pqq10t0V+trQIjDg==
        -----END PUBLIC KEY-----
        """
    static let ecX = "gz2vKMpvIPsOmuRpX1UwZ6m_cVeStsi73wrgxNlE_HQ"
    static let ecY = "aN_tSXNrAMoHRcFXvoECbpU7BVc6V4ZviZl5NLAUVE4"

    static func rsaKey(modulus: String) -> String { #"{"kty":"RSA","n":"\#(modulus)","e":"AQAB"}"# }

    static func ecKey(x: String, y: String, kid: String? = nil) -> String {
        let name = kid.map { #","kid":"\#($0)""# } ?? ""
        return #"{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"\#(name)}"#
    }

    static func jwks(_ key: String) -> [UInt8] { Array(#"{"keys":[\#(key)]}"#.utf8) }
}

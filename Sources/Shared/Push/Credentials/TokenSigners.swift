import Authentication
import Domain
import JSON

/// Makes provider tokens for APNs: ES256, with the claims that Apple wants and no others. One thread's.
final class ProviderTokenSigner {
    private let signer: JWTSigner
    private let keyID: String
    private let teamID: String
    /// Of the team and the public key: tokens of another one are of no use here.
    let fingerprint: String?

    init(_ apns: PushConfiguration.APNs) throws(PushConfigurationError) {
        for name in [apns.keyID, apns.teamID] {
            guard name.utf8.count == 10,
                name.utf8.allSatisfy({
                    (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0)
                })
            else { throw PushConfigurationError(.apnsNames) }
        }
        let topics = apns.topics.union([apns.defaultTopic])
        guard topics.allSatisfy(RequestText.isTopic) else { throw PushConfigurationError(.apnsNames) }
        guard let signer = try? JWTSigner(privateKey: apns.privateKey), signer.algorithm == .es256 else {
            throw PushConfigurationError(.apnsKey)
        }
        self.signer = signer
        keyID = apns.keyID
        teamID = apns.teamID
        fingerprint = signer.fingerprint(with: apns.teamID)
    }

    /// Nil if OpenSSL fails.
    func token(now: Instant) -> ProviderToken? {
        let seconds = now.microseconds / 1_000_000
        var header = JSONWriter()
        header.beginObject()
        header.key("alg")
        header.string("ES256" as StaticString)
        header.key("kid")
        header.string(keyID)
        header.endObject()
        var claims = JSONWriter()
        claims.beginObject()
        claims.key("iss")
        claims.string(teamID)
        claims.key("iat")
        claims.integer(seconds)
        claims.endObject()
        guard let jwt = try? signer.sign(header: header.bytes, claims: claims.bytes) else { return nil }
        return ProviderToken(
            jwt: String(decoding: jwt, as: UTF8.self),
            issuedAt: Instant(microseconds: seconds * 1_000_000),
            signer: fingerprint
        )
    }
}

/// Makes the assertion that Google gives an access token for: RS256. One thread's.
final class AssertionSigner {
    private let signer: JWTSigner
    private let account: ServiceAccount

    init(_ account: ServiceAccount) throws(PushConfigurationError) {
        guard let signer = try? JWTSigner(privateKey: account.privateKey), signer.algorithm == .rs256 else {
            throw PushConfigurationError(.serviceAccountKey)
        }
        self.signer = signer
        self.account = account
    }

    /// Nil if OpenSSL fails.
    func form(now: Instant) -> String? {
        var header = JSONWriter()
        header.beginObject()
        header.key("alg")
        header.string("RS256" as StaticString)
        header.key("typ")
        header.string("JWT" as StaticString)
        if let keyID = account.privateKeyID {
            header.key("kid")
            header.string(keyID)
        }
        header.endObject()
        guard let assertion = try? signer.sign(header: header.bytes, claims: account.claims(now: now)) else {
            return nil
        }
        return "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
            + String(decoding: assertion, as: UTF8.self)
    }
}

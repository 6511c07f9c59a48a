public import Domain
import JSON

/// Verifies bearer tokens: JWTs (RFC 7519) signed with HS256. One verifier belongs to one thread.
///
/// A verified token is remembered, so that the next request with it costs a hash and a comparison.
public final class TokenVerifier {
    /// A longer token is malformed.
    public static let longestToken = 4096

    private let policy: TokenPolicy
    private let keys: [HMACKey]
    private let parser: JSONParser
    private var cache: TokenCache
    /// The encoded header of the last good token: issuers write the same one into all of theirs.
    private var knownHeader: [UInt8] = []
    private var scratch: [UInt8] = []

    /// - Parameters:
    ///   - policy: which tokens are accepted.
    ///   - remembering: how many verified tokens are kept.
    /// - Throws: when there is no usable key.
    public init(_ policy: TokenPolicy, remembering: Int = 4096) throws(TokenPolicy.Failure) {
        self.policy = policy
        keys = try policy.makeKeys()
        do {
            parser = try JSONParser(maximumDepth: 8)
        } catch {
            throw TokenPolicy.Failure(description: error.description)
        }
        cache = TokenCache(capacity: remembering)
        scratch.reserveCapacity(Self.longestToken + JSONParser.padding)
    }

    /// Checks the value of an `Authorization` header, or nil if there was none.
    public func verify(authorization: UnsafeRawBufferPointer?, now: Instant) throws(AuthenticationError) -> Identity {
        guard let authorization, !authorization.isEmpty else { throw AuthenticationError(.missing) }
        guard let token = Self.bearerToken(authorization) else { throw AuthenticationError(.malformed) }
        return try verify(token: token, now: now)
    }

    /// Checks a token's bytes.
    public func verify(token: UnsafeRawBufferPointer, now: Instant) throws(AuthenticationError) -> Identity {
        guard !token.isEmpty, token.count <= Self.longestToken else { throw AuthenticationError(.malformed) }
        let hash = cache.hash(token)
        if let known = cache.find(token, hash: hash) {
            try check(known.validity, now: now)
            return known.identity
        }
        let text = UnsafeBufferPointer(
            start: token.baseAddress?.assumingMemoryBound(to: UInt8.self),
            count: token.count
        )
        guard let first = text.firstIndex(of: UInt8(ascii: ".")),
            let second = text[(first + 1)...].firstIndex(of: UInt8(ascii: ".")),
            !text[(second + 1)...].contains(UInt8(ascii: "."))
        else { throw AuthenticationError(.malformed) }
        try checkHeader(UnsafeBufferPointer(rebasing: text[..<first]))
        let payload = UnsafeBufferPointer(rebasing: text[(first + 1)..<second])
        let signature = try decodeSignature(UnsafeBufferPointer(rebasing: text[(second + 1)...]))
        let signed = UnsafeRawBufferPointer(rebasing: token[..<second])
        guard keys.contains(where: { $0.isCode(signature, of: signed) }) else {
            throw AuthenticationError(.badSignature)
        }
        let verified = try readClaims(payload)
        try check(verified.validity, now: now)
        cache.insert(token, hash: hash, verified)
        return verified.identity
    }

    /// The token behind `Bearer `, whose case does not matter; nil for another scheme.
    private static func bearerToken(_ header: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let scheme: StaticString = "bearer "
        guard header.count > 7 else { return nil }
        for index in 0..<7 {
            let byte = header[index]
            let lower = (65...90).contains(byte) ? byte + 32 : byte
            guard lower == scheme.utf8Start[index] else { return nil }
        }
        var start = 7
        while start < header.count, header[start] == UInt8(ascii: " ") { start += 1 }
        return UnsafeRawBufferPointer(rebasing: header[start...])
    }

    private func checkHeader(_ encoded: UnsafeBufferPointer<UInt8>) throws(AuthenticationError) {
        if !encoded.isEmpty, encoded.elementsEqual(knownHeader) { return }
        let header = try decodeObject(encoded)
        do {
            guard let algorithm = try header.member("alg")?.text else { throw AuthenticationError(.malformed) }
            // Extensions that must be understood are not (RFC 7515, 4.1.11).
            guard try header.member("crit") == nil else { throw AuthenticationError(.malformed) }
            guard algorithm.equals("HS256") else { throw AuthenticationError(.badSignature) }
        } catch let error as AuthenticationError {
            throw error
        } catch {
            throw AuthenticationError(.malformed)
        }
        knownHeader = Array(encoded)
    }

    private func decodeSignature(
        _ encoded: UnsafeBufferPointer<UInt8>
    ) throws(AuthenticationError) -> InlineArray<32, UInt8> {
        scratch.removeAll(keepingCapacity: true)
        guard encoded.count <= 1024, Base64URL.decode(encoded, into: &scratch) else {
            throw AuthenticationError(.malformed)
        }
        guard scratch.count == 32 else { throw AuthenticationError(.badSignature) }
        return InlineArray { scratch[$0] }
    }

    private func decodeObject(_ encoded: UnsafeBufferPointer<UInt8>) throws(AuthenticationError) -> JSONObject {
        scratch.removeAll(keepingCapacity: true)
        guard Base64URL.decode(encoded, into: &scratch) else { throw AuthenticationError(.malformed) }
        do {
            let root = try scratch.withUnsafeBytes { bytes throws(JSONError) in try parser.parse(copying: bytes) }
            guard let object = root.object else { throw AuthenticationError(.malformed) }
            return object
        } catch {
            throw AuthenticationError(.malformed)
        }
    }

    private func readClaims(_ payload: UnsafeBufferPointer<UInt8>) throws(AuthenticationError) -> VerifiedToken {
        let claims = try TokenClaims(decodeObject(payload))
        if let issuer = policy.issuer {
            guard let claim = claims.issuer?.text, claim.elementsEqual(issuer.utf8) else {
                throw AuthenticationError(.wrongIssuer)
            }
        }
        if let audience = policy.audience {
            guard claims.isMeant(for: audience) else { throw AuthenticationError(.wrongAudience) }
        }
        return VerifiedToken(identity: try claims.readIdentity(), validity: try claims.readValidity())
    }

    private func check(_ validity: TokenValidity, now: Instant) throws(AuthenticationError) {
        guard now < validity.expires.advanced(bySeconds: policy.leewaySeconds) else {
            throw AuthenticationError(.expired)
        }
        if let notBefore = validity.notBefore, now.advanced(bySeconds: policy.leewaySeconds) < notBefore {
            throw AuthenticationError(.notYetValid)
        }
    }
}

public import Domain
import JSON

/// Verifies bearer tokens: JWTs (RFC 7519) signed with HS256, RS256 or ES256. One verifier belongs to one thread.
///
/// A verified token is remembered, so that the next request with it costs a hash and a comparison, until it expires
/// or the ring's keys change.
public final class TokenVerifier {
    /// A longer token is malformed.
    public static let longestToken = 4096
    /// A token whose `kid` is longer is malformed.
    static let longestKeyID = 256

    private let policy: TokenPolicy
    private let ring: KeyRing
    private var keys: LoadedKeys
    private let parser: JSONParser
    private var cache: TokenCache
    private var knownHeader = Header()
    private var scratch: [UInt8] = []

    /// What a token's header says. The last one is kept: issuers write the same one into all of theirs.
    private struct Header {
        var encoded: [UInt8] = []
        var algorithm = TokenAlgorithm.hs256
        /// Which keys to try.
        var candidates: [Int] = []
        var isKeyKnown = true
    }

    /// - Parameters:
    ///   - policy: which tokens are accepted; its secrets are not looked at.
    ///   - keys: the keys, which may change.
    ///   - remembering: how many verified tokens are kept.
    /// - Throws: when memory is short.
    public init(_ policy: TokenPolicy, keys: KeyRing, remembering: Int = 4096) throws(TokenPolicy.Failure) {
        self.policy = policy
        ring = keys
        self.keys = LoadedKeys(keys)
        do {
            parser = try JSONParser(maximumDepth: 8)
        } catch {
            throw TokenPolicy.Failure(error.description)
        }
        cache = TokenCache(capacity: remembering)
        scratch.reserveCapacity(Self.longestToken + JSONParser.padding)
    }

    /// With the policy's secrets for keys.
    ///
    /// - Throws: when one of them can't be used, or there is none.
    public convenience init(_ policy: TokenPolicy, remembering: Int = 4096) throws(TokenPolicy.Failure) {
        let keys: KeySet
        do throws(KeyFailure) {
            keys = try KeySet(secrets: policy.hmacKeys)
        } catch {
            throw TokenPolicy.Failure(error)
        }
        try self.init(policy, keys: KeyRing(keys), remembering: remembering)
        guard self.keys.count == keys.keys.count else { throw TokenPolicy.Failure(KeyFailure(.library)) }
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
        if ring.generation != keys.generation { reload() }
        let hash = cache.hash(token)
        if let known = cache.find(token, hash: hash) {
            if hasExpired(known.validity, now) { cache.remove(hash: hash) }
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
        try readHeader(UnsafeBufferPointer(rebasing: text[..<first]))
        let payload = UnsafeBufferPointer(rebasing: text[(first + 1)..<second])
        let signed = UnsafeRawBufferPointer(rebasing: token[..<second])
        guard try isSigned(signed, UnsafeBufferPointer(rebasing: text[(second + 1)...])) else {
            // No answer waits for new keys: they are fetched while this token is refused.
            if !knownHeader.isKeyKnown { ring.keyIsUnknown() }
            throw AuthenticationError(.badSignature)
        }
        let verified = try readClaims(payload)
        try check(verified.validity, now: now)
        cache.insert(token, hash: hash, verified)
        return verified.identity
    }

    /// The token behind `Bearer `, whose case does not matter; nil for another scheme.
    private static func bearerToken(_ header: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard header.count > 7 else { return nil }
        // `bearer `, the bit that lower case differs by set in its letters: no other byte becomes one of them by it.
        let word = UInt64(littleEndian: header.loadUnaligned(as: UInt64.self))
        guard (word | 0x2020_2020_2020) & 0x00ff_ffff_ffff_ffff == 0x0020_7265_7261_6562 else { return nil }
        var start = 7
        while start < header.count, header[start] == UInt8(ascii: " ") { start += 1 }
        return UnsafeRawBufferPointer(rebasing: header[start...])
    }

    private func reload() {
        keys = LoadedKeys(ring)
        cache.removeAll()
        knownHeader = Header()
    }

    /// Leaves what it says in `knownHeader`.
    private func readHeader(_ encoded: UnsafeBufferPointer<UInt8>) throws(AuthenticationError) {
        if !encoded.isEmpty, encoded.elementsEqual(knownHeader.encoded) { return }
        let object = try decodeObject(encoded)
        do {
            guard let name = try object.member("alg")?.text else { throw AuthenticationError(.malformed) }
            // Extensions that must be understood are not (RFC 7515, 4.1.11).
            guard try object.member("crit") == nil else { throw AuthenticationError(.malformed) }
            let id = try object.member("kid")
            if let id {
                guard let text = id.text, text.count <= Self.longestKeyID else { throw AuthenticationError(.malformed) }
            }
            guard let algorithm = TokenAlgorithm(name: name) else { throw AuthenticationError(.badSignature) }
            let (candidates, isKnown) = keys.candidates(algorithm, id: id?.text)
            knownHeader = Header(
                encoded: Array(encoded),
                algorithm: algorithm,
                candidates: candidates,
                isKeyKnown: isKnown || algorithm == .hs256
            )
        } catch let error as AuthenticationError {
            throw error
        } catch {
            throw AuthenticationError(.malformed)
        }
    }

    private func isSigned(
        _ message: UnsafeRawBufferPointer,
        _ encoded: UnsafeBufferPointer<UInt8>
    ) throws(AuthenticationError) -> Bool {
        scratch.removeAll(keepingCapacity: true)
        // 8192 bits of the longest RSA key.
        guard encoded.count <= 1366, Base64URL.decode(encoded, into: &scratch) else {
            throw AuthenticationError(.malformed)
        }
        return scratch.withUnsafeBufferPointer {
            keys.isSigned(message, $0, knownHeader.algorithm, by: knownHeader.candidates)
        }
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
        guard !hasExpired(validity, now) else { throw AuthenticationError(.expired) }
        if let notBefore = validity.notBefore, now.advanced(bySeconds: policy.leewaySeconds) < notBefore {
            throw AuthenticationError(.notYetValid)
        }
    }

    private func hasExpired(_ validity: TokenValidity, _ now: Instant) -> Bool {
        now >= validity.expires.advanced(bySeconds: policy.leewaySeconds)
    }
}

extension TokenAlgorithm {
    /// Of a header's `alg`: case counts, and `none` is none of them.
    fileprivate init?(name: JSONText) {
        if name.equals("HS256") {
            self = .hs256
        } else if name.equals("RS256") {
            self = .rs256
        } else if name.equals("ES256") {
            self = .es256
        } else {
            return nil
        }
    }
}

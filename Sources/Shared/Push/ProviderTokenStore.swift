public import Domain
import Synchronization

/// A signed provider token. Never shown.
public struct ProviderToken: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The JWT, for storing and for the authorization header alone.
    public let jwt: String
    /// Its claim `iat`; whole seconds.
    public let issuedAt: Instant
    /// Names the team and the key that signed it; nil where that is not known.
    public let signer: String?

    public init(jwt: String, issuedAt: Instant, signer: String? = nil) {
        self.jwt = jwt
        self.issuedAt = issuedAt
        self.signer = signer
    }

    /// Whether another team or key has signed it than this one.
    func isSigned(byOtherThan fingerprint: String?) -> Bool {
        guard let signer, let fingerprint else { return false }
        return signer != fingerprint
    }

    public var description: String { "***" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// What all workers know of one signing key.
public struct ProviderCredential: Hashable, Sendable {
    public var token: ProviderToken?
    /// Nobody sends with this key until then.
    public var pausedUntil: Instant?

    public init(token: ProviderToken? = nil, pausedUntil: Instant? = nil) {
        self.token = token
        self.pausedUntil = pausedUntil
    }
}

/// Shares provider tokens between workers: Apple wants one token for each key, renewed at most every 20 minutes.
///
/// Called on a thread of the sender's own, one call at a time; may block for some seconds.
public protocol ProviderTokenStore: Sendable {
    /// What is stored for a key; empty if nothing is.
    func credential(keyID: String) throws -> ProviderCredential

    /// Compare and set: stores the token if the stored one is still the one issued at `previous` (nil: there is none),
    /// and returns what is stored afterwards, which is another worker's token where that was faster.
    func renew(keyID: String, from previous: Instant?, to token: ProviderToken) throws -> ProviderCredential

    /// Pauses a key for all workers; the later of two ends holds.
    func pause(keyID: String, until end: Instant) throws
}

/// For tests, and for tools that are alone.
public final class InMemoryProviderTokenStore: ProviderTokenStore {
    private let credentials = Mutex<[String: ProviderCredential]>([:])

    public init() {}

    public func credential(keyID: String) -> ProviderCredential {
        credentials.withLock { $0[keyID] ?? ProviderCredential() }
    }

    public func renew(keyID: String, from previous: Instant?, to token: ProviderToken) -> ProviderCredential {
        credentials.withLock { credentials in
            var credential = credentials[keyID] ?? ProviderCredential()
            if credential.token?.issuedAt == previous {
                credential.token = token
                credentials[keyID] = credential
            }
            return credential
        }
    }

    public func pause(keyID: String, until end: Instant) {
        credentials.withLock { credentials in
            var credential = credentials[keyID] ?? ProviderCredential()
            credential.pausedUntil = credential.pausedUntil.map { max($0, end) } ?? end
            credentials[keyID] = credential
        }
    }
}

/// The signatures that are accepted. The names are JWS's.
public enum TokenAlgorithm: String, Sendable, Hashable, CaseIterable {
    /// HMAC-SHA256 with a shared secret.
    case hs256 = "HS256"
    /// RSA PKCS #1 v1.5 with SHA-256.
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"
}

/// One key, which serves its one algorithm and no other.
struct VerificationKey: Sendable, Equatable {
    enum Material: Sendable {
        case secret([UInt8])
        case publicKey(PublicKey)
    }

    let material: Material
    /// The `kid` that tokens name it by; nil if it has none.
    let id: [UInt8]?

    /// A secret is for HS256 alone and a public key for its kind's algorithm alone: there is no way to confuse them.
    var algorithm: TokenAlgorithm {
        switch material {
        case .secret: .hs256
        case .publicKey(let key):
            switch key.kind {
            case .rsa: .rs256
            case .p256: .es256
            }
        }
    }

    static func == (left: VerificationKey, right: VerificationKey) -> Bool {
        guard left.id == right.id else { return false }
        return switch (left.material, right.material) {
        case (.secret(let left), .secret(let right)): left == right
        case (.publicKey(let left), .publicKey(let right)): left.encoded == right.encoded
        default: false
        }
    }
}

/// The keys that tokens are verified with. Never printed.
public struct KeySet: Sendable, Equatable {
    /// The shortest secret that HS256 is safe with (RFC 7518).
    public static let shortestSecretBytes = 32
    /// How many keys of one algorithm one source may give, and how many are tried for one token.
    public static let mostPerAlgorithm = 16

    private(set) var keys: [VerificationKey] = []

    /// No keys at all: every token is refused.
    public init() {}

    /// One source's keys.
    init(_ keys: [VerificationKey]) throws(KeyFailure) {
        guard !keys.isEmpty else { throw KeyFailure(.noKeys) }
        for key in keys where !self.keys.contains(key) { self.keys.append(key) }
        guard TokenAlgorithm.allCases.allSatisfy({ count(of: $0) <= Self.mostPerAlgorithm }) else {
            throw KeyFailure(.tooManyKeys)
        }
    }

    /// Shared secrets of HS256.
    public init(secrets: [[UInt8]]) throws(KeyFailure) {
        guard secrets.allSatisfy({ $0.count >= Self.shortestSecretBytes }) else { throw KeyFailure(.shortSecret) }
        try self.init(secrets.map { VerificationKey(material: .secret($0), id: nil) })
    }

    /// Public keys and certificates in PEM. They have no `kid`, so they are tried for every token of their algorithm
    /// whose `kid` no other key has.
    public init(pem: [UInt8]) throws(KeyFailure) {
        var keys: [VerificationKey] = []
        for key in try PEM.publicKeys(pem) { keys.append(VerificationKey(material: .publicKey(key), id: nil)) }
        try self.init(keys)
    }

    /// All keys of several sources.
    public init(joining sets: [KeySet]) {
        for key in sets.lazy.flatMap(\.keys) where !keys.contains(key) { keys.append(key) }
    }

    public var isEmpty: Bool { keys.isEmpty }

    public func count(of algorithm: TokenAlgorithm) -> Int {
        keys.count { $0.algorithm == algorithm }
    }
}

extension KeySet: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "KeySet(\(keys.count) keys)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

import JSON

/// A ring's keys, set up for use by one thread.
struct LoadedKeys {
    /// One of the two is there. No enum: leak checkers don't find what only a payload's tagged pointer holds.
    private struct Entry {
        let key: VerificationKey
        var secret: HMACKey?
        var publicKey: SignatureChecker?
    }

    let generation: UInt64
    private var entries: [Entry] = []
    private let digester: SHA256Digester?

    init(_ ring: KeyRing) {
        let current = ring.current()
        generation = current.generation
        digester = SHA256Digester()
        for key in current.keys.keys {
            // One that OpenSSL can't set up (no memory) is left out: its tokens are refused.
            switch key.material {
            case .secret(let bytes):
                if let checker = HMACKey(bytes) { entries.append(Entry(key: key, secret: checker)) }
            case .publicKey(let publicKey):
                if let checker = SignatureChecker(publicKey) {
                    entries.append(Entry(key: key, publicKey: checker))
                }
            }
        }
    }

    var count: Int { entries.count }

    /// The keys to try for a token: those of its algorithm that have its `kid`; if none has, those without one; all of
    /// the algorithm where the token has none. At most `KeySet.mostPerAlgorithm`.
    func candidates(_ algorithm: TokenAlgorithm, id: JSONText?) -> (indices: [Int], isKeyKnown: Bool) {
        let fitting = entries.indices.filter { entries[$0].key.algorithm == algorithm }
        guard let id else { return (Array(fitting.prefix(KeySet.mostPerAlgorithm)), true) }
        let named = fitting.filter { index in entries[index].key.id.map { id.elementsEqual($0) } ?? false }
        guard named.isEmpty else { return (Array(named.prefix(KeySet.mostPerAlgorithm)), true) }
        return (Array(fitting.filter { entries[$0].key.id == nil }.prefix(KeySet.mostPerAlgorithm)), false)
    }

    /// Whether one of the keys made the signature.
    func isSigned(
        _ message: UnsafeRawBufferPointer,
        _ signature: UnsafeBufferPointer<UInt8>,
        _ algorithm: TokenAlgorithm,
        by candidates: [Int]
    ) -> Bool {
        switch algorithm {
        case .hs256:
            guard signature.count == 32 else { return false }
            let code: InlineArray<32, UInt8> = InlineArray { signature[$0] }
            for index in candidates {
                if let key = entries[index].secret, key.isCode(code, of: message) { return true }
            }
        case .rs256, .es256:
            guard !candidates.isEmpty, let digest = digester?.digest(message) else { return false }
            for index in candidates {
                if let key = entries[index].publicKey, key.isSignature(signature, of: digest) {
                    return true
                }
            }
        }
        return false
    }
}

import Domain

/// The tokens verified last, by their bytes: a table of fixed size in which a newcomer replaces whoever has its slot.
struct TokenCache {
    private struct Entry {
        var hash: UInt64
        var token: [UInt8]
        var verified: VerifiedToken
    }

    private var entries: [Entry?]
    private let seed: UInt64

    init(capacity: Int) {
        var size = 1
        while size < capacity, size < 1 << 20 { size *= 2 }
        entries = Array(repeating: nil, count: size)
        // Nobody outside can know which tokens meet in a slot.
        seed = UInt64.random(in: .min ... .max) | 1
    }

    func hash(_ token: UnsafeRawBufferPointer) -> UInt64 {
        var hash = seed ^ UInt64(token.count)
        var index = 0
        while index + 8 <= token.count {
            hash = Self.mix(hash ^ token.loadUnaligned(fromByteOffset: index, as: UInt64.self), seed)
            index += 8
        }
        while index < token.count {
            hash = Self.mix(hash ^ UInt64(token[index]), seed)
            index += 1
        }
        return Self.mix(hash, seed)
    }

    /// The bytes are compared only where all 64 bits of the secret hash agree, so that time tells nothing of them.
    func find(_ token: UnsafeRawBufferPointer, hash: UInt64) -> VerifiedToken? {
        guard let entry = entries[slot(hash)], entry.hash == hash, entry.token.count == token.count else { return nil }
        let isSame = entry.token.withUnsafeBytes { Self.isEqual($0, token) }
        return isSame ? entry.verified : nil
    }

    /// Of the same length.
    private static func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index + 8 <= left.count {
            let words = (
                left.loadUnaligned(fromByteOffset: index, as: UInt64.self),
                right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            )
            guard words.0 == words.1 else { return false }
            index += 8
        }
        while index < left.count {
            guard left[index] == right[index] else { return false }
            index += 1
        }
        return true
    }

    mutating func insert(_ token: UnsafeRawBufferPointer, hash: UInt64, _ verified: VerifiedToken) {
        entries[slot(hash)] = Entry(hash: hash, token: Array(token), verified: verified)
    }

    private func slot(_ hash: UInt64) -> Int {
        Int(truncatingIfNeeded: hash) & (entries.count - 1)
    }

    private static func mix(_ word: UInt64, _ seed: UInt64) -> UInt64 {
        let product = word.multipliedFullWidth(by: 0x9e37_79b9_7f4a_7c15 ^ seed)
        return product.high ^ product.low
    }
}

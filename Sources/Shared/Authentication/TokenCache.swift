import Domain
import Glibc

/// The tokens verified last, by their bytes: a table of fixed size. A token may stand in any slot of its set, so that
/// few have to give way to each other; in a full set a newcomer replaces one of the four.
struct TokenCache {
    /// Slots of a set. Their hashes lie in one cache line.
    private static let ways = 4

    /// Zero for an empty slot.
    private var hashes: [UInt64]
    private var tokens: [[UInt8]]
    private var verified: [VerifiedToken?]
    private let seed: (UInt64, UInt64)

    init(capacity: Int) {
        var size = Self.ways
        while size < capacity, size < 1 << 20 { size *= 2 }
        hashes = Array(repeating: 0, count: size)
        tokens = Array(repeating: [], count: size)
        verified = Array(repeating: nil, count: size)
        // Nobody outside can know which tokens meet in a slot.
        seed = (UInt64.random(in: .min ... .max) | 1, UInt64.random(in: .min ... .max) | 1)
    }

    /// Never zero. Two lanes of 16 bytes a step, since a token has hundreds.
    func hash(_ token: UnsafeRawBufferPointer) -> UInt64 {
        var lanes = (seed.0 ^ UInt64(token.count), seed.1)
        var index = 0
        func word(_ offset: Int) -> UInt64 { token.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        while index + 32 <= token.count {
            lanes.0 = Self.mix(word(index) ^ seed.1, word(index + 8) ^ lanes.0)
            lanes.1 = Self.mix(word(index + 16) ^ seed.0, word(index + 24) ^ lanes.1)
            index += 32
        }
        while index + 8 <= token.count {
            lanes.0 = Self.mix(word(index) ^ seed.1, lanes.0)
            index += 8
        }
        while index < token.count {
            lanes.1 = Self.mix(UInt64(token[index]) ^ seed.0, lanes.1)
            index += 1
        }
        return max(1, Self.mix(lanes.0 ^ seed.0, lanes.1 ^ seed.1))
    }

    /// The bytes are compared only where all 64 bits of the secret hash agree, so that time tells nothing of them.
    func find(_ token: UnsafeRawBufferPointer, hash: UInt64) -> VerifiedToken? {
        guard let slot = slot(of: hash), let start = token.baseAddress else { return nil }
        let isSame = tokens[slot].withUnsafeBytes { known in
            guard known.count == token.count, let other = known.baseAddress else { return false }
            return memcmp(start, other, token.count) == 0
        }
        return isSame ? verified[slot] : nil
    }

    mutating func insert(_ token: UnsafeRawBufferPointer, hash: UInt64, _ verified: VerifiedToken) {
        let set = set(of: hash)
        let vacant = (set..<(set + Self.ways)).first { hashes[$0] == 0 }
        // Bits that chose neither the set nor anything else.
        let slot = slot(of: hash) ?? vacant ?? set + Int(truncatingIfNeeded: hash >> 60) % Self.ways
        hashes[slot] = hash
        tokens[slot] = Array(token)
        self.verified[slot] = verified
    }

    /// Empties the slot of an expired token.
    mutating func remove(hash: UInt64) {
        guard let slot = slot(of: hash) else { return }
        hashes[slot] = 0
        tokens[slot] = []
        verified[slot] = nil
    }

    /// Forgets all: they were verified with keys that may be withdrawn.
    mutating func removeAll() {
        self = TokenCache(capacity: hashes.count)
    }

    /// Where a set begins.
    private func set(of hash: UInt64) -> Int {
        Int(truncatingIfNeeded: hash) & (hashes.count - 1) & ~(Self.ways - 1)
    }

    private func slot(of hash: UInt64) -> Int? {
        let set = set(of: hash)
        for slot in set..<(set + Self.ways) where hashes[slot] == hash { return slot }
        return nil
    }

    @inline(__always)
    private static func mix(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }
}

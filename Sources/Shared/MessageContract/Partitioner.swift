public import Domain

/// The partitioner of the Java clients (`murmur2`), so that every client puts a user on the same partition.
public enum Partitioner {
    /// How many buckets accounts are spread over, whatever the number of partitions.
    public static let buckets = 4096

    /// Kafka's murmur2 with its seed.
    public static func murmur2(_ key: UnsafeRawBufferPointer) -> Int32 {
        let multiplier: UInt32 = 0x5bd1_e995
        var hash: UInt32 = 0x9747_b28c ^ UInt32(truncatingIfNeeded: key.count)
        var index = 0
        while index + 4 <= key.count {
            var word = UInt32(littleEndian: key.loadUnaligned(fromByteOffset: index, as: UInt32.self))
            word = word &* multiplier
            word ^= word >> 24
            word = word &* multiplier
            hash = hash &* multiplier
            hash ^= word
            index += 4
        }
        let rest = key.count - index
        if rest == 3 { hash ^= UInt32(key[index + 2]) << 16 }
        if rest >= 2 { hash ^= UInt32(key[index + 1]) << 8 }
        if rest >= 1 {
            hash ^= UInt32(key[index])
            hash = hash &* multiplier
        }
        hash ^= hash >> 13
        hash = hash &* multiplier
        hash ^= hash >> 15
        return Int32(bitPattern: hash)
    }

    /// The bucket an account keeps for ever.
    public static func bucket(of user: UserID) -> Int {
        positiveHash(of: user) % buckets
    }

    /// The bucket of whatever else is keyed by this.
    public static func bucket(ofKey key: [UInt8]) -> Int {
        positiveHash(ofKey: key) % buckets
    }

    /// The partition of a user's records.
    ///
    /// Their number is a power of two up to `buckets`; with another this is the Java client's partition all the same,
    /// but not a function of the bucket.
    public static func partition(of user: UserID, partitions: Int) -> Int {
        positiveHash(of: user) % max(1, partitions)
    }

    private static func positiveHash(of user: UserID) -> Int {
        var key: [UInt8] = []
        key.reserveCapacity(36)
        user.append(to: &key)
        return positiveHash(ofKey: key)
    }

    private static func positiveHash(ofKey key: [UInt8]) -> Int {
        Int(key.withUnsafeBytes(murmur2) & 0x7fff_ffff)
    }
}

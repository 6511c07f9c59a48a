internal import Kafka

/// A fingerprint of one record as the log holds it: append time, headers, key and value. Tells whether the record
/// before a position is still the one that was read there.
enum RecordDigest {
    static func of(_ record: KafkaRecord) -> Int64 {
        var hash = Hash()
        hash.add(UInt64(bitPattern: record.timestampMilliseconds))
        record.forEachHeader { name, value in
            hash.add(name)
            hash.add(value)
        }
        record.withKey { hash.add($0) }
        record.withValue { hash.add($0) }
        return Int64(bitPattern: hash.value)
    }

    /// Eight bytes at a time, each word mixed by a 64 × 64 → 128 bit multiplication; not for secrets.
    struct Hash {
        private(set) var value: UInt64 = 0x9e37_79b9_7f4a_7c15

        mutating func add(_ word: UInt64) {
            let product = (value ^ word).multipliedFullWidth(by: 0xa076_1d64_78bd_642f)
            value = product.high ^ product.low ^ 0xe703_7ed1_a0b4_28db
        }

        mutating func add(_ bytes: UnsafeRawBufferPointer?) {
            guard let bytes else { return add(UInt64.max) }
            add(UInt64(bytes.count))
            var start = 0
            while start + 8 <= bytes.count {
                add(bytes.loadUnaligned(fromByteOffset: start, as: UInt64.self))
                start += 8
            }
            var tail: UInt64 = 0
            for index in start..<bytes.count { tail = tail << 8 | UInt64(bytes[index]) }
            add(tail)
        }
    }
}

import Testing

/// The Java client's murmur2, to check librdkafka's against.
func murmur2(_ data: [UInt8]) -> Int32 {
    let multiplier: UInt32 = 0x5bd1_e995
    var hash = UInt32(0x9747_b28c) ^ UInt32(truncatingIfNeeded: data.count)
    var index = 0
    while index + 4 <= data.count {
        var word = UInt32(data[index]) | UInt32(data[index + 1]) << 8
        word |= UInt32(data[index + 2]) << 16 | UInt32(data[index + 3]) << 24
        word = word &* multiplier
        word ^= word >> 24
        hash = (hash &* multiplier) ^ (word &* multiplier)
        index += 4
    }
    let rest = data.count - index
    if rest == 3 { hash ^= UInt32(data[index + 2]) << 16 }
    if rest >= 2 { hash ^= UInt32(data[index + 1]) << 8 }
    if rest >= 1 { hash = (hash ^ UInt32(data[index])) &* multiplier }
    hash = (hash ^ (hash >> 13)) &* multiplier
    return Int32(bitPattern: hash ^ (hash >> 15))
}

struct KafkaMurmur2Tests {
    @Test(arguments: [
        ("21", Int32(-973_932_308)), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971), ("abc", 479_470_107),
    ])
    func `murmur2 gives the Java client's values`(text: String, expected: Int32) {
        #expect(murmur2(Array(text.utf8)) == expected)
    }
}

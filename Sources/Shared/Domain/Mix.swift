/// Two lanes of a multiply-and-xor chain (the finaliser of SplitMix64), so that a row's hash depends on every word
/// and on their order.
struct Mix {
    var states: (UInt64, UInt64) = (0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9)

    mutating func add(_ word: UInt64) {
        states.0 = Self.finalise(states.0 ^ word)
        states.1 = Self.finalise(states.1 &+ word &* 0x94d0_49bb_1331_11eb)
    }

    mutating func add(_ user: UserID, _ day: CalendarDay) {
        add(user.high)
        add(user.low)
        add(UInt64(bitPattern: Int64(day.daysSinceEpoch)))
    }

    mutating func add(_ provenance: Provenance) {
        add(UInt64(provenance.source.rawValue))
        add(provenance.origin.utf8)
    }

    mutating func add(_ bytes: some Collection<UInt8>) {
        add(UInt64(bytes.count))
        for byte in bytes { add(UInt64(byte)) }
    }

    private static func finalise(_ word: UInt64) -> UInt64 {
        var state = word &+ 0x9e37_79b9_7f4a_7c15
        state = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
        state = (state ^ (state >> 27)) &* 0x94d0_49bb_1331_11eb
        return state ^ (state >> 31)
    }
}

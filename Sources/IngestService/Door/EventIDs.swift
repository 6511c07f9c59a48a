import Domain

/// Makes event ids: UUIDs of version 7 whose random bits come from a generator seeded by the system. One loop's own.
struct EventIDs {
    private var state: (UInt64, UInt64, UInt64, UInt64)

    init() {
        var system = SystemRandomNumberGenerator()
        state = (system.next() | 1, system.next(), system.next(), system.next())
    }

    mutating func next(at instant: Instant) -> EventID {
        UUID128.version7(at: instant, random: (random(), random()))
    }

    /// xoshiro256**.
    private mutating func random() -> UInt64 {
        func rotate(_ word: UInt64, _ bits: UInt64) -> UInt64 { word << bits | word >> (64 - bits) }
        let result = rotate(state.1 &* 5, 7) &* 9
        let shifted = state.1 << 17
        state.2 ^= state.0
        state.3 ^= state.1
        state.1 ^= state.2
        state.0 ^= state.3
        state.2 ^= shifted
        state.3 = rotate(state.3, 45)
        return result
    }
}

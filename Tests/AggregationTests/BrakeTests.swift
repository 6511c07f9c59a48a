import Aggregation
import ServiceRuntime
import Testing

@Suite struct `The brake` {
    private let limits = Brake.Limits(window: 1000, sharePercent: 20, run: 100)

    /// Counts records until the brake is on; nil if it never is.
    private func trip(_ records: [Bool], from brake: Brake) -> Int? {
        var brake = brake
        for (index, isDead) in records.enumerated() where brake.count(isDeadLetter: isDead) { return index + 1 }
        return nil
    }

    @Test func `a hundred dead letters in a row stop the partition at the hundredth (C3)`() {
        #expect(trip(Array(repeating: true, count: 500), from: Brake(limits: limits)) == 100)
        #expect(
            trip(
                Array(repeating: true, count: 99) + [false] + Array(repeating: true, count: 99),
                from: Brake(limits: limits)
            ) == nil
        )
    }

    @Test func `the share counts only from a thousand records on, and only the last thousand`() {
        // Every fourth is bad: 25 %.
        let quarter = (0..<3000).map { $0 % 4 == 3 }
        #expect(trip(quarter, from: Brake(limits: limits)) == 1000)
        // Exactly 20 % is allowed.
        let fifth = (0..<5000).map { $0 % 5 == 4 }
        #expect(trip(fifth, from: Brake(limits: limits)) == nil)
        // 19 % for a long time, then a bad stretch: what is older than a thousand records does not count.
        let stretch = Array(repeating: false, count: 5000) + (0..<1000).map { $0 % 2 == 0 }
        let tripped = trip(stretch, from: Brake(limits: limits)) ?? 0
        #expect(tripped > 5390 && tripped < 5410)
    }

    @Test func `a restart neither forgets nor counts twice`() {
        for seed in UInt64(1)...30 {
            var generator = SplitMix64(seed: seed)
            let records = (0..<2500).map { _ in Int.random(in: 0..<100, using: &generator) < 21 }
            let small = Brake.Limits(window: Int.random(in: 50...1000, using: &generator), sharePercent: 20, run: 100)
            var whole = Brake(limits: small)
            var restarted = Brake(limits: small)
            for isDead in records {
                _ = whole.count(isDeadLetter: isDead)
                _ = restarted.count(isDeadLetter: isDead)
                if Int.random(in: 0..<50, using: &generator) == 0 {
                    restarted = Brake(encoded: restarted.encoded, limits: small)
                }
                #expect(whole.isOn == restarted.isOn, "seed \(seed)")
            }
        }
    }

    @Test func `bytes that are not a brake's start it anew and do not trap`() {
        for bytes in [[], [1], Array(repeating: UInt8.max, count: 16), Array(repeating: UInt8.max, count: 144)]
            as [[UInt8]]
        {
            let brake = Brake(encoded: bytes, limits: limits)
            _ = brake.isOn
            _ = brake.encoded
        }
        #expect(!Brake(encoded: nil, limits: limits).isOn)
        #expect(Brake(limits: limits).encoded == nil)
    }
}

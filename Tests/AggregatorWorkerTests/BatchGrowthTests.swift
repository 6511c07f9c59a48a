import Testing

@testable import AggregatorWorker

@Suite struct `How large batches get` {
    private let base = BatchCut.Limits(records: 2000, days: 2000, bytes: 1 << 20)

    @Test func `full batches that are short grow, up to sixteen times the days and no other bound`() {
        var growth = BatchGrowth(base)
        #expect(growth.limits == base)
        for expected in [4000, 8000, 16_000, 32_000, 32_000] {
            growth.note(nanoseconds: 3_000_000, days: growth.limits.days)
            #expect(growth.limits.days == expected)
        }
        #expect(growth.limits.records == base.records && growth.limits.bytes == base.bytes)
    }

    @Test func `batches that are far from full say nothing`() {
        var growth = BatchGrowth(base)
        growth.note(nanoseconds: 1_000_000, days: 1000)
        #expect(growth.factor == 1)
    }

    @Test func `a long transaction halves them, never below what was set`() {
        var growth = BatchGrowth(base)
        for _ in 0..<2 { growth.note(nanoseconds: 1, days: growth.limits.days) }
        growth.note(nanoseconds: 20_000_000, days: growth.limits.days)
        #expect(growth.factor == 4)
        for expected in [2, 1, 1] {
            growth.note(nanoseconds: 50_000_000, days: 1)
            #expect(growth.factor == expected)
        }
    }
}

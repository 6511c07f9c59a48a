import Testing

@testable import AggregatorWorker

struct BatchGrowthTests {
    @Test func `batches grow while they are short and full, and shrink as soon as they are long`() {
        var growth = BatchGrowth(least: 100, most: 800)
        growth.note(days: 10, nanoseconds: 1)
        #expect(growth.days == 100)
        for expected in [200, 400, 800, 800] {
            growth.note(days: growth.days, nanoseconds: 1_000_000)
            #expect(growth.days == expected)
        }
        growth.note(days: 800, nanoseconds: 20_000_000)
        #expect(growth.days == 800)
        for expected in [400, 200, 100, 100] {
            growth.note(days: growth.days, nanoseconds: 50_000_000)
            #expect(growth.days == expected)
        }
    }
}

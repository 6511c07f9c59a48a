import Testing

@testable import AggregatorWorker

@Suite struct `History that yields` {
    @Test func `batches shrink until they take five milliseconds, and grow again when they are quick`() {
        var limit = YieldingLimit(largest: 2000)
        // 100 µs a day: fifty days fit.
        for _ in 0..<50 { limit.note(days: limit.days, nanoseconds: Int64(limit.days) * 100_000) }
        #expect(limit.days >= 15 && limit.days <= 50)
        // 1 µs a day: all fit.
        for _ in 0..<50 { limit.note(days: limit.days, nanoseconds: Int64(limit.days) * 1000) }
        #expect(limit.days == 2000)
        // However slow the database is, something is done.
        for _ in 0..<50 { limit.note(days: limit.days, nanoseconds: 1_000_000_000) }
        #expect(limit.days == 15)
        // A batch that was not full says nothing about larger ones.
        limit.note(days: 1, nanoseconds: 10)
        #expect(limit.days == 15)
    }

    @Test func `pressure is on while any live lane has work`() {
        let pressure = LivePressure()
        #expect(!pressure.isOn)
        pressure.begin()
        pressure.begin()
        pressure.end()
        #expect(pressure.isOn)
        pressure.end()
        #expect(!pressure.isOn)
    }
}

import Testing

@testable import Daybook

@Suite struct `The capacity plan` {
    private func plan(_ phones: Int, syncs: Double = 8) -> CapacityPlan {
        CapacityPlan(.init(phones: phones, syncsPerDay: syncs))
    }

    @Test func `a few phones take two of each, and a topic's default partitions`() {
        let small = plan(1000)
        #expect(small.ingestProcesses == 2 && small.workerProcesses == 2 && small.lanes == 2)
        #expect(small.partitions == 32 && small.databases == 1)
    }

    @Test func `a million phones, worked out by hand`() {
        // Figures of its own: those that were measured last change with the code.
        var figures = CapacityPlan.Figures()
        figures.ingestPerRequest = 31
        (figures.workerPerChangedDay, figures.workerPerUnchangedDay) = (5.7, 1.42)
        (figures.databasePerChangedDay, figures.databasePerUnchangedDay) = (16, 1.17)
        (figures.sourceRow, figures.canonicalRow, figures.connection) = (169, 169, 658)
        (figures.logPerNewDay, figures.logPerUnchangedRequest) = (533, 1005)
        figures.recordPerDay = 2006.0 / 15
        let million = CapacityPlan(.init(phones: 1_000_000, syncsPerDay: 8), figures)
        // 8 million requests a day, five times the mean at the peak.
        #expect(abs(million.peakRequests - 462.96) < 0.01)
        // 463 × 31 µs, half used.
        #expect(abs(million.ingestProcessors - 0.0287) < 0.0001)
        // 1.5 × 16 + 13.5 × 1.17 µs a request, half used.
        #expect(abs(million.databaseProcessors - 0.03685) < 0.0001)
        // (1.3 × 169 + 169) × 400 days + 1.3 × 658 bytes a phone, and 1.3 for what is free.
        #expect(abs(million.databaseBytes / 1e9 - 203.24) < 0.1)
        // 1.5 × 533 + 1005 bytes a request.
        #expect(abs(million.writeAheadBytesPerDay / 1e9 - 14.44) < 0.01)
        #expect(abs(million.logBytes / 1e12 - 1.444) < 0.001)
    }

    @Test func `twice the phones are twice the work`() {
        let one = plan(3_000_000)
        let two = plan(6_000_000)
        #expect(abs(two.databaseProcessors / one.databaseProcessors - 2) < 1e-9)
        #expect(abs(two.databaseBytes / one.databaseBytes - 2) < 1e-9)
        #expect(abs(two.logBytes / one.logBytes - 2) < 1e-9)
    }

    @Test(arguments: [1, 1000, 1_000_000, 100_000_000, 1_000_000_000])
    func `partitions are a power of two with room for twice the lanes, and each database is small enough`(phones: Int) {
        let plan = plan(phones, syncs: 1440)
        #expect(plan.partitions.nonzeroBitCount == 1 && (32...4096).contains(plan.partitions))
        #expect(plan.partitions >= 2 * plan.lanes || plan.partitions == 4096)
        #expect(plan.databaseProcessors / Double(plan.databases) <= CapacityPlan.largestDatabase)
    }

    @Test func `whatever is asked, nothing traps`() {
        for phones in [Int.min, -1, 0, Int.max] {
            for syncs in [0, 1, 1e300, Double.infinity, Double.nan] {
                let plan = plan(phones, syncs: syncs)
                #expect(!plan.table.lines().isEmpty && !plan.json.text().isEmpty)
            }
        }
    }
}

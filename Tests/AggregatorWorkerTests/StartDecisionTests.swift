import Domain
import Storage
import Testing

@testable import AggregatorWorker

@Suite struct `Where a claimed partition starts` {
    private func state(next: Int64, digest: Int64? = 5, cluster: String = "one") -> PartitionState {
        PartitionState(
            clusterID: cluster,
            owner: UUID128(high: 0, low: 0),
            epoch: 4,
            nextOffset: next,
            lastRecord: digest,
            appliedThrough: 0,
            brake: nil,
            brakedAt: nil
        )
    }

    private func decide(
        _ state: PartitionState,
        isNew: Bool = false,
        cluster: String = "one",
        _ log: ClosedRange<Int64>
    ) -> StartDecision {
        StartDecision.decide(state, isNew: isNew, clusterID: cluster, low: log.lowerBound, high: log.upperBound)
    }

    @Test func `a partition that nobody has read starts at the log's beginning`() {
        #expect(decide(state(next: 0, digest: nil), isNew: true, 40...90) == .start(at: 40))
    }

    @Test func `a known position is verified by the record before it`() {
        #expect(decide(state(next: 50), 40...90) == .verify(digest: 5, thenAt: 50))
        #expect(decide(state(next: 90), 40...90) == .verify(digest: 5, thenAt: 90))
    }

    @Test func `where nothing stands before the position, nothing is proved`() {
        #expect(decide(state(next: 40), 40...90) == .start(at: 40))
        #expect(decide(state(next: 50, digest: nil), 40...90) == .start(at: 50))
    }

    @Test func `another cluster, or an end below the position, is another log (C20)`() {
        #expect(decide(state(next: 50), cluster: "two", 0...900) == .anotherLog(startAt: 0))
        #expect(decide(state(next: 50), 0...49) == .anotherLog(startAt: 0))
        #expect(decide(state(next: 50), cluster: "two", 0...0) == .anotherLog(startAt: 0))
    }

    @Test func `a position below the log's start is a loss, and counted (C10)`() {
        #expect(decide(state(next: 30), 40...90) == .lost(records: 10, uncounted: 10, resumeAt: 40))
        #expect(decide(state(next: .min), 40...90) == .lost(records: .max, uncounted: 40, resumeAt: 40))
    }

    @Test func `what is counted already is not counted again, and what was lost since is (C10)`() {
        var counted = state(next: 30)
        counted.lostThrough = 40
        #expect(decide(counted, 40...90) == .lost(records: 10, uncounted: 0, resumeAt: 40))
        #expect(decide(counted, 55...90) == .lost(records: 25, uncounted: 15, resumeAt: 55))
        counted.lostThrough = .max
        #expect(decide(counted, 40...90) == .lost(records: 10, uncounted: 0, resumeAt: 40))
    }
}

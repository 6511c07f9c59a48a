import Domain
import Kafka
import Storage
import Testing

@testable import Daybook

struct PositionTests {
    private let now = Instant(microseconds: 1_790_000_000_000_000)
    private let live = PartitionName(topic: "live", partition: 0)
    private let other = PartitionName(topic: "live", partition: 1)

    private func state(_ next: Int64, cluster: String = "a", braked: Bool = false) -> PartitionState {
        PartitionState(
            clusterID: cluster,
            owner: UUID128(high: 1, low: 2),
            epoch: 3,
            nextOffset: next,
            lastRecord: 5,
            appliedThrough: now.microseconds - 90_000_000,
            brake: nil,
            brakedAt: braked ? now.microseconds : nil
        )
    }

    private func place(
        _ name: PartitionName? = nil,
        at next: Int64,
        cluster: String = "a",
        time: Int64? = nil
    ) -> RewindPlan.Place {
        let log = KafkaWatermarks(low: 10, high: 100)
        return RewindPlan.Place(name: name ?? live, state: state(next, cluster: cluster), log: log, offsetAtTime: time)
    }

    private func plan(_ places: [RewindPlan.Place], _ target: RewindTarget, skip: Bool = false) throws -> RewindPlan {
        try RewindPlan(places, to: target, clusterID: "a", allowsSkip: skip)
    }

    @Test func `a place is an offset, a word, a time or a length of time ago`() throws {
        #expect(try RewindTarget("beginning", now: now) == .beginning)
        #expect(try RewindTarget("end", now: now) == .end)
        #expect(try RewindTarget("120000", now: now) == .offset(120_000))
        #expect(try RewindTarget("2h", now: now) == .time(now.advanced(bySeconds: -7200)))
        #expect(try RewindTarget(now.description, now: now) == .time(now))
        for text in ["", "-1", "start", "2026-09-02", "2y"] {
            #expect(throws: CommandFailure.self) { try RewindTarget(text, now: now) }
        }
    }

    @Test func `a choice names a topic, a partition or all, and only what there is`() throws {
        let known = [live, other, PartitionName(topic: "history", partition: 0)]
        #expect(try PartitionChoice("all").among(known) == known)
        #expect(try PartitionChoice("live").among(known) == [live, other])
        #expect(try PartitionChoice("live/1").among(known) == [other])
        #expect(try PartitionChoice("all").among([]) == [])
        #expect(throws: CommandFailure.self) { try PartitionChoice("live/7").among(known) }
        for text in ["", "/1", "live/", "live/x", "live/-1", "a/b/c"] {
            #expect(throws: CommandFailure.self) { try PartitionChoice(text) }
        }
    }

    @Test func `a rewind goes to the log's beginning, an offset of it, or a time`() throws {
        let all = try plan([place(at: 50), place(other, at: 20)], .beginning)
        #expect(all.targets == [live: 10, other: 10] && all.repeats == 50 && all.skips == 0)
        #expect(try plan([place(at: 50)], .offset(30)).targets == [live: 30])
        #expect(try plan([place(at: 50, time: 40)], .time(now)).targets == [live: 40])
        // Nothing has come since: the end of the log.
        #expect(try plan([place(at: 100)], .time(now)).targets == [live: 100])
        #expect(try plan([place(at: 100)], .time(now)).repeats == 0)
    }

    @Test func `a rewind refuses what would lose records or is not in the log`() throws {
        #expect(throws: CommandFailure.self) { try plan([place(at: 50)], .offset(51)) }
        #expect(throws: CommandFailure.self) { try plan([place(at: 50)], .end) }
        #expect(throws: CommandFailure.self) { try plan([place(at: 50, time: 60)], .time(now)) }
        #expect(throws: CommandFailure.self) { try plan([place(at: 50)], .offset(9)) }
        #expect(throws: CommandFailure.self) { try plan([place(at: 50)], .offset(101), skip: true) }
        #expect(throws: CommandFailure.self) { try plan([place(at: 50), place(other, at: 50)], .offset(20)) }
        #expect(throws: CommandFailure.self) { try plan([place(at: 50, cluster: "b")], .beginning) }
        #expect(throws: CommandFailure.self) { try plan([place(at: 101)], .beginning) }
        let skipping = try plan([place(at: 50)], .end, skip: true)
        #expect(skipping.skips == 50)
        #expect(skipping.text(nil, .plain).contains { $0.contains("50 records are left out") })
    }

    @Test func `what was moved is shown before and after`() throws {
        let plan = try plan([place(at: 50)], .beginning)
        let dry = plan.text(nil, .plain)
        #expect(dry[1].hasPrefix("live/0         50  →     10"))
        #expect(dry.contains("dry run: nothing was moved"))
        let done = plan.text([.init(name: live, from: 52, to: 10, epoch: 4)], .plain)
        #expect(done[1].hasPrefix("live/0         52  →     10      4"))
        #expect(!done.contains { $0.contains("dry run") })
        #expect(plan.json(nil).text().contains("\"moved\": false"))
    }

    @Test func `offsets show lag, age and what is wrong`() {
        let log = KafkaWatermarks(low: 10, high: 100)
        func row(_ state: PartitionState, _ log: KafkaWatermarks?) -> PositionReport {
            PositionReport([(live, state)], logs: log.map { [live: $0] } ?? [:], clusterID: "a", now: now)
        }
        #expect(row(state(40), log).rows.first?.lag == 60)
        #expect(row(state(40), log).text(.plain)[1].contains("90s"))
        #expect(row(state(40, braked: true), log).rows.first?.remarks == ["stopped by the brake"])
        #expect(row(state(40, cluster: "b"), log).rows.first?.remarks == ["of another log"])
        #expect(row(state(40, cluster: "b"), log).rows.first?.lag == 90)
        #expect(row(state(101), log).rows.first?.remarks == ["of another log"])
        #expect(row(state(4), log).rows.first?.remarks == ["6 records lost to retention"])
        #expect(row(state(40), nil).rows.first?.lag == nil)
        #expect(row(state(40), nil).text(.plain)[1].contains("?"))
        #expect(PositionReport([], logs: [:], clusterID: nil, now: now).text(.plain).count == 1)
        #expect(
            [5, 119, 120, 7200, 200_000].map { PositionReport.shown(seconds: $0) } == ["5s", "119s", "2m", "2h", "2d"]
        )
    }
}

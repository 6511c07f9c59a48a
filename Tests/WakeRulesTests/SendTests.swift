import Domain
import Testing
import WakeRules

@Suite struct `When wakes are sent` {
    private func user(_ number: UInt64) -> UserID { UserID(high: 0x4000, low: 0x8000_0000_0000_0000 | number) }

    @Test func `hourly: at minute 20, each user at a place of their own in the window`() throws {
        let schedule = SendSchedule(.hourly(minute: 20), windowSeconds: 600)
        let now = try #require(Instant(rfc3339: "2026-11-30T14:37:00Z"))
        let start = try #require(Instant(rfc3339: "2026-11-30T15:20:00Z"))
        var places: Set<Int64> = []
        var counts = Array(repeating: 0, count: 10)
        for number in 0..<10_000 {
            let sendAt = schedule.first(notBefore: now, for: user(UInt64(number)))
            let offset = sendAt.microseconds - start.microseconds
            #expect((0..<600_000_000).contains(offset))
            places.insert(offset)
            counts[Int(offset / 60_000_000)] += 1
            #expect(schedule.first(notBefore: sendAt, for: user(UInt64(number))) == sendAt)
            #expect(
                schedule.first(notBefore: sendAt.advanced(bySeconds: 1), for: user(UInt64(number)))
                    == sendAt.advanced(bySeconds: 3600)
            )
        }
        #expect(places.count > 9900)
        #expect(counts.allSatisfy { (850...1150).contains($0) }, "\(counts)")
    }

    @Test func `a round of sends is named by its beginning`() throws {
        let hourly = SendSchedule(.hourly(minute: 20))
        for (time, campaign) in [
            ("2026-11-30T14:20:00Z", "2026-11-30T14:20:00Z"), ("2026-11-30T15:19:59Z", "2026-11-30T14:20:00Z"),
            ("2026-11-30T14:19:59Z", "2026-11-30T13:20:00Z"),
        ] {
            #expect(hourly.campaign(at: try #require(Instant(rfc3339: time))) == Instant(rfc3339: campaign))
        }
        let all = SendSchedule(.continuous)
        let time = try #require(Instant(rfc3339: "2026-11-30T14:37:01Z"))
        #expect(all.first(notBefore: time, for: user(1)) == time)
        #expect(all.campaign(at: time) == Instant(rfc3339: "2026-11-30T14:00:00Z"))
    }

    @Test(arguments: [Int64.min, .max, 0, -1]) func `no time overflows`(microseconds: Int64) {
        let schedule = SendSchedule(.hourly(minute: 59), windowSeconds: 3599)
        let time = Instant(microseconds: microseconds)
        _ = schedule.first(notBefore: time, for: user(7))
        _ = schedule.campaign(at: Instant(microseconds: microseconds / 2))
        _ = QuietHours(start: 0, end: 1)?.end(around: time, secondsFromUTC: 86_400)
        var pace = SendPace(perSecond: 100, spentThrough: time)
        _ = pace.take(.max, at: time)
        pace.giveBack(.max)
    }

    @Test func `the rate is kept over any number of askers, and a pause saves up no more than a second`() {
        var pace = SendPace(perSecond: 1000, spentThrough: Instant(microseconds: 0))
        var now = Instant(microseconds: 1_780_000_000_000_000)
        let given1 = pace.take(5000, at: now)
        #expect(given1 == 1000)
        let given2 = pace.take(1, at: now)
        #expect(given2 == 0)
        var given = 0
        for _ in 0..<1000 {
            now = Instant(microseconds: now.microseconds + 10_000)
            given += pace.take(100, at: now)
        }
        #expect((9900...10_000).contains(given), "\(given)")
        pace.giveBack(500)
        let given3 = pace.take(5000, at: now)
        #expect(given3 >= 500)
        now = now.advanced(bySeconds: 3600)
        let given4 = pace.take(5000, at: now)
        #expect(given4 == 1000)
        // A clock that was put back by an hour.
        now = now.advanced(bySeconds: -3600)
        let given5 = pace.take(5000, at: now)
        #expect(given5 == 0)
        now = now.advanced(bySeconds: 11)
        let given6 = pace.take(5000, at: now)
        #expect(given6 > 0)
        var unlimited = SendPace(perSecond: 0, spentThrough: now)
        let given7 = unlimited.take(77, at: now)
        #expect(given7 == 77)
    }

    @Test func `quiet hours: over midnight, at their edges, and what is no time`() throws {
        let night = try #require(QuietHours("22:00-07:00"))
        func end(_ time: String) throws -> Instant? {
            night.end(around: try #require(Instant(rfc3339: time)), secondsFromUTC: 0)
        }
        #expect(try end("2026-11-30T21:59:59Z") == nil)
        #expect(try end("2026-11-30T22:00:00Z") == Instant(rfc3339: "2026-12-01T07:00:00Z"))
        #expect(try end("2026-12-01T06:59:59Z") == Instant(rfc3339: "2026-12-01T07:00:00Z"))
        #expect(try end("2026-12-01T07:00:00Z") == nil)
        for text in [
            "", "22-7", "24:00-07:00", "22:60-07:00", "07:00-07:00", "22:00-07:00-", "2200:07:00", "+1:00-02:00",
        ] {
            #expect(QuietHours(text) == nil, "\(text)")
        }
        #expect(night.description == "22:00-07:00")
    }
}

@Suite struct `How far our side is` {
    private let now = Instant(microseconds: 1_780_000_000_000_000)
    private let day: Int64 = 86_400_000_000

    @Test func `counts are powers of two, whatever is missing`() {
        #expect(PipelineState.presentCount([0]) == 1)
        #expect(PipelineState.presentCount([0, 1, 2]) == 4)
        #expect(PipelineState.presentCount([31]) == 32)
        #expect(PipelineState.presentCount([] as [Int32]) == 1)
        #expect(PipelineState.presentCount([Int32.max]) == 4096)
    }

    @Test func `an earlier count is looked at while its log is kept`() {
        let history = [
            PipelineState.PartitionCount(count: 4, since: now.microseconds - 100 * day),
            PipelineState.PartitionCount(count: 8, since: now.microseconds - 40 * day),
            PipelineState.PartitionCount(count: 16, since: now.microseconds - 10 * day),
        ]
        func counts(_ highest: Int32) -> [Int] {
            PipelineState.counts(
                history: history,
                partitions: [0, highest],
                now: now,
                retentionSeconds: 30 * 86_400
            )
        }
        // Eight were written until ten days ago, four until forty.
        #expect(counts(15) == [16, 8])
        // Thirty-two have just come, and nobody has written them down.
        #expect(counts(31) == [32, 8, 16])
    }

    @Test func `a partition that is not read, or was never applied, is no excuse to wake`() {
        let state = PipelineState(appliedThrough: [0: 5, 1: 0], counts: [4], door: DoorCounts())
        #expect(state.appliedThrough(bucket: 4) == Instant(microseconds: 5))
        #expect(state.appliedThrough(bucket: 5) == nil)
        #expect(state.appliedThrough(bucket: 6) == nil)
    }
}

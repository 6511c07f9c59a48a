import Aggregation
import Domain
import MessageContract
import Storage
import Testing

@Suite struct `The merge of a batch` {
    private let user = UserID(high: 1, low: 1)
    private let today = CalendarDay(daysSinceEpoch: 20_600)

    private func record(minute: Int, from source: Source = .appleHealth, _ days: [(Int, MetricValues)]) -> DecodedDays {
        let received = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: minute * 60)
        let event = EventID(high: 0, low: 0)
        let version = Version(observedAt: nil, receivedAt: received, event: event)
        let readings = days.map {
            Reading(day: today.advanced(by: -$0.0), values: $0.1, version: version, closed: $0.0 > 0)
        }
        return DecodedDays(
            user: user,
            source: source,
            origin: "",
            event: event,
            receivedAt: received,
            version: version,
            localDate: today,
            readings: readings
        )
    }

    private func snapshot(deleted: Version = Version(rawValue: 0), days: [UserDay: [SourceRow]] = [:]) -> BatchSnapshot
    {
        BatchSnapshot(
            isFenceHeld: true,
            ruleVersion: 1,
            windowFormat: 1,
            retentionFloor: today.advanced(by: -400),
            accounts: [user: Account(deleted: deleted, preferences: Preferences())],
            deletedSources: [:],
            days: days
        )
    }

    @Test func `a batch reads one range of days for each user`() {
        let needs = DaysMerge.needs(of: [
            record(minute: 0, [(5, [.steps: 1]), (2, [.steps: 1])]), record(minute: 1, [(3, [.steps: 1])]),
        ])
        #expect(needs.users.map(\.user) == [user])
        #expect(needs.ranges == [DayRange(user: user, first: today.advanced(by: -5), last: today.advanced(by: -2))])
        #expect(DaysMerge.needs(of: [record(minute: 0, [])]).ranges.isEmpty)
    }

    @Test func `only what changed is written, in the order of the keys`() {
        let first = DaysMerge.merge(
            [record(minute: 0, [(0, [.steps: 10]), (3, [.steps: 30]), (1, [.steps: 20])])],
            into: snapshot()
        )
        #expect(first.writes.sourceRows.map(\.key.day) == [3, 1, 0].map { today.advanced(by: -$0) })
        #expect(first.writes.canonicalDays.count == 3 && first.counts.changed == 3)
        var days: [UserDay: [SourceRow]] = [:]
        for write in first.writes.sourceRows { days[write.key] = [write.row] }
        let same = record(minute: 0, [(0, [.steps: 10]), (3, [.steps: 30])])
        let again = DaysMerge.merge([same], into: snapshot(days: days))
        #expect(again.writes.sourceRows.isEmpty && again.writes.canonicalDays.isEmpty && again.counts.older == 2)
        let later = DaysMerge.merge(
            [record(minute: 9, [(0, [.steps: 11]), (3, [.steps: 30])])],
            into: snapshot(days: days)
        )
        #expect(later.writes.sourceRows.count == 2 && later.writes.canonicalDays.map(\.key.day) == [today])
        #expect(later.counts.changed == 1 && later.counts.confirmed == 1)
    }

    @Test func `a second source that loses writes its row and leaves the canonical day alone`() {
        let first = DaysMerge.merge([record(minute: 0, [(0, [.steps: 100])])], into: snapshot())
        var days: [UserDay: [SourceRow]] = [:]
        for write in first.writes.sourceRows { days[write.key] = [write.row] }
        let second = DaysMerge.merge(
            [record(minute: 1, from: .garmin, [(0, [.steps: 90])])],
            into: snapshot(days: days)
        )
        #expect(second.writes.sourceRows.count == 1 && second.writes.canonicalDays.isEmpty)
    }

    @Test func `what is older than a deletion stays away, and does not reconnect (D7)`() {
        let watermark = Version.watermark(deletedAt: Instant(microseconds: 1_780_000_000_000_000))
        let merged = DaysMerge.merge(
            [record(minute: 0, [(0, [.steps: 10])]), record(minute: 5, from: .garmin, [(0, [.steps: 20])])],
            into: snapshot(deleted: watermark)
        )
        #expect(merged.counts.suppressed == 1 && merged.counts.changed == 1)
        #expect(merged.writes.connections.map(\.provenance.source) == [.garmin])
    }

    @Test func `an empty reading makes no row`() {
        let merged = DaysMerge.merge([record(minute: 0, [(0, [:])])], into: snapshot())
        #expect(merged.writes.sourceRows.isEmpty && merged.writes.canonicalDays.isEmpty)
        #expect(merged.writes.connections.count == 1)
    }

    @Test func `the order of records in a batch changes nothing that is written`() {
        var generator = SystemRandomNumberGenerator()
        let records = (0..<12).map { minute in
            record(
                minute: minute % 5,
                from: [.appleHealth, .garmin][minute % 2],
                [(minute % 3, [.steps: Int32(minute * 10), .water: 5])]
            )
        }
        var seen: Set<TableHash> = []
        for _ in 0..<40 {
            let merged = DaysMerge.merge(records.shuffled(using: &generator), into: snapshot())
            var hash = TableHash()
            for write in merged.writes.sourceRows { hash.add(user: user, day: write.key.day, row: write.row) }
            for write in merged.writes.canonicalDays { hash.add(user: user, day: write.key.day, canonical: write.day) }
            seen.insert(hash)
        }
        #expect(seen.count == 1)
    }
}

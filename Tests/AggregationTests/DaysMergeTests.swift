import Domain
import MessageContract
import ServiceRuntime
import Storage
import Testing

@testable import Aggregation

@Suite struct `The merge of a batch` {
    private let user = UserID(high: 1, low: 1)
    private let today = batchDay

    private func snapshot(deleted: Version = Version(rawValue: 0)) -> BatchSnapshot {
        var snapshot = BatchSnapshot(
            isFenceHeld: true,
            ruleVersion: 1,
            windowFormat: 1,
            retentionFloor: today.advanced(by: -400)
        )
        snapshot.accounts[user] = Account(deleted: deleted, preferences: Preferences())
        return snapshot
    }

    private func merge(
        _ records: [DecodedDays],
        into snapshot: BatchSnapshot,
        days: [UserDay: [SourceRow]] = [:]
    ) throws -> (writes: BatchWrites, counts: BatchCounts) {
        var merge = try DaysMerge(records, snapshot)
        return merge.finish(StoredDays(days))
    }

    /// What the tables hold after the writes, for a next batch.
    private func applied(_ writes: BatchWrites, to before: BatchSnapshot, _ days: [UserDay: [SourceRow]]) -> (
        BatchSnapshot, [UserDay: [SourceRow]]
    ) {
        var (snapshot, days) = (before, days)
        for write in writes.connections { snapshot.connections[write.key] = write.state }
        for write in writes.sourceRows {
            days[write.key, default: []].removeAll { $0.provenance == write.row.provenance }
            days[write.key, default: []].append(write.row)
            days[write.key]?.sort { $0.provenance < $1.provenance }
        }
        return (snapshot, days)
    }

    @Test func `rows that are merged in portions are those that are merged at once`() throws {
        let users = (1...7).map { UserID(high: UInt64($0), low: 1) }
        var empty = snapshot()
        for user in users { empty.accounts[user] = Account(deleted: Version(rawValue: 0), preferences: Preferences()) }
        func days(_ values: MetricValues) -> [(Int, MetricValues)] { (0..<9).map { ($0, values) } }
        let first = try merge(users.map { record(of: $0, minute: 0, days([.steps: 10])) }, into: empty)
        let (held, stored) = applied(first.writes, to: empty, [:])
        // Not in the order of their users, and one of them twice.
        var second: [DecodedDays] = []
        for (index, user) in (Array(users.reversed()) + [users[3]]).enumerated() {
            second.append(record(of: user, minute: 60 + index, days([.steps: Int32(20 + index), .spo2: 970])))
        }
        var atOnce = try DaysMerge(second, held)
        let ranges = atOnce.needs()
        let whole = atOnce.finish(StoredDays(stored))
        for (size, count) in [(1, 7), (9, 7), (10, 4), (30, 2), (1000, 1)] {
            let portions = ranges.portions(ofDays: size)
            #expect(Array(portions.joined()) == ranges && portions.count == count)
            var merge = try DaysMerge(second, held)
            var parts: [BatchWrites] = []
            for (index, portion) in portions.enumerated() {
                let touched = Set(portion.map(\.user))
                let part = stored.filter { touched.contains($0.key.user) }
                let last = index == portions.count - 1 ? nil : portion.last?.user
                parts.append(merge.rows(StoredDays(part), through: last))
                #expect(parts[index].sourceRows.allSatisfy { touched.contains($0.key.user) })
            }
            let rest = merge.rest()
            #expect(parts.flatMap { $0.sourceRows.map(\.key) } == whole.writes.sourceRows.map(\.key))
            #expect(parts.flatMap { $0.sourceRows.map(\.row) } == whole.writes.sourceRows.map(\.row))
            #expect(parts.flatMap { $0.canonicalDays.map(\.day) } == whole.writes.canonicalDays.map(\.day))
            #expect(rest.writes.connections.map(\.state) == whole.writes.connections.map(\.state))
            #expect(rest.counts == whole.counts && whole.writes.sourceRows.count == 63)
        }
    }

    @Test func `of the pushes of a batch the first and the last that answer a wake are kept, by any order`() throws {
        func answers(_ minutes: [Int], openMinute: Int, from source: Source = .appleHealth) throws -> [WakeAnswer] {
            var open = snapshot()
            open.openWakes[user] = record(minute: openMinute, []).receivedAt.microseconds
            let records = minutes.map { record(minute: $0, from: source, [(0, [.steps: Int32($0 + 1)])]) }
            return try merge(records, into: open).writes.answers
        }
        func time(_ minute: Int) -> Int64 { record(minute: minute, []).receivedAt.microseconds }
        for minutes in [[1, 20, 300, 240], [300, 240, 20, 1]] {
            let answer = try #require(try answers(minutes, openMinute: 10).first)
            #expect(answer.firstAt == time(20) && answer.lastAt == time(300) && answer.openSince == time(10))
            #expect(answer.broughtData)
        }
        let one = try #require(try answers([20], openMinute: 10).first)
        #expect(one.firstAt == time(20) && one.lastAt == time(20))
        // By the door's clock less than a minute before the wake, by the database's behind it; a minute is too much.
        var open = snapshot()
        open.openWakes[user] = time(11) - 1
        #expect(try merge([record(minute: 10, [])], into: open).writes.answers.count == 1)
        open.openWakes[user] = time(11)
        #expect(try merge([record(minute: 10, [])], into: open).writes.answers.isEmpty)
        #expect(try answers([20, 30], openMinute: 10, from: .oura).isEmpty)
    }

    @Test func `a re-send of thirty days with two changed needs and writes two rows, and one of the connection (A15)`()
        throws
    {
        let all = (0..<30).map { ($0, [.steps: Int32(1000 + $0)] as MetricValues) }
        let first = try merge([record(minute: 0, all)], into: snapshot())
        #expect(first.writes.sourceRows.count == 30)
        let (held, days) = applied(first.writes, to: snapshot(), [:])
        var changed = all
        changed[0].1[.steps] = 9
        changed[1].1[.steps] = 9
        var second = try DaysMerge([record(minute: 60, changed)], held)
        #expect(second.needs() == [DayRange(user: user, first: today.advanced(by: -1), last: today)])
        let (writes, counts) = second.finish(StoredDays(days))
        #expect(writes.sourceRows.count == 2 && writes.canonicalDays.count == 2 && writes.connections.count == 1)
        #expect(counts.changed == 2 && counts.confirmed == 28)
        var third = try DaysMerge([record(minute: 60, changed)], applied(writes, to: held, days).0)
        #expect(third.needs().isEmpty)
        #expect(third.finish(StoredDays()).writes.connections.isEmpty)
    }

    @Test func `a day that leaves the window has its version folded into its row`() throws {
        let old = [(34, [.steps: 10] as MetricValues)]
        let first = try merge([record(minute: 0, old)], into: snapshot())
        var (held, days) = applied(first.writes, to: snapshot(), [:])
        let confirmed = try merge([record(minute: 10, old)], into: held, days: days)
        #expect(confirmed.writes.sourceRows.isEmpty)
        (held, days) = applied(confirmed.writes, to: held, days)
        var moving = try DaysMerge([record(minute: 20, [(-1, [.steps: 20])])], held)
        let leaving = UserDay(user: user, day: today.advanced(by: -34))
        #expect(moving.needs().contains { $0.first == leaving.day })
        let folded = moving.finish(StoredDays(days)).writes.sourceRows.first { $0.key == leaving }
        let noted = record(minute: 10, old).version
        #expect(folded?.row.state.version(of: .steps) == noted && folded?.row.state.values[.steps] == 10)
    }

    @Test func `a first push of a phone puts its user on the wake schedule, a later one does not move it`() throws {
        let first = try merge([record(minute: 0, [(0, [.steps: 1])])], into: snapshot())
        let fourHours = 1_780_000_000_000_000 + 4 * 3_600_000_000
        #expect(first.writes.wakes.map(\.dueAt) == [Int64(fourHours)])
        var held = applied(first.writes, to: snapshot(), [:]).0
        #expect(try merge([record(minute: 90, [(0, [.steps: 2])])], into: held).writes.wakes.isEmpty)
        // A disconnect after the first push: the next one reconnects.
        let key = UserSource(user: user, source: .appleHealth)
        held.accountSources[key] = AccountSource(disconnectedAt: 1_780_000_000_000_001)
        #expect(try merge([record(minute: 90, [(0, [.steps: 2])])], into: held).writes.wakes.count == 1)
        #expect(try merge([record(minute: 0, [(0, [.steps: 2])])], into: held).writes.wakes.isEmpty)
        #expect(
            try merge([record(minute: 0, from: .garmin, [(0, [.steps: 1])])], into: snapshot()).writes.wakes.isEmpty
        )
    }

    @Test func `one origin too many is refused and nothing else is`() throws {
        var held = snapshot()
        for number in 0..<32 {
            let key = ConnectionKey(
                user: user,
                provenance: Provenance(source: .appleHealth, origin: "device \(number)")
            )
            held.connections[key] = StoredConnection(lastPushAt: 1, lastDataAt: 0, window: [])
        }
        let merged = try DaysMerge(
            [record(minute: 0, from: .garmin, [(0, [.steps: 1])]), record(minute: 0, [(0, [.steps: 1])])],
            held
        )
        #expect(merged.tooManyOrigins == [1])
    }

    @Test func `a window of an unknown format is an error, never an empty window`() {
        var held = snapshot()
        let key = ConnectionKey(user: user, provenance: Provenance(source: .appleHealth))
        held.connections[key] = StoredConnection(lastPushAt: 1, lastDataAt: 0, window: [9, 9, 9])
        #expect(throws: StorageError.self) { try DaysMerge([record(minute: 0, [(0, [.steps: 1])])], held) }
    }

    @Test func `a batch reads ranges of days, one where they lie together`() throws {
        let near = try DaysMerge(
            [record(minute: 0, [(5, [.steps: 1]), (2, [.steps: 1])]), record(minute: 1, [(3, [.steps: 1])])],
            snapshot()
        )
        #expect(near.needs() == [DayRange(user: user, first: today.advanced(by: -5), last: today.advanced(by: -2))])
        let far = try DaysMerge([record(minute: 0, [(90, [.steps: 1]), (2, [.steps: 1])])], snapshot())
        #expect(far.needs().count == 2)
        #expect(try DaysMerge([record(minute: 0, [])], snapshot()).needs().isEmpty)
    }

    @Test func `only what changed is written, in the order of the keys`() throws {
        let first = try merge(
            [record(minute: 0, [(0, [.steps: 10]), (3, [.steps: 30]), (1, [.steps: 20])])],
            into: snapshot()
        )
        #expect(first.writes.sourceRows.map(\.key.day) == [3, 1, 0].map { today.advanced(by: -$0) })
        #expect(first.writes.canonicalDays.count == 3 && first.counts.changed == 3)
        var days: [UserDay: [SourceRow]] = [:]
        for write in first.writes.sourceRows { days[write.key] = [write.row] }
        let same = record(minute: 0, [(0, [.steps: 10]), (3, [.steps: 30])])
        let again = try merge([same], into: snapshot(), days: days)
        #expect(again.writes.sourceRows.isEmpty && again.writes.canonicalDays.isEmpty && again.counts.older == 2)
        let later = try merge(
            [record(minute: 9, [(0, [.steps: 11]), (3, [.steps: 30])])],
            into: snapshot(),
            days: days
        )
        #expect(later.writes.sourceRows.count == 1 && later.writes.canonicalDays.map(\.key.day) == [today])
        #expect(later.counts.changed == 1 && later.counts.confirmed == 1)
    }

    @Test func `a second source that loses writes its row and leaves the canonical day alone`() throws {
        let first = try merge([record(minute: 0, [(0, [.steps: 100])])], into: snapshot())
        var days: [UserDay: [SourceRow]] = [:]
        for write in first.writes.sourceRows { days[write.key] = [write.row] }
        let second = try merge(
            [record(minute: 1, from: .garmin, [(0, [.steps: 90])])],
            into: snapshot(),
            days: days
        )
        #expect(second.writes.sourceRows.count == 1 && second.writes.canonicalDays.isEmpty)
    }

    @Test func `what is older than a deletion stays away, and does not reconnect (D7)`() throws {
        let watermark = Version.watermark(deletedAt: Instant(microseconds: 1_780_000_000_000_000))
        let merged = try merge(
            [record(minute: 0, [(0, [.steps: 10])]), record(minute: 5, from: .garmin, [(0, [.steps: 20])])],
            into: snapshot(deleted: watermark)
        )
        #expect(merged.counts.suppressed == 1 && merged.counts.changed == 1)
        #expect(merged.writes.connections.map(\.key.provenance.source) == [.garmin])
    }

    @Test func `an empty reading makes no row`() throws {
        let merged = try merge([record(minute: 0, [(0, [:])])], into: snapshot())
        #expect(merged.writes.sourceRows.isEmpty && merged.writes.canonicalDays.isEmpty)
        #expect(merged.writes.connections.count == 1)
    }

    @Test func `the order of records in a batch changes nothing that is written`() throws {
        let records = (0..<12).map { minute in
            record(
                minute: minute % 5,
                from: [.appleHealth, .garmin][minute % 2],
                [(minute % 3, [.steps: Int32(minute * 10), .water: 5])]
            )
        }
        // With the first seed that made each.
        var seen: [TableHash: UInt64] = [:]
        for seed in UInt64(1)...40 {
            var generator = SplitMix64(seed: seed)
            let merged = try merge(records.shuffled(using: &generator), into: snapshot())
            var hash = TableHash()
            for write in merged.writes.sourceRows { hash.add(user: user, day: write.key.day, row: write.row) }
            for write in merged.writes.canonicalDays { hash.add(user: user, day: write.key.day, canonical: write.day) }
            if seen[hash] == nil { seen[hash] = seed }
        }
        #expect(seen.count == 1, "seeds \(seen.values.sorted())")
    }
}

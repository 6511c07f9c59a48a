import Domain
import MessageContract
import ServiceRuntime
import Storage
import Testing

@testable import Aggregation

@Suite struct `Days that are replaced unread` {
    private static let today = batchDay

    /// The tables, and the statement that replaces as the database runs it.
    private struct Tables {
        var snapshot: BatchSnapshot
        var rows: [UserDay: [SourceRow]] = [:]
        var canonical: [UserDay: CanonicalDay] = [:]
        var replaced = 0
        var missed = 0

        init(_ users: [UserID]) {
            snapshot = BatchSnapshot(
                isFenceHeld: true,
                ruleVersion: 1,
                windowFormat: 2,
                retentionFloor: today.advanced(by: -400)
            )
            for user in users {
                snapshot.accounts[user] = Account(deleted: Version(rawValue: 0), preferences: Preferences())
            }
        }

        mutating func apply(_ records: [DecodedDays], replaces: Bool) throws -> BatchCounts {
            var merge = try DaysMerge(records, snapshot, replaces: replaces)
            let read = StoredDays(rows)
            var again: [UserDay] = []
            let portions = merge.replacements(ofDays: 2)
            #expect(replaces || portions.isEmpty)
            var misses: [[Int]] = []
            for portion in portions {
                let days = merge.days(ofReplacements: portion)
                misses.append(replace(days))
            }
            take(merge.rows(read, through: nil))
            for (portion, missed) in zip(portions, misses) {
                again += merge.conclude(replacements: portion, missed: missed)
            }
            missed += again.count
            if !again.isEmpty {
                let ranges = [DayRange](covering: again)
                #expect(again.allSatisfy { key in ranges.contains { $0.user == key.user && key.day >= $0.first } })
                take(merge.rows(StoredDays(rows), through: nil))
            }
            let (rest, counts) = merge.rest()
            take(rest)
            return counts
        }

        /// Canonical days are written whatever becomes of the row; of one that is not there nobody knows which it was.
        private mutating func replace(_ days: [BatchWrites.Replacement]) -> [Int] {
            let missed = days.indices.filter { !replaceRow(days[$0]) }
            let areThere = days.allSatisfy { canonical[$0.key] != nil }
            for write in days where canonical[write.key] != nil {
                let mask = write.reading.values.mask
                canonical[write.key] = CanonicalDay(
                    values: write.reading.values,
                    winners: Array(repeating: write.provenance, count: mask.count),
                    isFinal: CanonicalDay.isFinal(mask, closed: write.reading.closed, of: write.provenance.source)
                )
            }
            return areThere ? missed : Array(days.indices)
        }

        private mutating func replaceRow(_ write: BatchWrites.Replacement) -> Bool {
            guard let place = rows[write.key]?.firstIndex(where: { $0.provenance == write.provenance }),
                let state = rows[write.key]?[place].state
            else { return false }
            let versions = Set(state.values.mask.map { state.version(of: $0) })
            guard versions.count == 1, let version = versions.first ?? nil, version < write.reading.version,
                state.values.mask.count == write.storedCount
            else { return false }
            let reading = write.reading
            let new = SourceDay(
                values: reading.values,
                closed: reading.closed ? reading.values.mask : [],
                version: reading.version
            )
            rows[write.key]?[place].state = new
            replaced += 1
            return true
        }

        private mutating func take(_ writes: BatchWrites) {
            for write in writes.connections { snapshot.connections[write.key] = write.state }
            for write in writes.sourceRows {
                rows[write.key, default: []].removeAll { $0.provenance == write.row.provenance }
                rows[write.key, default: []].append(write.row)
                rows[write.key]?.sort { $0.provenance < $1.provenance }
            }
            for write in writes.canonicalDays { canonical[write.key] = write.day }
        }

        /// What rows and windows mean together.
        func meaning() throws -> [UserDay: [SourceRow]] {
            var meant = rows
            for (key, connection) in snapshot.connections {
                let decoded = Window(encoded: connection.window.span)
                let window = try #require(decoded)
                for day in window.days {
                    let place = UserDay(user: key.user, day: day)
                    guard let index = meant[place]?.firstIndex(where: { $0.provenance == key.provenance }) else {
                        Issue.record("an entry without a row")
                        continue
                    }
                    meant[place]?[index].state.fold(window[day])
                }
            }
            return meant
        }

        func drift() -> [UserDay] {
            rows.keys.filter { key in
                canonical[key] != CanonicalDay(resolving: rows[key] ?? [], preferences: Preferences())
            }
        }
    }

    private func random(_ step: Int, _ generator: inout SplitMix64) -> DecodedDays {
        // The first user has one source, the second two, the third gets a second one late.
        let number = UInt64.random(in: 1...3, using: &generator)
        // Most are newer than what came before.
        let minute = step * 3 + Int.random(in: 0...5, using: &generator)
        let hasTwo = number == 2 || (number == 3 && minute > 50)
        let days = (0..<Int.random(in: 1...5, using: &generator)).map { _ -> (Int, MetricValues) in
            var values: MetricValues = [.steps: Int32.random(in: 1...3, using: &generator) * 10]
            if Int.random(in: 0..<8, using: &generator) == 0 { values[.steps] = nil }
            for metric in [Metric.sleepMinutes, .hrvSDNN] where Int.random(in: 0..<4, using: &generator) > 0 {
                values[metric] = Int32.random(in: 1...2, using: &generator) * 10
            }
            return (Int.random(in: -2...4, using: &generator) + (minute % 7 == 0 ? 32 : 0), values)
        }
        var seen: Set<Int> = []
        return record(
            of: UserID(high: number, low: 9),
            minute: minute,
            from: hasTwo && Bool.random(using: &generator) ? .oura : .appleHealth,
            closed: Int.random(in: 0..<3, using: &generator) == 0,
            tie: UInt64.random(in: 0...1, using: &generator),
            days.filter { seen.insert($0.0).inserted }
        )
    }

    @Test
    func `replaced or read, whatever comes in whatever order: rows, windows and canonical days mean the same (D3)`()
        throws
    {
        let users = (1...3).map { UserID(high: UInt64($0), low: 9) }
        var (replaced, missed) = (0, 0)
        for seed in UInt64(1)...150 {
            var generator = SplitMix64(seed: seed)
            var (unread, read) = (Tables(users), Tables(users))
            for step in 0..<20 {
                let records = (0..<Int.random(in: 1...6, using: &generator)).map { _ in random(step, &generator) }
                _ = try unread.apply(records, replaces: true)
                _ = try read.apply(records, replaces: false)
                #expect(try unread.meaning() == read.meaning(), "seed \(seed), step \(step)")
                #expect(unread.canonical == read.canonical, "seed \(seed), step \(step)")
                #expect(unread.drift().isEmpty, "seed \(seed), step \(step)")
            }
            replaced += unread.replaced
            missed += unread.missed
        }
        // Or it would prove nothing.
        #expect(replaced > 500 && missed > 50, "\(replaced) replaced, \(missed) missed")
    }

    @Test func `what changes of a user with one source is not read`() throws {
        let user = UserID(high: 1, low: 1)
        var tables = Tables([user])
        let days = (0..<10).map { ($0, [.steps: 10, .spo2: 970] as MetricValues) }
        _ = try tables.apply([record(minute: 0, closed: false, days)], replaces: true)
        let changed = days.map { ($0.0, [.steps: 20, .spo2: 970] as MetricValues) }
        let merge = try DaysMerge([record(minute: 60, closed: false, changed)], tables.snapshot, replaces: true)
        #expect(merge.needs().isEmpty && merge.replacements(ofDays: 1000).joined().count == 10)
        let counts = try tables.apply([record(minute: 60, closed: false, changed)], replaces: true)
        #expect(counts.changed == 10 && counts.sourceRowsWritten == 10 && counts.canonicalWritten == 10)
        #expect(tables.missed == 0 && tables.drift().isEmpty)
        // Older than what is stored, or fewer metrics than the window has: that needs the row.
        for other in [record(minute: 30, closed: false, days), record(minute: 90, closed: false, [(0, [.steps: 30])])] {
            let merge = try DaysMerge([other], tables.snapshot, replaces: true)
            #expect(!merge.needs().isEmpty && merge.replacements(ofDays: 1000).isEmpty)
        }
    }

    @Test func `a second source that comes in the same batch puts the first one's replacements off`() throws {
        let user = UserID(high: 1, low: 1)
        var tables = Tables([user])
        _ = try tables.apply([record(minute: 0, closed: false, [(0, [.steps: 10])])], replaces: true)
        let both = [
            record(minute: 60, closed: false, [(0, [.steps: 20])]),
            record(minute: 60, from: .oura, closed: false, [(0, [.steps: 30])]),
        ]
        for records in [both, both.reversed()] {
            let merge = try DaysMerge(records, tables.snapshot, replaces: true)
            #expect(merge.replacements(ofDays: 1000).isEmpty)
        }
        _ = try tables.apply(both, replaces: true)
        #expect(tables.drift().isEmpty)
        #expect(tables.canonical.values.first?.values[.steps] == 30)
    }

    @Test func `a canonical day that is not there is made although its row was replaced`() throws {
        let user = UserID(high: 1, low: 1)
        var tables = Tables([user])
        _ = try tables.apply([record(minute: 0, closed: false, [(0, [.steps: 10])])], replaces: true)
        tables.canonical = [:]
        let counts = try tables.apply([record(minute: 60, closed: false, [(0, [.steps: 20])])], replaces: true)
        #expect(counts.changed == 1 && tables.canonical.count == 1 && tables.drift().isEmpty)
        // The window says what the row says now.
        _ = try tables.apply([record(minute: 120, closed: false, [(0, [.steps: 10])])], replaces: true)
        #expect(tables.canonical.values.first?.values[.steps] == 10)
    }
}

import Aggregation
import Domain
import MessageContract
import Postgres
import Storage
import Testing

/// The statement that replaces days unread looks itself whether they are as the window says.
@Suite struct `Days are replaced unread on PostgreSQL` {
    private typealias Database = AggregationDatabase

    private let today = AggregationDatabase.today
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)

    /// The counts, and whether rows were read.
    private func apply(_ database: Database, _ records: [DecodedDays]) throws -> (counts: BatchCounts, hasRead: Bool) {
        var hasRead = false
        database.runner.onStage = { stage, _ in if stage == .read { hasRead = true } }
        defer { database.runner.onStage = nil }
        guard case .applied(let counts) = try database.apply(records) else {
            Issue.record("not applied")
            return (BatchCounts(), hasRead)
        }
        return (counts, hasRead)
    }

    private func row(_ database: Database) throws -> SourceDay? {
        try database.reads.sourceRows(of: alice, today...today).first?.rows.first?.state
    }

    private func canonical(_ database: Database) throws -> CanonicalDay? {
        try database.reads.canonicalDays(of: alice, today...today).first?.day
    }

    @Test(arguments: ["", "watch \"and\" \\ phone"])
    func `a changed day of the user's only source is written without being read`(origin: String) throws {
        let database = try Database(portionDays: 3)
        func days(_ steps: Int32) -> [(Int, MetricValues)] {
            (0..<10).map { ($0, [.steps: steps, .restingHeartRate: 600]) }
        }
        try database.apply([record(alice, .appleHealth, minute: 0, origin: origin, days(100))])
        let second = record(alice, .appleHealth, minute: 60, origin: origin, closed: true, days(200))
        let (counts, hasRead) = try apply(database, [second])
        #expect(!hasRead && counts.changed == 10)
        #expect(counts.sourceRowsWritten == 10 && counts.canonicalWritten == 10)
        #expect(try row(database)?.values == [.steps: 200, .restingHeartRate: 600])
        #expect(try row(database)?.version(of: .steps) == second.version)
        let day = try #require(try canonical(database))
        #expect(day.values == [.steps: 200, .restingHeartRate: 600] && day.isFinal)
        #expect(day.winners == Array(repeating: Provenance(source: .appleHealth, origin: origin), count: 2))
        #expect(try database.drift(of: [alice]) == 0)
        // Again: nothing to do. Older: not taken.
        #expect(try apply(database, [second]).counts.older == 10)
        #expect(
            try apply(database, [record(alice, .appleHealth, minute: 30, origin: origin, days(300))]).counts.older == 10
        )
        #expect(try row(database)?.values[.steps] == 200)
    }

    @Test func `a row with a metric that the window does not know is read after all`() throws {
        let database = try Database()
        try database.apply([record(alice, .appleHealth, minute: 10, [(0, [.sleepMinutes: 4000])])])
        // Newer, and without the sleep: the row has two versions.
        try database.apply([record(alice, .appleHealth, minute: 20, [(0, [.steps: 100])])])
        let (counts, hasRead) = try apply(database, [record(alice, .appleHealth, minute: 60, [(0, [.steps: 200])])])
        #expect(hasRead && counts.changed == 1 && counts.sourceRowsWritten == 1 && counts.canonicalWritten == 1)
        #expect(try row(database)?.values == [.steps: 200, .sleepMinutes: 4000])
        #expect(try canonical(database)?.values == [.steps: 200, .sleepMinutes: 4000])
        #expect(try database.drift(of: [alice]) == 0)
    }

    @Test func `beside another source's row the day is read`() throws {
        let database = try Database()
        try database.apply([record(alice, .oura, minute: 0, [(0, [.steps: 150])])])
        try database.apply([record(alice, .appleHealth, minute: 10, [(0, [.steps: 100])])])
        let (_, hasRead) = try apply(database, [record(alice, .appleHealth, minute: 60, [(0, [.steps: 120])])])
        #expect(hasRead)
        #expect(try canonical(database)?.values[.steps] == 150)
        #expect(try database.drift(of: [alice]) == 0)
    }

    @Test(arguments: [
        "DELETE FROM canonical_days", "DELETE FROM source_days", "DELETE FROM source_days; DELETE FROM canonical_days",
        "UPDATE source_days SET version = version + 1000", "UPDATE source_days SET closed = closed",
    ])
    func `whatever became of the rows, the day ends as it has to`(meddling: String) throws {
        let database = try Database()
        let bob = UserID(high: alice.high, low: alice.low + 1)
        for user in [alice, bob] { try database.apply([record(user, .appleHealth, minute: 0, [(0, [.steps: 100])])]) }
        try database.connection.simpleQuery(meddling)
        let later = [alice, bob].map { record($0, .appleHealth, minute: 60, [(0, [.steps: 200])]) }
        #expect(try apply(database, later).counts.changed == 2)
        #expect(try row(database)?.values[.steps] == 200)
        #expect(try canonical(database)?.values[.steps] == 200)
        #expect(try database.drift(of: [alice, bob]) == 0)
        #expect(try apply(database, later).counts.older == 2)
    }

    @Test func `its plan goes by the indexes, whether the tables are empty or full`() throws {
        let database = try Database()
        for isFull in [false, true] {
            if isFull {
                let users = (1...300).map { UserID(high: UInt64($0) << 32, low: 7) }
                let days: [(Int, MetricValues)] = (0..<20).map { ($0, [.steps: 100]) }
                try database.apply(users.map { record($0, .appleHealth, minute: 0, days) })
                try database.connection.simpleQuery("ANALYZE source_days; ANALYZE canonical_days")
            }
            try database.apply([])
            let nulls = Array(repeating: "NULL", count: 14 + Metric.count).joined(separator: ", ")
            let result = try database.connection.simpleQuery("EXPLAIN EXECUTE replace_days(\(nulls))")[0]
            let plan = try (0..<result.rowCount).map { try result.text($0, 0) }
            #expect(plan.contains { $0.contains("Index Scan using source_days_") }, "\(plan)")
            // Each row of a day by its key: a scan of a whole table would have no user in its condition.
            let scans = plan.indices.filter { plan[$0].contains("Scan using") }
            for line in scans { #expect(plan[line + 1].contains("Index Cond: ((user_id = "), "\(plan)") }
        }
    }
}

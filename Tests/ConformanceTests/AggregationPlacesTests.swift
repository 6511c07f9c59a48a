import Aggregation
import Domain
import MessageContract
import Postgres
import Storage
import Testing

/// What a batch read under the locks it takes for true until its COMMIT: where it is not, nothing may be written.
@Suite struct `Rows are written where they were read` {
    private typealias Database = AggregationDatabase

    private let today = AggregationDatabase.today
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)

    /// With two sources days are read before they are written.
    private var ring: DecodedDays { record(alice, .oura, minute: 0, [(9, [.steps: 10])]) }

    @Test(arguments: [
        "UPDATE source_days SET closed = closed", "UPDATE canonical_days SET final = final",
        "UPDATE connections SET last_push_at = last_push_at",
        "DELETE FROM canonical_days WHERE day = (SELECT max(day) FROM canonical_days)",
    ])
    func `a row that somebody moves without the account's lock rolls the batch back, and the next try holds (D2)`(
        meddling: String
    ) throws {
        let database = try Database()
        let meddler = try PostgresConnection(url: database.url, applicationName: "meddler")
        try database.apply([record(alice, .appleHealth, minute: 0, [(0, [.steps: 10]), (1, [.steps: 10])]), ring])
        try meddle(database, meddler, meddling, record(alice, .appleHealth, minute: 60, [(0, [.steps: 20])]))
    }

    @Test func `a row that somebody inserts without the account's lock rolls the batch back too`() throws {
        let database = try Database()
        let meddler = try PostgresConnection(url: database.url, applicationName: "meddler")
        try database.apply([record(alice, .appleHealth, minute: 0, [(1, [.steps: 10])])])
        let copy = "user_id, day + 1, source, closed, version, origin, versions, steps FROM source_days"
        let meddling = """
            INSERT INTO source_days (user_id, day, source, closed, version, origin, versions, steps)
            SELECT \(copy)
            """
        try meddle(database, meddler, meddling, record(alice, .appleHealth, minute: 60, [(0, [.steps: 20])]))
    }

    @Test func `a row that moves in a later portion undoes the portions that were written before it (D2)`() throws {
        let database = try Database(portionDays: 1)
        let meddler = try PostgresConnection(url: database.url, applicationName: "meddler")
        let bob = UserID(high: alice.high, low: alice.low + 1)
        let users = [alice, bob]
        try database.apply(users.map { record($0, .appleHealth, minute: 0, [(0, [.steps: 10])]) })
        try database.apply(users.map { record($0, .oura, minute: 0, [(9, [.steps: 10])]) })
        var merges = 0
        database.runner.onStage = { stage, _ in
            guard stage == .merge else { return }
            merges += 1
            // Alice's rows are on their way to the table, Bob's are read.
            let meddling = "UPDATE source_days SET closed = closed WHERE user_id = '\(bob)'"
            if merges == 2 { _ = try? meddler.simpleQuery(meddling) }
        }
        let later = users.map { record($0, .appleHealth, minute: 60, [(0, [.steps: 20])]) }
        let error = #expect(throws: PostgresError.self) { try database.apply(later) }
        #expect(error?.isMovedRow == true)
        database.runner.onStage = nil
        for user in users {
            #expect(
                try database.reads.sourceRows(of: user, today...today).first?.rows.first?.state.values[.steps] == 10
            )
        }
        guard case .applied = try database.apply(later) else { Issue.record("not applied"); return }
        for user in users {
            #expect(
                try database.reads.sourceRows(of: user, today...today).first?.rows.first?.state.values[.steps] == 20
            )
        }
        #expect(try database.drift(of: users) == 0)
    }

    private func meddle(
        _ database: Database,
        _ meddler: PostgresConnection,
        _ meddling: String,
        _ record: DecodedDays
    ) throws {
        var failure: (any Error)?
        var isDone = false
        database.runner.onStage = { stage, _ in
            guard stage == .merge, !isDone else { return }
            isDone = true
            do { try meddler.simpleQuery(meddling) } catch { failure = error }
        }
        let error = #expect(throws: PostgresError.self) { try database.apply([record]) }
        #expect(failure == nil && error?.disposition == .retry && error?.isMovedRow == true)
        #expect(try database.reads.sourceRows(of: alice, today...today).first?.rows.first?.state.values[.steps] != 20)
        database.runner.onStage = nil
        guard case .applied = try database.apply([record]) else { Issue.record("not applied"); return }
        #expect(try database.reads.sourceRows(of: alice, today...today).first?.rows.first?.state.values[.steps] == 20)
        #expect(try database.drift(of: [alice]) == 0)
    }

    @Test func `windows are written in the database's format, and older ones are read and written anew`() throws {
        let database = try Database()
        let days: [(Int, MetricValues)] = (0..<15).map { ($0, [.steps: 80_000]) }
        func format() throws -> Int16 {
            let result = try database.connection.executeUnprepared(
                "SELECT get_byte(recent_window, 0)::int2 FROM connections WHERE recent_window IS NOT NULL"
            )
            return try result.int2(0, 0)
        }
        try database.connection.simpleQuery("UPDATE control SET window_format = 1")
        try database.apply([record(alice, .appleHealth, minute: 0, days)])
        #expect(try format() == 1)
        try database.connection.simpleQuery("UPDATE control SET window_format = 2")
        let result = try database.apply([record(alice, .appleHealth, minute: 30, days)])
        guard case .applied(let counts) = result else { Issue.record("not applied"); return }
        #expect(try counts.confirmed == 15 && counts.sourceRowsWritten == 0 && format() == 2)
        try database.connection.simpleQuery("UPDATE control SET window_format = 3")
        #expect(throws: SchemaGate.Refusal.self) { try database.apply([record(alice, .appleHealth, minute: 60, days)]) }
    }
}

import Aggregation
import Domain
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// Several writers of the same users at once.
@Suite struct `Batches that contend on PostgreSQL` {
    private static let today = CalendarDay(daysSinceEpoch: 20_606)
    private static let sources: [Source] = [.appleHealth, .garmin, .oura, .manual]

    /// One record of each user, in this order.
    private static func batch(_ users: [UserID], lane: Int, round: Int) -> [DecodedDays] {
        users.map { user in
            let received = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: round * 60 + lane)
            let event = EventID(high: 0, low: UInt64(lane))
            let version = Version(observedAt: nil, receivedAt: received, event: event)
            let steps = Int32(round * 10 + lane + 1) * 10
            return DecodedDays(
                user: user,
                source: sources[lane],
                origin: "",
                event: event,
                receivedAt: received,
                version: version,
                localDate: today,
                readings: [Reading(day: today, values: [.steps: steps], version: version, closed: false)]
            )
        }
    }

    @Test func `four connections with the same users in opposite orders: no deadlock, nothing lost (C9)`() async throws
    {
        let url = try PrivatePostgres.freshDatabase()
        let setup = try PostgresConnection(url: url, applicationName: "test setup")
        try Migrator(setup).migrate(today: Self.today)
        let users = (0..<25).map { UserID(high: 12, low: UInt64($0)) }
        let retries = try await withThrowingTaskGroup(of: Int.self) { group in
            for lane in 0..<4 {
                group.addTask {
                    let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
                    let connection = try PostgresConnection(url: url, applicationName: "lane", settings: settings)
                    let runner = BatchRunner(store: BatchStore(connection), portionDays: lane < 2 ? 5 : 1000)
                    var retries = 0
                    for round in 0..<40 {
                        let order = lane.isMultiple(of: 2) ? users : users.reversed()
                        let records = Self.batch(order, lane: lane, round: round)
                        while true {
                            do {
                                _ = try runner.run(records, fence: nil)
                                break
                            } catch let error as PostgresError where error.disposition == .retry {
                                // Who holds the locks finds every row where it read it.
                                #expect(!error.isMovedRow)
                                retries += 1
                            }
                        }
                    }
                    return retries
                }
            }
            return try await group.reduce(0, +)
        }
        let reads = DayReads(setup)
        for user in users {
            let rows = try reads.sourceRows(of: user, Self.today...Self.today).first?.rows ?? []
            #expect(rows.count == 4)
            for (lane, source) in Self.sources.enumerated() {
                let row = rows.first { $0.provenance.source == source }
                #expect(row?.state.values[.steps] == Int32(39 * 10 + lane + 1) * 10)
            }
            #expect(try reads.drift(of: user).drifted == 0)
        }
        let deadlocks = try setup.executeUnprepared(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        #expect(try deadlocks.int8(0, 0) == 0)
        print("\(retries) batches were tried again")
    }
}

import Aggregation
import Domain
import MessageContract
import Postgres
import Storage
import TestSupport

/// A database of its own with a batch runner on it, and readers beside.
struct AggregationDatabase {
    static let today = CalendarDay(daysSinceEpoch: 20_606)

    let url: String
    let connection: PostgresConnection
    let runner: BatchRunner
    let reads: DayReads

    init(portionDays: Int = BatchRunner.portionDays) throws {
        url = try PrivatePostgres.freshDatabase()
        let setup = try PostgresConnection(url: url, applicationName: "test setup")
        try Migrator(setup).migrate(today: Self.today)
        let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
        connection = try PostgresConnection(url: url, applicationName: "test batch", settings: settings)
        runner = BatchRunner(store: BatchStore(connection), portionDays: portionDays)
        reads = DayReads(setup)
    }

    @discardableResult
    func apply(_ records: [DecodedDays], fence: Fence? = nil) throws -> BatchRunner.Result {
        try runner.run(records, fence: fence)
    }

    func drift(of users: [UserID]) throws -> Int {
        try users.reduce(0) { try $0 + reads.drift(of: $1).drifted }
    }
}

/// A decoded record of days, by how many days ago they were.
func record(
    _ user: UserID,
    _ source: Source,
    minute: Int,
    origin: String = "",
    closed: Bool = false,
    tie: UInt64 = 0,
    _ days: [(Int, MetricValues)]
) -> DecodedDays {
    let received = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: minute * 60)
    let event = EventID(high: 0, low: tie)
    let version = Version(observedAt: nil, receivedAt: received, event: event)
    return DecodedDays(
        user: user,
        source: source,
        origin: origin,
        event: event,
        receivedAt: received,
        version: version,
        localDate: AggregationDatabase.today,
        readings: days.map {
            Reading(day: AggregationDatabase.today.advanced(by: -$0.0), values: $0.1, version: version, closed: closed)
        }
    )
}

import Aggregation
import Domain
import MessageContract
import Postgres
import Storage
import TestSupport
import WakeRules

/// A database with users who may be woken.
struct WakesUnderTest {
    static let topic = Topic.daysLive.name(prefix: "")
    static let start = Instant(microseconds: 1_780_000_000_000_000)
    static let today = CalendarDay(daysSinceEpoch: 20_606)

    let url: String
    let connection: PostgresConnection
    let runner: BatchRunner
    private let partitions: Int

    init(partitions: Int = 4) throws {
        url = try PrivatePostgres.freshDatabase()
        connection = try PostgresConnection(url: url, applicationName: "test setup")
        try Migrator(connection).migrate(today: Self.today)
        try WakeMonths(connection).ensureAhead(of: Self.start.day(secondsFromUTC: 0))
        let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
        runner = BatchRunner(
            store: BatchStore(try PostgresConnection(url: url, applicationName: "batch", settings: settings))
        )
        self.partitions = partitions
        try setApplied(Instant(microseconds: 0))
    }

    static func user(_ number: Int) -> UserID { WakeUsers.user(number) }

    func at(hours: Double) -> Instant { Self.start.advanced(bySeconds: Int(hours * 3600)) }

    func store(role: String? = nil) throws -> WakeStore {
        let settings =
            PostgresConnection.recommendedSettings + BatchStore.sessionSettings + (role.map { [("role", $0)] } ?? [])
        let connection = try PostgresConnection(url: url, applicationName: "wakes", settings: settings)
        return WakeStore(connection, topic: Self.topic) { _, _ in 0 }
    }

    func setApplied(_ time: Instant) throws {
        try WakeUsers.setApplied(time, topic: Self.topic, partitions: partitions, on: connection)
    }

    /// Users with a phone that pushed then and a token, on the schedule from then on.
    func add(_ numbers: Range<Int>, pushedAt: Instant, dueAt: Instant, token: Bool = true) throws {
        try WakeUsers.add(numbers, pushedAt: pushedAt, dueAt: dueAt, token: token, to: connection)
    }

    func round(_ now: Instant, worker: UInt64 = 1) throws -> WakeRound {
        let store = try store()
        let shared = try store.shared(ownClock: 0, retentionSeconds: 30 * 86_400)
        var pipeline = shared.pipeline
        // Time is the test's own.
        pipeline.clockSkewMilliseconds = 0
        return WakeRound(
            policy: WakePolicy(schedule: SendSchedule(.continuous)),
            pipeline: pipeline,
            leaseSeconds: 60,
            worker: UUID128(high: worker, low: worker)
        )
    }

    func push(_ number: Int, _ time: Instant, steps: Int32 = 10, from source: Source = .appleHealth) throws {
        _ = try runner.run([Self.days(of: number, time, steps: steps, from: source)], fence: nil)
    }

    /// What a phone posts.
    static func days(
        of number: Int,
        _ time: Instant,
        steps: Int32 = 10,
        from source: Source = .appleHealth
    ) -> DecodedDays {
        let event = EventID(high: 0, low: 1)
        let version = Version(observedAt: nil, receivedAt: time, event: event)
        return DecodedDays(
            user: user(number),
            source: source,
            origin: "",
            event: event,
            receivedAt: time,
            version: version,
            localDate: today,
            readings: [Reading(day: today, values: [.steps: steps * 10], version: version, closed: false)]
        )
    }

    func schedule(_ number: Int) throws -> WakeSchedule {
        let result = try connection.executeUnprepared(
            """
            SELECT due_at, last_wake_at, previous_wake_at, unanswered::int4, struck_at, claim, claimed_until
            FROM wake_schedule WHERE user_id = '\(Self.user(number))'
            """
        )
        return WakeSchedule(
            dueAt: try result.int8(0, 0),
            lastWakeAt: try result.int8(0, 1),
            previousWakeAt: try result.int8(0, 2),
            unanswered: Int(try result.int4(0, 3)),
            struckAt: try result.int8(0, 4),
            claim: try result.int8(0, 5),
            claimedUntil: try result.int8(0, 6)
        )
    }

    func wakes(_ number: Int) throws -> [WakeReports.Wake] {
        try WakeReports(connection).wakes(of: Self.user(number), limit: 100)
    }

    func openWake(_ number: Int) throws -> Int64 {
        try connection.executeUnprepared(
            "SELECT open_wake_at FROM accounts WHERE user_id = '\(Self.user(number))'"
        ).int8(0, 0)
    }
}

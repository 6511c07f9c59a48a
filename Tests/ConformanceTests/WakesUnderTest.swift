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

    init(partitions: Int = 4) throws {
        url = try PrivatePostgres.freshDatabase()
        connection = try PostgresConnection(url: url, applicationName: "test setup")
        try Migrator(connection).migrate(today: Self.today)
        try WakeMonths(connection).ensureAhead(of: Self.today)
        let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
        runner = BatchRunner(
            store: BatchStore(try PostgresConnection(url: url, applicationName: "batch", settings: settings))
        )
        for partition in 0..<partitions {
            try connection.simpleQuery(
                """
                INSERT INTO consumer_offsets (topic, partition, cluster_id, owner, epoch, next_offset, applied_through)
                VALUES ('\(Self.topic)', \(partition), 'a', '\(UserID(high: 1, low: 1))', 1, 0, 0)
                """
            )
        }
    }

    static func user(_ number: Int) -> UserID {
        UserID(high: 0x4000 | UInt64(number) << 16, low: 0x8000_0000_0000_0000)
    }

    func at(hours: Double) -> Instant { Self.start.advanced(bySeconds: Int(hours * 3600)) }

    func store(role: String? = nil) throws -> WakeStore {
        let settings =
            PostgresConnection.recommendedSettings + BatchStore.sessionSettings + (role.map { [("role", $0)] } ?? [])
        let connection = try PostgresConnection(url: url, applicationName: "wakes", settings: settings)
        return WakeStore(connection, topic: Self.topic) { _, _ in 0 }
    }

    func setApplied(_ time: Instant) throws {
        try connection.simpleQuery("UPDATE consumer_offsets SET applied_through = \(time.microseconds)")
    }

    /// Users with a phone that pushed then and a token, on the schedule from then on.
    func add(_ numbers: Range<Int>, pushedAt: Instant, dueAt: Instant, token: Bool = true) throws {
        try connection.simpleQuery(
            """
            CREATE TEMPORARY TABLE IF NOT EXISTS fresh (number bigint, user_id uuid);
            TRUNCATE fresh;
            INSERT INTO fresh
            SELECT number, (lpad(to_hex(number >> 16), 8, '0') || '-' || lpad(to_hex(number & 65535), 4, '0')
                || '-4000-8000-000000000000')::uuid
            FROM generate_series(\(numbers.lowerBound)::bigint, \(numbers.upperBound - 1)::bigint) AS number;
            INSERT INTO accounts (user_id, bucket) SELECT user_id, number % 4096 FROM fresh;
            INSERT INTO connections (user_id, source, origin, last_push_at)
            SELECT user_id, 1, '', \(pushedAt.microseconds) FROM fresh;
            INSERT INTO wake_schedule (user_id, due_at) SELECT user_id, \(dueAt.microseconds) FROM fresh;
            """
        )
        guard token else { return }
        let version = Version(observedAt: nil, receivedAt: pushedAt, event: EventID(high: 0, low: 0)).rawValue
        try connection.simpleQuery(
            """
            INSERT INTO device_tokens
                (token_hash, user_id, bucket, registered_version, token, platform, environment, app_id, app_version)
            SELECT sha256(user_id::text::bytea), user_id, 0, \(version), encode(sha256(user_id::text::bytea), 'hex'),
                'ios', 'production', 'com.example', '4.2' FROM fresh
            """
        )
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
        let event = EventID(high: 0, low: 1)
        let version = Version(observedAt: nil, receivedAt: time, event: event)
        let record = DecodedDays(
            user: Self.user(number),
            source: source,
            origin: "",
            event: event,
            receivedAt: time,
            version: version,
            localDate: Self.today,
            readings: [Reading(day: Self.today, values: [.steps: steps * 10], version: version, closed: false)]
        )
        _ = try runner.run([record], fence: nil)
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

import Aggregation
import Domain
import MessageContract
import Postgres
import ServiceRuntime
import Storage
import TestSupport
import Testing

/// Registrations, moves, withdrawals and deletions with real rows.
@Suite struct `Device tokens on PostgreSQL` {
    private struct Database {
        let url: String
        let connection: PostgresConnection
        let runner: BatchRunner
        let tokens: DeviceTokens

        init() throws {
            url = try PrivatePostgres.freshDatabase()
            let setup = try PostgresConnection(url: url, applicationName: "test setup")
            try Migrator(setup).migrate(today: CalendarDay(daysSinceEpoch: 20_606))
            // As a worker that owns nothing.
            let settings =
                PostgresConnection.recommendedSettings + BatchStore.sessionSettings + [("role", "daybook_worker")]
            connection = try PostgresConnection(url: url, applicationName: "test batch", settings: settings)
            runner = BatchRunner(store: BatchStore(connection))
            tokens = DeviceTokens(connection)
        }

        func apply(_ records: [DecodedDevice]) throws { _ = try runner.run(records, fence: nil) }
        func apply(_ change: DecodedAccount) throws { _ = try runner.run([change], fence: nil) }

        func live() throws -> [UserID: [UInt8]] {
            let users = try connection.executeUnprepared("SELECT user_id FROM accounts ORDER BY user_id")
            let all = try (0..<users.rowCount).map { row in
                let user = try users.uuid(row, 0)
                return UserID(high: user.high, low: user.low)
            }
            var live: [UserID: [UInt8]] = [:]
            for token in try tokens.live(of: all) {
                live[token.key.user, default: []].append(token.key.hash.bytes[0])
                #expect(token.registration.token == "token \(token.key.hash.bytes[0])")
            }
            return live
        }

        func count(_ condition: String = "true") throws -> Int64 {
            try connection.executeUnprepared("SELECT count(*) FROM device_tokens WHERE \(condition)").int8(0, 0)
        }

        func hash() throws -> TableHash { try DayReads(connection).tableHashes().devices }
    }

    private let ann = UserID(high: 9, low: 1)
    private let bob = UserID(high: 9, low: 2)
    private static let start = Instant(microseconds: 1_780_000_000_000_000)

    private func token(_ number: UInt8) -> DeviceTokenHash { DeviceTokenHash(InlineArray(repeating: number)) }

    private func record(
        _ user: UserID,
        _ number: UInt8,
        minute: Int,
        tie: UInt64 = 0,
        app: String = "com.example.app",
        withdraws: Bool = false
    ) -> DecodedDevice {
        let registration = DeviceRegistration(
            token: "token \(number)",
            platform: .ios,
            environment: .sandbox,
            appID: app,
            appVersion: "1",
            osVersion: "2",
            timeZone: number % 2 == 0 ? nil : "Europe/Athens"
        )
        return DecodedDevice(
            hash: token(number),
            record: DeviceRecord(user: user, registration: withdraws ? nil : registration),
            envelope: Envelope(
                event: EventID(high: 0, low: tie),
                receivedAt: Self.start.advanced(bySeconds: minute * 60)
            )
        )
    }

    private func deletion(_ user: UserID, minute: Int) -> DecodedAccount {
        let received = Self.start.advanced(bySeconds: minute * 60)
        return DecodedAccount(
            user: user,
            record: .delete,
            envelope: Envelope(event: EventID(high: 0, low: 0), receivedAt: received)
        )
    }

    @Test func `a registration comes back as it was, moves to another user, and is withdrawn by its own user alone`()
        throws
    {
        let database = try Database()
        try database.apply([record(ann, 1, minute: 1), record(ann, 2, minute: 1)])
        #expect(try database.live() == [ann: [1, 2]])
        let found = try database.tokens.live(of: [ann]).first
        #expect(found?.registration == record(ann, 1, minute: 1).record.registration)
        #expect(found?.version == record(ann, 1, minute: 1).version)
        try database.apply([record(bob, 1, minute: 5)])
        #expect(try database.live() == [ann: [2], bob: [1]])
        #expect(try database.count("token IS NULL") == 1)
        try database.apply([record(ann, 1, minute: 6, withdraws: true), record(ann, 1, minute: 1)])
        #expect(try database.live() == [ann: [2], bob: [1]])
        try database.apply([record(bob, 1, minute: 7, withdraws: true)])
        #expect(try database.live() == [ann: [2]])
        #expect(try database.count("token IS NULL") == 2)
        try database.apply([record(ann, 1, minute: 8)])
        #expect(try database.live() == [ann: [1, 2]])
    }

    @Test func `a deleted account's entries are left as hash and versions, and a replay does not fill them (D7)`()
        throws
    {
        let database = try Database()
        let records = [record(ann, 1, minute: 1), record(ann, 2, minute: 9), record(bob, 3, minute: 1)]
        try database.apply(records)
        try database.apply(deletion(ann, minute: 5))
        #expect(try database.live() == [ann: [2], bob: [3]])
        let columns = "coalesce(token, platform, environment, app_id, app_version, os_version, time_zone)"
        #expect(try database.count("user_id = '\(ann)' AND registered_version > 0") == 2)
        #expect(try database.count("user_id = '\(ann)' AND \(columns) IS NULL") == 1)
        try database.apply(records)
        #expect(try database.count("user_id = '\(ann)' AND \(columns) IS NULL") == 1)
        #expect(try database.live() == [ann: [2], bob: [3]])
    }

    @Test func `a token that was found dead stays so through replays, until it is registered again (W4)`() throws {
        let database = try Database()
        try database.apply([record(ann, 1, minute: 10), record(ann, 2, minute: 10)])
        let time = { (minute: Int) in Self.start.advanced(bySeconds: minute * 60) }
        try database.tokens.deactivate([
            (DeviceKey(hash: token(2), user: ann), time(10)), (DeviceKey(hash: token(1), user: ann), time(9)),
            (DeviceKey(hash: token(2), user: ann), time(8)),
        ])
        #expect(try database.live() == [ann: [1]])
        try database.tokens.deactivate([(DeviceKey(hash: token(2), user: ann), time(3))])
        try database.apply([record(ann, 2, minute: 10), record(bob, 2, minute: 10)])
        #expect(try database.live() == [ann: [1]], "neither a replay nor an older time brings it back")
        try database.apply([record(bob, 2, minute: 11)])
        #expect(try database.live() == [ann: [1], bob: [2]])
    }

    @Test func `the first token of a user with a phone makes them due; the next launch does not (W14)`() throws {
        let database = try Database()
        func due() throws -> [Int64] {
            let result = try database.connection.executeUnprepared("SELECT due_at FROM wake_schedule")
            return try (0..<result.rowCount).map { try result.int8($0, 0) }
        }
        try database.apply([record(ann, 1, minute: 1)])
        #expect(try due().isEmpty, "nothing is connected")
        try database.connection.simpleQuery(
            "INSERT INTO connections VALUES ('\(ann)', 1, '', \(Self.start.microseconds), 0, NULL)"
        )
        try database.apply([record(ann, 1, minute: 2)])
        #expect(try due().isEmpty, "it was live before")
        try database.connection.simpleQuery("INSERT INTO wake_schedule VALUES ('\(ann)', \(Int64.max), 7, 3)")
        try database.tokens.deactivate([(DeviceKey(hash: token(1), user: ann), Self.start.advanced(bySeconds: 900))])
        try database.apply([record(ann, 1, minute: 14)])
        #expect(try due() == [.max])
        try database.apply([record(ann, 1, minute: 40_000)])
        #expect(try due() == [Self.start.advanced(bySeconds: 4 * 3600).microseconds])
        let row = try database.connection.executeUnprepared("SELECT last_wake_at, unanswered FROM wake_schedule")
        #expect(try row.int8(0, 0) == 7 && row.int2(0, 1) == 3)
    }

    @Test func `old dead entries are dropped, unless another would come back to life`() throws {
        let database = try Database()
        let late = 100_000
        try database.apply([
            record(ann, 1, minute: 1), record(bob, 1, minute: 2), record(bob, 1, minute: 3, withdraws: true),
            record(ann, 2, minute: 1), record(ann, 2, minute: 2, withdraws: true),
            record(ann, 3, minute: 1), record(ann, 4, minute: late, withdraws: true), record(ann, 5, minute: 1),
            record(ann, 6, minute: 1), record(bob, 6, minute: late),
        ])
        try database.tokens.deactivate([(DeviceKey(hash: token(5), user: ann), Self.start.advanced(bySeconds: 60))])
        let oldest = Self.start.advanced(bySeconds: (late - 1) * 60)
        #expect(try database.tokens.drop(olderThan: oldest, limit: 3) == 3)
        #expect(try database.tokens.drop(olderThan: oldest) == 2)
        #expect(try database.tokens.drop(olderThan: oldest) == 0)
        #expect(try database.live() == [ann: [3], bob: [6]])
        #expect(try database.count() == 3)
        try database.apply([record(ann, 7, minute: 1), record(bob, 7, minute: 2, withdraws: true)])
        try database.apply([record(bob, 7, minute: 1, tie: 1)])
        try database.connection.simpleQuery(
            "UPDATE device_tokens SET token = 'token 7', platform = 'ios', environment = 'sandbox' "
                + "WHERE token_hash = decode(repeat('07', 32), 'hex') AND user_id = '\(ann)'"
        )
        #expect(try database.tokens.drop(olderThan: oldest) == 0, "the owner's entry keeps the older one down")
        #expect(try database.live() == [ann: [3], bob: [6]])
    }

    @Test func `people are shown entries without the token`() throws {
        let database = try Database()
        try database.apply([record(ann, 1, minute: 1), record(ann, 2, minute: 2, withdraws: true)])
        let shown = try database.tokens.shown(of: ann)
        #expect(shown.map(\.hash) == [token(2), token(1)] && shown.map(\.isLive) == [false, true])
        #expect(shown.last?.entry.registration?.token == "" && shown.last?.entry.registration?.platform == .ios)
        #expect(shown.first?.entry.registration == nil)
    }

    @Test func `a user's tokens and the dead ones are found by their indexes`() throws {
        let database = try Database()
        func plan(_ sql: String) throws -> String {
            let result = try database.connection.executeUnprepared("EXPLAIN \(sql)")
            return try (0..<result.rowCount).map { try result.text($0, 0) }.joined(separator: "\n")
        }
        let live = try plan("SELECT * FROM live_device_tokens WHERE user_id = ANY ('{\(ann)}'::uuid[])")
        #expect(live.contains("device_tokens_of_user") && live.contains("device_tokens_pkey"), "\(live)")
        #expect(!live.contains("Seq Scan"), "\(live)")
        let dead = try plan(
            """
            SELECT * FROM device_tokens WHERE greatest(registered_version, withdrawn_version) < 5
                AND (token IS NULL OR deactivated_at > 0)
            """
        )
        #expect(dead.contains("device_tokens_dead"), "\(dead)")
    }

    // MARK: Any order

    private enum Event {
        case device(DecodedDevice)
        case account(DecodedAccount)
    }

    private func events(_ generator: inout SplitMix64) -> [Event] {
        let users = (1...3).map { UserID(high: 9, low: UInt64($0)) }
        return (0..<80).map { _ in
            let user = users.randomElement(using: &generator) ?? ann
            let minute = Int.random(in: 0...40, using: &generator)
            if Int.random(in: 0..<12, using: &generator) == 0 { return .account(deletion(user, minute: minute)) }
            return .device(
                record(
                    user,
                    UInt8.random(in: 1...4, using: &generator),
                    minute: minute,
                    tie: UInt64.random(in: 0...1, using: &generator),
                    app: ["a", "b"].randomElement(using: &generator) ?? "a",
                    withdraws: Int.random(in: 0..<3, using: &generator) == 0
                )
            )
        }
    }

    @Test(arguments: 0..<6)
    func `any order, split and duplication, with deletions anywhere: the same entries and owners (D3, D7, C19)`(
        seed: Int
    ) throws {
        var generator = SplitMix64(seed: UInt64(seed) &* 131 + 7)
        let events = events(&generator)
        var hashes: Set<TableHash> = []
        var owners: Set<[UserID: [UInt8]]> = []
        for _ in 0..<3 {
            let database = try Database()
            var order = events + events.filter { _ in Bool.random(using: &generator) }
            order.shuffle(using: &generator)
            var batch: [DecodedDevice] = []
            for event in order {
                switch event {
                case .device(let record):
                    batch.append(record)
                    if Int.random(in: 0..<4, using: &generator) > 0 { continue }
                    try database.apply(batch)
                    batch = []
                case .account(let change): try database.apply(change)
                }
            }
            try database.apply(batch)
            hashes.insert(try database.hash())
            owners.insert(try database.live())
        }
        #expect(hashes.count == 1 && owners.count == 1, "seed \(seed)")
    }
}

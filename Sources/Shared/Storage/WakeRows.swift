internal import Domain
internal import Postgres
internal import WakeRules

/// A user's facts with what only their account's row says.
struct LockedFacts {
    let facts: WakeFacts
    let openWakeAt: Int64

    var user: UserID { facts.user }
    var schedule: WakeSchedule { facts.schedule }
}

struct WakeWrites {
    var schedules: [(user: UserID, schedule: WakeSchedule)] = []
    var openWakes: [(user: UserID, openAt: Int64)] = []
    var settled: [(user: UserID, wakeAt: Int64)] = []
    /// Of those that are claimed.
    var tokens: [UserID: [WakeToken]] = [:]
}

struct WakeAccount {
    let user: UserID
    let bucket: Int16
    let openWakeAt: Int64
    let deletedVersion: Int64
}

extension WakeStore {
    private static func onDevice() -> PostgresArray {
        var sources = PostgresArray(of: .int2)
        for source in Source.allCases where source.kind == .onDevice { sources.append(int2: Int16(source.rawValue)) }
        return sources
    }

    /// Reads what decides about these users, in one round trip; behind their locks where there are any. A device token
    /// whose row can't be read is counted, and otherwise as if it were not there.
    func readFacts(_ accounts: [WakeAccount], now: Instant) throws -> (facts: [LockedFacts], unreadable: Int) {
        var one = PostgresParameters()
        one.append(Self.array(accounts.map(\.user)))
        var two = one
        two.append(Self.onDevice())
        let statements = try (
            prepare("wake_schedules", WakeStatements.schedules),
            prepare("wake_connections", WakeStatements.connections),
            prepare("wake_disconnects", WakeStatements.disconnects),
            prepare("wake_tokens", DeviceTokens.heldStatement)
        )
        let results = try connection.pipeline { pipeline in
            pipeline.execute(statements.0, one)
            pipeline.execute(statements.1, two)
            pipeline.execute(statements.2, two)
            pipeline.execute(statements.3, one)
        }
        let schedules = try Self.schedules(results[0])
        let connections = try Self.connections(results[1], disconnects: results[2])
        var tokens: [UserID: [WakeToken]] = [:]
        let (live, unreadable) = try DeviceTokens.readable(results[3])
        for live in live {
            let token = WakeToken(
                user: live.key.user,
                hash: live.key.hash,
                registration: live.registration,
                registered: live.version
            )
            tokens[live.key.user, default: []].append(token)
        }
        let found = accounts.compactMap { account -> LockedFacts? in
            // Without a row there is nothing to decide: the account was erased in the meantime.
            guard let schedule = schedules[account.user] else { return nil }
            // What was registered before the account was deleted went with it.
            let mine = (tokens[account.user] ?? []).filter { $0.registered.rawValue >= account.deletedVersion }
            let zone = mine.max { $0.registered < $1.registered }?.registration.timeZone
            let facts = WakeFacts(
                user: account.user,
                bucket: Int(account.bucket),
                connections: connections[account.user] ?? [],
                tokens: mine,
                schedule: schedule,
                secondsFromUTC: zone.flatMap { offset($0, now) } ?? 0
            )
            return LockedFacts(facts: facts, openWakeAt: account.openWakeAt)
        }
        return (found, unreadable)
    }

    // MARK: Reading

    static func user(_ result: PostgresResult, _ row: Int) throws(PostgresError) -> UserID {
        let user = try result.uuid(row, 0)
        return UserID(high: user.high, low: user.low)
    }

    static func accounts(_ result: PostgresResult) throws(PostgresError) -> [WakeAccount] {
        var accounts: [WakeAccount] = []
        accounts.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            accounts.append(
                WakeAccount(
                    user: try user(result, row),
                    bucket: try result.int2(row, 1),
                    openWakeAt: try result.int8(row, 2),
                    deletedVersion: try result.int8(row, 3)
                )
            )
        }
        return accounts
    }

    static func schedules(_ result: PostgresResult) throws(PostgresError) -> [UserID: WakeSchedule] {
        var schedules: [UserID: WakeSchedule] = [:]
        schedules.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            schedules[try user(result, row)] = WakeSchedule(
                dueAt: try result.int8(row, 1),
                lastWakeAt: try result.int8(row, 2),
                previousWakeAt: try result.int8(row, 3),
                unanswered: Int(try result.int2(row, 4)),
                struckAt: try result.int8(row, 5),
                claim: try result.int8(row, 6),
                claimedUntil: try result.int8(row, 7)
            )
        }
        return schedules
    }

    private static func connections(
        _ result: PostgresResult,
        disconnects: PostgresResult
    ) throws -> [UserID: [WakeFacts.Connection]] {
        var disconnected: [UserSource: Int64] = [:]
        for row in 0..<disconnects.rowCount {
            let source = try source(disconnects, row)
            disconnected[UserSource(user: try user(disconnects, row), source: source)] = try disconnects.int8(row, 2)
        }
        var connections: [UserID: [WakeFacts.Connection]] = [:]
        for row in 0..<result.rowCount {
            let key = UserSource(user: try user(result, row), source: try source(result, row))
            let connection = WakeFacts.Connection(
                source: key.source,
                lastPushAt: Instant(microseconds: try result.int8(row, 2)),
                disconnectedAt: disconnected[key].map(Instant.init(microseconds:))
            )
            connections[key.user, default: []].append(connection)
        }
        return connections
    }

    private static func source(_ result: PostgresResult, _ row: Int) throws -> Source {
        guard let source = Source(rawValue: UInt8(clamping: try result.int2(row, 1))) else {
            throw StorageError.unknownSource
        }
        return source
    }

    // MARK: Writing

    static func array(_ users: [UserID]) -> PostgresArray {
        var array = PostgresArray(of: .uuid, minimumCapacity: users.count)
        for user in users { array.append(uuidHigh: user.high, low: user.low) }
        return array
    }

    static func parameters(_ rows: [(user: UserID, schedule: WakeSchedule)]) -> PostgresParameters {
        var columns = (0..<6).map { _ in PostgresArray(of: .int8) }
        var unanswered = PostgresArray(of: .int2)
        for (_, row) in rows {
            columns[0].append(int8: row.dueAt)
            columns[1].append(int8: row.lastWakeAt)
            columns[2].append(int8: row.previousWakeAt)
            unanswered.append(int2: Int16(clamping: row.unanswered))
            columns[3].append(int8: row.struckAt)
            columns[4].append(int8: row.claim)
            columns[5].append(int8: row.claimedUntil)
        }
        var parameters = PostgresParameters()
        parameters.append(array(rows.map(\.user)))
        for column in columns[..<3] { parameters.append(column) }
        parameters.append(unanswered)
        for column in columns[3...] { parameters.append(column) }
        return parameters
    }

    static func parameters(
        claims rows: [(user: UserID, schedule: WakeSchedule)],
        _ rules: WakeRound,
        _ tokens: [UserID: [WakeToken]]
    ) -> PostgresParameters {
        var wakes = PostgresArray(of: .int8)
        var claims = PostgresArray(of: .int8)
        var counts = PostgresArray(of: .int2)
        var platforms = PostgresArray(of: .text)
        var versions = PostgresArray(of: .text)
        for (user, row) in rows {
            let tried = tokens[user] ?? []
            let newest = tried.max { $0.registered < $1.registered }
            wakes.append(int8: row.lastWakeAt)
            claims.append(int8: row.claim)
            counts.append(int2: Int16(clamping: tried.count))
            platforms.append(text: newest?.registration.platform.rawValue ?? "")
            versions.append(text: newest?.registration.appVersion ?? "")
        }
        var parameters = PostgresParameters()
        parameters.append(array(rows.map(\.user)))
        parameters.append(wakes)
        parameters.append(
            int8: rows.first.map { rules.campaign(at: Instant(microseconds: $0.schedule.lastWakeAt)) } ?? 0
        )
        parameters.append(claims)
        parameters.append(uuidHigh: rules.worker.high, low: rules.worker.low)
        parameters.append(counts)
        parameters.append(platforms)
        parameters.append(versions)
        return parameters
    }

    static func parameters(open rows: [(user: UserID, openAt: Int64)]) -> PostgresParameters {
        var times = PostgresArray(of: .int8)
        for row in rows { times.append(int8: row.openAt) }
        var parameters = PostgresParameters()
        parameters.append(array(rows.map(\.user)))
        parameters.append(times)
        return parameters
    }

    static func parameters(
        _ rows: [(user: UserID, wakeAt: Int64, outcome: String)],
        _ now: Instant
    ) -> PostgresParameters {
        var wakes = PostgresArray(of: .int8)
        var outcomes = PostgresArray(of: .text)
        for row in rows {
            wakes.append(int8: row.wakeAt)
            outcomes.append(text: row.outcome)
        }
        var parameters = PostgresParameters()
        parameters.append(array(rows.map(\.user)))
        parameters.append(wakes)
        parameters.append(outcomes)
        parameters.append(int8: now.microseconds)
        return parameters
    }
}

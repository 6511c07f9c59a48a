internal import Domain
internal import Postgres
internal import WakeRules

/// A user's facts with what only their account's row says.
struct LockedFacts {
    var facts: WakeFacts
    let openWakeAt: Int64
    let deletedVersion: Int64
    let place: WakePlace

    var user: UserID { facts.user }
    var schedule: WakeSchedule { facts.schedule }

    func row(_ schedule: WakeSchedule) -> ScheduleRow {
        ScheduleRow(user: user, schedule: schedule, place: place)
    }
}

/// Where a row lies in its table, for as long as its account is locked.
typealias WakePlace = (block: UInt32, offset: UInt16)

/// A row of the schedule, and where it lies.
struct ScheduleRow {
    let user: UserID
    var schedule: WakeSchedule
    let place: WakePlace
}

struct WakeWrites {
    var schedules: [ScheduleRow] = []
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
    /// Of the row in the schedule, where it was come by.
    let place: WakePlace?
}

extension WakeStore {
    private static func onDevice() -> PostgresArray {
        var sources = PostgresArray(of: .int2)
        for source in Source.allCases where source.kind == .onDevice { sources.append(int2: Int16(source.rawValue)) }
        return sources
    }

    /// Which users' device tokens are read.
    enum TokensOf {
        case all
        /// Most candidates have pushed lately: whoever has is waited for with any tokens, and with none.
        case whoNeedsThem
    }

    /// Reads what decides about these users, behind their locks where there are any.
    func readFacts(
        _ accounts: [WakeAccount],
        _ rules: WakeRound,
        now: Instant,
        tokens: TokensOf
    ) throws -> (facts: [LockedFacts], unreadable: Int) {
        let (schedules, connections) = try readSpacings(accounts)
        var found = accounts.compactMap { account -> LockedFacts? in
            // Without a row there is nothing to decide: the account was erased in the meantime, or a batch has written
            // the row just before its account was locked: the next scan finds it by its new place.
            guard let row = schedules[account.user] else { return nil }
            let facts = WakeFacts(
                user: account.user,
                bucket: Int(account.bucket),
                connections: connections[account.user] ?? [],
                tokens: [],
                schedule: row.schedule
            )
            return LockedFacts(
                facts: facts,
                openWakeAt: account.openWakeAt,
                deletedVersion: account.deletedVersion,
                place: row.place
            )
        }
        let needing =
            switch tokens {
            case .all: Array(found.indices)
            case .whoNeedsThem:
                found.indices.filter { found[$0].facts.needTokens(rules.pipeline, rules.policy, now: now) }
            }
        guard !needing.isEmpty else { return (found, 0) }
        let (live, unreadable) = try readTokens(needing.map { found[$0].user })
        for place in needing {
            // What was registered before the account was deleted went with it.
            let mine = (live[found[place].user] ?? []).filter { $0.registered.rawValue >= found[place].deletedVersion }
            let zone = mine.max { $0.registered < $1.registered }?.registration.timeZone
            found[place].facts.tokens = mine
            found[place].facts.secondsFromUTC = zone.flatMap { offset($0, now) } ?? 0
        }
        return (found, unreadable)
    }

    private func readSpacings(
        _ accounts: [WakeAccount]
    ) throws -> (schedules: [UserID: ScheduleRow], connections: [UserID: [WakeFacts.Connection]]) {
        var one = PostgresParameters()
        one.append(Self.array(accounts.map(\.user)))
        var two = one
        two.append(Self.onDevice())
        let places = accounts.compactMap(\.place)
        let arePlaced = places.count == accounts.count
        if arePlaced {
            one = PostgresParameters()
            one.append(Self.array(places))
        }
        let statements = try (
            arePlaced
                ? prepare("wake_schedules_at", WakeStatements.schedulesAtPlaces)
                : prepare("wake_schedules", WakeStatements.schedules),
            prepare("wake_connections", WakeStatements.connections),
            prepare("wake_disconnects", WakeStatements.disconnects)
        )
        let results = try connection.pipeline { pipeline in
            pipeline.execute(statements.0, one)
            pipeline.execute(statements.1, two)
            pipeline.execute(statements.2, two)
        }
        return (try Self.schedules(results[0]), try Self.connections(results[1], disconnects: results[2]))
    }

    /// A device token whose row can't be read is counted, and otherwise as if it were not there.
    private func readTokens(_ users: [UserID]) throws -> (tokens: [UserID: [WakeToken]], unreadable: Int) {
        var parameters = PostgresParameters()
        parameters.append(Self.array(users))
        let held = try prepare("wake_tokens", DeviceTokens.heldStatement)
        let (live, unreadable) = try DeviceTokens.readable(try connection.execute(held, parameters))
        var tokens: [UserID: [WakeToken]] = [:]
        for live in live {
            let token = WakeToken(
                user: live.key.user,
                hash: live.key.hash,
                registration: live.registration,
                registered: live.version
            )
            tokens[live.key.user, default: []].append(token)
        }
        return (tokens, unreadable)
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
                    deletedVersion: try result.int8(row, 3),
                    place: result.columnCount > 4 ? try result.tid(row, 4) : nil
                )
            )
        }
        return accounts
    }

    static func schedules(_ result: PostgresResult) throws(PostgresError) -> [UserID: ScheduleRow] {
        var schedules: [UserID: ScheduleRow] = [:]
        schedules.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            let user = try user(result, row)
            guard let place = try result.tid(row, 8) else { continue }
            let schedule = WakeSchedule(
                dueAt: try result.int8(row, 1),
                lastWakeAt: try result.int8(row, 2),
                previousWakeAt: try result.int8(row, 3),
                unanswered: Int(try result.int2(row, 4)),
                struckAt: try result.int8(row, 5),
                claim: try result.int8(row, 6),
                claimedUntil: try result.int8(row, 7)
            )
            schedules[user] = ScheduleRow(user: user, schedule: schedule, place: place)
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

    static func array(_ places: [WakePlace]) -> PostgresArray {
        var array = PostgresArray(of: .tid, minimumCapacity: places.count)
        for place in places { array.append(tidBlock: place.block, offset: place.offset) }
        return array
    }

    static func parameters(_ rows: [ScheduleRow]) -> PostgresParameters {
        var columns = (0..<6).map { _ in PostgresArray(of: .int8) }
        var unanswered = PostgresArray(of: .int2)
        for row in rows.lazy.map(\.schedule) {
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
        parameters.append(array(rows.map(\.place)))
        return parameters
    }

    static func parameters(
        claims rows: [ScheduleRow],
        _ rules: WakeRound,
        _ tokens: [UserID: [WakeToken]]
    ) -> PostgresParameters {
        var wakes = PostgresArray(of: .int8)
        var claims = PostgresArray(of: .int8)
        var counts = PostgresArray(of: .int2)
        var platforms = PostgresArray(of: .text)
        var versions = PostgresArray(of: .text)
        for row in rows {
            let tried = tokens[row.user] ?? []
            let newest = tried.max { $0.registered < $1.registered }
            wakes.append(int8: row.schedule.lastWakeAt)
            claims.append(int8: row.schedule.claim)
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

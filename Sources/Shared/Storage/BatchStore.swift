public import Domain
public import Postgres

/// A batch's transaction on one connection: what it locks and the windows in one round trip, the days that the windows
/// leave open (if any) in a second, everything it writes and the COMMIT in the last. Owned by one thread.
public final class BatchStore {
    /// For the session of a batch's connection, beside the time-outs: one generic plan, and no other on offer than by
    /// the indexes, so that a plan made while the tables were small is not kept when they are large. The isolation is
    /// set whatever a role's or a database's default may be: with one snapshot a transaction, what is read behind a
    /// lock would be older than the lock.
    public static let sessionSettings: [(String, String)] = [
        ("default_transaction_isolation", "read committed"),
        ("plan_cache_mode", "force_generic_plan"), ("jit", "off"), ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"), ("enable_mergejoin", "off"), ("enable_bitmapscan", "off"),
    ]

    /// What `commit` found.
    public enum Commit: Hashable, Sendable {
        case committed
        /// The server answered COMMIT with ROLLBACK: nothing was written.
        case rolledBack
    }

    /// A class, so that handing it out copies nothing.
    final class Statements {
        let fence, createAccounts, lockAccounts, control, accountSources, connections: PostgresPrepared
        let readDays, findCanonicalDays: PostgresPrepared
        let replaceDays, insertSourceDays, updateSourceDays, deleteSourceDays: PostgresPrepared
        let insertCanonicalDays, updateCanonicalDays, deleteCanonicalDays: PostgresPrepared
        let insertConnections, updateConnections, deleteConnections: PostgresPrepared
        let updateAccounts, upsertAccountSources, upsertWakes, deleteWakes: PostgresPrepared
        let deletePushSends, clearPushSends, answerWakes, countDoor: PostgresPrepared
        let readDevices, upsertDevices, clearOutdatedDevices, clearDeletedDevices: PostgresPrepared

        init(_ connection: PostgresConnection) throws(PostgresError) {
            fence = try connection.prepare("fence", BatchStatements.fence)
            createAccounts = try connection.prepare("create_accounts", BatchStatements.createAccounts)
            lockAccounts = try connection.prepare("lock_accounts", BatchStatements.lockAccounts)
            control = try connection.prepare("control", BatchStatements.control)
            accountSources = try connection.prepare("account_sources", BatchStatements.accountSources)
            connections = try connection.prepare("connections", BatchStatements.connections)
            readDays = try connection.prepare("read_days", BatchStatements.readDays)
            findCanonicalDays = try connection.prepare("find_canonical_days", BatchStatements.findCanonicalDays)
            replaceDays = try connection.prepare("replace_days", BatchStatements.replaceDays)
            insertSourceDays = try connection.prepare("insert_source_days", BatchStatements.insertSourceDays)
            updateSourceDays = try connection.prepare("update_source_days", BatchStatements.updateSourceDays)
            deleteSourceDays = try connection.prepare("delete_source_days", BatchStatements.deleteSourceDays)
            insertCanonicalDays = try connection.prepare("insert_canonical_days", BatchStatements.insertCanonicalDays)
            updateCanonicalDays = try connection.prepare("update_canonical_days", BatchStatements.updateCanonicalDays)
            deleteCanonicalDays = try connection.prepare("delete_canonical_days", BatchStatements.deleteCanonicalDays)
            insertConnections = try connection.prepare("insert_connections", BatchStatements.insertConnections)
            updateConnections = try connection.prepare("update_connections", BatchStatements.updateConnections)
            deleteConnections = try connection.prepare("delete_connections", BatchStatements.deleteConnections)
            updateAccounts = try connection.prepare("update_accounts", BatchStatements.updateAccounts)
            upsertAccountSources = try connection.prepare(
                "upsert_account_sources",
                BatchStatements.upsertAccountSources
            )
            upsertWakes = try connection.prepare("upsert_wakes", BatchStatements.upsertWakes)
            deleteWakes = try connection.prepare("delete_wakes", BatchStatements.deleteWakes)
            deletePushSends = try connection.prepare("delete_push_sends", BatchStatements.deletePushSends)
            clearPushSends = try connection.prepare("clear_push_sends", BatchStatements.clearPushSends)
            answerWakes = try connection.prepare("answer_wakes", WakeAnswerStatements.answerWakes)
            countDoor = try connection.prepare("count_door", WakeAnswerStatements.countDoor)
            readDevices = try connection.prepare("read_devices", BatchStatements.readDevices)
            upsertDevices = try connection.prepare("upsert_devices", BatchStatements.upsertDevices)
            clearOutdatedDevices = try connection.prepare(
                "clear_outdated_devices",
                BatchStatements.clearOutdatedDevices
            )
            clearDeletedDevices = try connection.prepare("clear_deleted_devices", BatchStatements.clearDeletedDevices)
        }
    }

    let connection: PostgresConnection
    private var statements: Statements?
    var parameters = PostgresParameters()
    var arrays = BatchArrays()
    /// Whether the last batch had users without an account. Most have none, and save a look for each of their users.
    private var expectsNewUsers = true

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Connects anew; what was prepared is prepared again by need.
    public func reconnect() throws(PostgresError) {
        statements = nil
        try connection.reconnect()
    }

    /// Lets go of the connection; `reconnect` makes another.
    public func disconnect() {
        connection.close()
    }

    public var isBroken: Bool { connection.isBroken }

    func prepared() throws(PostgresError) -> Statements {
        if let statements { return statements }
        do throws(PostgresError) {
            let statements = try Statements(connection)
            self.statements = statements
            return statements
        } catch {
            // The names of those that were prepared are taken in this session: the next try needs another one.
            connection.close()
            throw error
        }
    }

    // MARK: Reading

    /// Begins the transaction, moves the partition's position, locks the accounts in the order of their keys and reads
    /// what hangs on them, all in one round trip. Each statement sees what was committed when it began, so what
    /// follows the lock is as new as the lock.
    ///
    /// - Parameters:
    ///   - fence: nil for a writer that reads no topic.
    ///   - users: sorted, without repetitions.
    /// - Returns: what was read under the locks.
    /// - Throws: `PostgresError`, or `StorageError` for rows that cannot be. The transaction is open or failed then:
    ///   call `rollback`.
    public func begin(_ fence: Fence?, users: [TouchedUser]) throws -> BatchSnapshot {
        if !expectsNewUsers {
            if let snapshot = try begin(fence, users, createsAccounts: false) { return snapshot }
            // From the start, so that locks are taken in the order of the keys.
            rollback()
        }
        guard let snapshot = try begin(fence, users, createsAccounts: true) else {
            throw StorageError.incompleteSnapshot
        }
        return snapshot
    }

    /// Nil where users have no account.
    private func begin(_ fence: Fence?, _ users: [TouchedUser], createsAccounts: Bool) throws -> BatchSnapshot? {
        let statements = try prepared()
        arrays.load(users: users)
        let results = try connection.pipeline { pipeline in
            pipeline.begin()
            if let fence {
                load(fence)
                pipeline.execute(statements.fence, parameters)
                if !fence.door.isEmpty {
                    WakeAnswerStatements.load(fence.door, of: fence.name, into: &parameters)
                    pipeline.execute(statements.countDoor, parameters)
                }
            }
            if !users.isEmpty {
                if createsAccounts {
                    parameters.reset()
                    parameters.append(arrays.users)
                    parameters.append(arrays.buckets)
                    pipeline.execute(statements.createAccounts, parameters)
                }
                parameters.reset()
                parameters.append(arrays.users)
                pipeline.execute(statements.lockAccounts, parameters)
                pipeline.sync()
            }
            // Behind the locks: whoever raises the rule version walks the users under them, and a batch that had read
            // the old version before it got a lock would write by it behind the walker's back.
            pipeline.execute(statements.control)
            guard !users.isEmpty else { return }
            pipeline.execute(statements.accountSources, parameters)
            pipeline.execute(statements.connections, parameters)
        }
        var next = 1
        var isFenceHeld = true
        if fence != nil {
            isFenceHeld = results[next].affectedRows == 1
            next += fence?.door.isEmpty == false ? 2 : 1
        }
        if !users.isEmpty && createsAccounts {
            expectsNewUsers = results[next].affectedRows > 0
            next += 1
        }
        let accounts = results[next]
        if !users.isEmpty { next += 1 }
        var snapshot = try Self.snapshot(control: results[next], isFenceHeld: isFenceHeld)
        guard !users.isEmpty, isFenceHeld else { return snapshot }
        guard accounts.rowCount == users.count else { return nil }
        try read(accounts: accounts, into: &snapshot)
        try read(sources: results[next + 1], into: &snapshot)
        try read(connections: results[next + 2], into: &snapshot)
        return snapshot
    }

    static func snapshot(control: PostgresResult, isFenceHeld: Bool) throws -> BatchSnapshot {
        guard control.rowCount == 1 else { throw StorageError.incompleteSnapshot }
        var snapshot = BatchSnapshot(
            isFenceHeld: isFenceHeld,
            ruleVersion: try control.int4(0, 0),
            windowFormat: try control.int2(0, 1),
            retentionFloor: CalendarDay(daysSinceEpoch: try control.date(0, 2))
        )
        snapshot.oldestBuild = try control.int4(0, 3)
        return snapshot
    }

    /// Reads every source row in the ranges, and where their canonical days lie, in one round trip, inside the
    /// transaction.
    public func readDays(_ ranges: [DayRange]) throws -> StoredDays {
        guard !ranges.isEmpty else { return StoredDays() }
        let statements = try prepared()
        arrays.load(ranges: ranges, into: &parameters)
        let results = try connection.pipeline { pipeline in
            pipeline.execute(statements.readDays, parameters)
            pipeline.execute(statements.findCanonicalDays, parameters)
        }
        return try Self.days(rows: results[0], canonical: results[1])
    }

    static func days(rows result: PostgresResult, canonical places: PostgresResult) throws -> StoredDays {
        let reader = try SourceRowReader(result)
        var rows: [StoredDays.Row] = []
        rows.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            let place = try Self.place(result, row, SourceRowReader.end)
            rows.append(.init(key: try reader.key(row), row: try reader.sourceRow(row), place: place))
        }
        try places.require([.uuid, .date, .tid])
        var canonical: [(key: UserDay, place: RowPlace)] = []
        canonical.reserveCapacity(places.rowCount)
        for row in 0..<places.rowCount {
            guard let user = try places.words128(row, 0), let day = try places.word32(row, 1) else {
                throw StorageError.incompleteSnapshot
            }
            let date = CalendarDay(daysSinceEpoch: PostgresDate.daysSince1970(Int32(bitPattern: day)))
            let key = UserDay(user: UserID(high: user.high, low: user.low), day: date)
            canonical.append((key, try Self.place(places, row, 2)))
        }
        return StoredDays(rows, canonical: canonical)
    }

    private static func place(_ result: PostgresResult, _ row: Int, _ column: Int) throws -> RowPlace {
        guard let place = try result.tid(row, column) else { throw StorageError.incompleteSnapshot }
        return RowPlace(block: place.block, offset: place.offset)
    }

    /// Reads every entry of the device tokens, in one round trip, inside the transaction. Only those of users whose
    /// account is locked can't change behind it; but another user's can't take a token back by doing so.
    public func readDevices(_ hashes: [DeviceTokenHash]) throws -> [DeviceTokenHash: DeviceRegisters] {
        guard !hashes.isEmpty else { return [:] }
        arrays.load(hashes: hashes, into: &parameters)
        let result = try connection.execute(try prepared().readDevices, parameters)
        var entries: [DeviceTokenHash: [UserID: DeviceEntry]] = [:]
        for row in 0..<result.rowCount {
            let key = try DeviceRowReader.key(result, row)
            entries[key.hash, default: [:]][key.user] = try DeviceRowReader.entry(result, row)
        }
        return entries.mapValues(DeviceRegisters.init)
    }

    private func load(_ fence: Fence) {
        parameters.reset()
        parameters.append(text: fence.name.topic)
        parameters.append(int4: fence.name.partition)
        parameters.append(uuidHigh: fence.owner.high, low: fence.owner.low)
        parameters.append(int8: fence.epoch)
        parameters.append(int8: fence.position)
        parameters.append(int8: fence.nextOffset)
        if let digest = fence.lastRecord { parameters.append(int8: digest) } else { parameters.appendNull(.int8) }
        parameters.append(int8: fence.appliedThrough)
        if let brake = fence.brake { parameters.append(bytea: brake.span) } else { parameters.appendNull(.bytea) }
        if let brakedAt = fence.brakedAt { parameters.append(int8: brakedAt) } else { parameters.appendNull(.int8) }
    }

    func read(accounts result: PostgresResult, into snapshot: inout BatchSnapshot) throws {
        try result.require([.uuid, .int8, .bytea, .int8])
        snapshot.accounts.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            guard let id = try result.words128(row, 0), let deleted = try result.word64(row, 1),
                let openWake = try result.word64(row, 3)
            else { throw StorageError.incompleteSnapshot }
            let user = UserID(high: id.high, low: id.low)
            var preferences = Preferences()
            if !result.isEmpty(row, 2) {
                let stored = try result.withBytea(row, 2) { PreferencesCodec.decode($0) }
                guard let stored else { throw StorageError.unreadablePreferences }
                preferences = stored
            }
            let version = Version(rawValue: Int64(bitPattern: deleted))
            snapshot.accounts[user] = Account(deleted: version, preferences: preferences)
            if openWake != 0 { snapshot.openWakes[user] = Int64(bitPattern: openWake) }
        }
    }

    func read(sources result: PostgresResult, into snapshot: inout BatchSnapshot) throws {
        for row in 0..<result.rowCount {
            let user = try result.uuid(row, 0)
            guard let source = Source(rawValue: UInt8(clamping: try result.int2(row, 1))) else {
                throw StorageError.unknownSource
            }
            let key = UserSource(user: UserID(high: user.high, low: user.low), source: source)
            snapshot.accountSources[key] = AccountSource(
                deleted: Version(rawValue: try result.int8(row, 2)),
                disconnectedAt: try result.int8(row, 3)
            )
        }
    }

    func read(connections result: PostgresResult, into snapshot: inout BatchSnapshot) throws {
        try result.require([.uuid, .int2, .text, .int8, .int8, .bytea, .tid])
        snapshot.connections.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            guard let user = try result.words128(row, 0), let number = try result.word16(row, 1),
                let pushed = try result.word64(row, 3), let data = try result.word64(row, 4)
            else { throw StorageError.incompleteSnapshot }
            guard let source = Source(rawValue: UInt8(clamping: number)) else { throw StorageError.unknownSource }
            let key = ConnectionKey(
                user: UserID(high: user.high, low: user.low),
                provenance: Provenance(source: source, origin: result.plainText(row, 2))
            )
            snapshot.connections[key] = StoredConnection(
                lastPushAt: Int64(bitPattern: pushed),
                lastDataAt: Int64(bitPattern: data),
                window: result.plainBytes(row, 5),
                place: try Self.place(result, row, 6)
            )
        }
    }

    /// Ends the transaction without writing. A lost connection has done so by itself.
    public func rollback() {
        guard !connection.isBroken else { return }
        do throws(PostgresError) {
            try connection.simpleQuery("ROLLBACK")
        } catch {
            // The session is in a state that nobody knows: without it there is no transaction either.
            connection.close()
        }
    }
}

internal import Domain
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

    struct Statements {
        let fence, createAccounts, lockAccounts, control, accountSources, connections, readDays: PostgresPrepared
        let upsertSourceDays, upsertCanonicalDays, deleteSourceDays, deleteCanonicalDays: PostgresPrepared
        let upsertConnections, deleteConnections, updateAccounts, upsertAccountSources: PostgresPrepared
        let upsertWakes, deleteWakes: PostgresPrepared
    }

    let connection: PostgresConnection
    private var statements: Statements?
    var parameters = PostgresParameters()
    var arrays = BatchArrays()

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
        let statements = Statements(
            fence: try connection.prepare("fence", BatchStatements.fence),
            createAccounts: try connection.prepare("create_accounts", BatchStatements.createAccounts),
            lockAccounts: try connection.prepare("lock_accounts", BatchStatements.lockAccounts),
            control: try connection.prepare("control", BatchStatements.control),
            accountSources: try connection.prepare("account_sources", BatchStatements.accountSources),
            connections: try connection.prepare("connections", BatchStatements.connections),
            readDays: try connection.prepare("read_days", BatchStatements.readDays),
            upsertSourceDays: try connection.prepare("upsert_source_days", BatchStatements.upsertSourceDays),
            upsertCanonicalDays: try connection.prepare("upsert_canonical_days", BatchStatements.upsertCanonicalDays),
            deleteSourceDays: try connection.prepare("delete_source_days", BatchStatements.deleteSourceDays),
            deleteCanonicalDays: try connection.prepare("delete_canonical_days", BatchStatements.deleteCanonicalDays),
            upsertConnections: try connection.prepare("upsert_connections", BatchStatements.upsertConnections),
            deleteConnections: try connection.prepare("delete_connections", BatchStatements.deleteConnections),
            updateAccounts: try connection.prepare("update_accounts", BatchStatements.updateAccounts),
            upsertAccountSources: try connection.prepare(
                "upsert_account_sources",
                BatchStatements.upsertAccountSources
            ),
            upsertWakes: try connection.prepare("upsert_wakes", BatchStatements.upsertWakes),
            deleteWakes: try connection.prepare("delete_wakes", BatchStatements.deleteWakes)
        )
        self.statements = statements
        return statements
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
        let statements = try prepared()
        arrays.load(users: users)
        let results = try connection.pipeline { pipeline in
            pipeline.begin()
            if let fence {
                load(fence)
                pipeline.execute(statements.fence, parameters)
            }
            if !users.isEmpty {
                parameters.reset()
                parameters.append(arrays.users)
                parameters.append(arrays.buckets)
                pipeline.execute(statements.createAccounts, parameters)
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
            next += 1
        }
        let accounts = results[users.isEmpty ? next : next + 1]
        if !users.isEmpty { next += 2 }
        let control = results[next]
        guard control.rowCount == 1 else { throw StorageError.incompleteSnapshot }
        var snapshot = BatchSnapshot(
            isFenceHeld: isFenceHeld,
            ruleVersion: try control.int4(0, 0),
            windowFormat: try control.int2(0, 1),
            retentionFloor: CalendarDay(daysSinceEpoch: try control.date(0, 2))
        )
        guard !users.isEmpty, isFenceHeld else { return snapshot }
        try read(accounts: accounts, into: &snapshot)
        guard snapshot.accounts.count == users.count else { throw StorageError.incompleteSnapshot }
        try read(sources: results[next + 1], into: &snapshot)
        try read(connections: results[next + 2], into: &snapshot)
        return snapshot
    }

    /// Reads every source row in the ranges, in one round trip, inside the transaction.
    public func readDays(_ ranges: [DayRange]) throws -> StoredDays {
        guard !ranges.isEmpty else { return [:] }
        arrays.load(ranges: ranges, into: &parameters)
        let result = try connection.execute(try prepared().readDays, parameters)
        var days: StoredDays = [:]
        days.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            let key = try DayRowReader.key(result, row)
            let new = try DayRowReader.sourceRow(result, row)
            days[UserDay(user: key.user, day: key.day), default: []].insert(sorted: new)
        }
        return days
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
        snapshot.accounts.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            let user = try result.uuid(row, 0)
            var preferences = Preferences()
            if try !result.isNull(row, 2) {
                let stored = try result.withBytea(row, 2) { PreferencesCodec.decode($0) }
                guard let stored else { throw StorageError.unreadablePreferences }
                preferences = stored
            }
            snapshot.accounts[UserID(high: user.high, low: user.low)] =
                Account(deleted: Version(rawValue: try result.int8(row, 1)), preferences: preferences)
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
        snapshot.connections.reserveCapacity(result.rowCount)
        for row in 0..<result.rowCount {
            let user = try result.uuid(row, 0)
            guard let source = Source(rawValue: UInt8(clamping: try result.int2(row, 1))) else {
                throw StorageError.unknownSource
            }
            let key = ConnectionKey(
                user: UserID(high: user.high, low: user.low),
                provenance: Provenance(source: source, origin: try result.text(row, 2))
            )
            snapshot.connections[key] = StoredConnection(
                lastPushAt: try result.int8(row, 3),
                lastDataAt: try result.int8(row, 4),
                window: try result.isNull(row, 5) ? [] : try result.bytea(row, 5)
            )
        }
    }

    // MARK: Writing

    /// Writes and commits in one round trip. With a sync behind each statement, since they are large and go out in
    /// pieces: a worker that is frozen between two of them loses its locks as one that is frozen between round trips.
    public func commit(_ writes: BatchWrites) throws -> Commit {
        let statements = try prepared()
        let results = try connection.pipeline { pipeline in
            if !writes.accounts.isEmpty {
                arrays.load(accounts: writes.accounts, into: &parameters)
                pipeline.execute(statements.updateAccounts, parameters)
                pipeline.sync()
            }
            if !writes.removedSourceRows.isEmpty {
                arrays.load(removed: writes.removedSourceRows, into: &parameters)
                pipeline.execute(statements.deleteSourceDays, parameters)
                pipeline.sync()
            }
            if !writes.removedCanonicalDays.isEmpty {
                arrays.load(removed: writes.removedCanonicalDays, into: &parameters)
                pipeline.execute(statements.deleteCanonicalDays, parameters)
                pipeline.sync()
            }
            if !writes.sourceRows.isEmpty {
                arrays.load(source: writes.sourceRows, into: &parameters)
                pipeline.execute(statements.upsertSourceDays, parameters)
                pipeline.sync()
            }
            if !writes.canonicalDays.isEmpty {
                arrays.load(canonical: writes.canonicalDays, rules: writes.ruleVersion, into: &parameters)
                pipeline.execute(statements.upsertCanonicalDays, parameters)
                pipeline.sync()
            }
            if !writes.accountSources.isEmpty {
                arrays.load(accountSources: writes.accountSources, into: &parameters)
                pipeline.execute(statements.upsertAccountSources, parameters)
                pipeline.sync()
            }
            if !writes.removedConnections.isEmpty {
                arrays.load(removed: writes.removedConnections, into: &parameters)
                pipeline.execute(statements.deleteConnections, parameters)
                pipeline.sync()
            }
            if !writes.wakes.isEmpty {
                arrays.load(wakes: writes.wakes, into: &parameters)
                pipeline.execute(statements.upsertWakes, parameters)
            }
            if !writes.removedWakes.isEmpty {
                arrays.load(removed: writes.removedWakes, into: &parameters)
                pipeline.execute(statements.deleteWakes, parameters)
            }
            if !writes.connections.isEmpty {
                arrays.load(connections: writes.connections, into: &parameters)
                pipeline.execute(statements.upsertConnections, parameters)
                pipeline.sync()
            }
            pipeline.commit()
        }
        guard let commit = results.last else { return .rolledBack }
        return commit.isCommitted ? .committed : .rolledBack
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

extension [SourceRow] {
    /// Keeps a day's few rows in the order that the rules expect.
    mutating func insert(sorted row: SourceRow) {
        let place = firstIndex { row.provenance < $0.provenance } ?? endIndex
        insert(row, at: place)
    }
}

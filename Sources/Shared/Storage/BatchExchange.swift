internal import Domain
public import Postgres

/// What a batch reads of its days and what it writes, in one conversation with the server: while the days of one portion
/// are merged, the server reads those of the next or writes those of the one before.
///
/// Behind each statement stands a sync, since they are large and go out in pieces: a worker that is frozen between two of
/// them loses its locks as one that is frozen between round trips.
public struct BatchExchange {
    private let store: BatchStore
    private let statements: BatchStore.Statements
    private(set) var pipeline: PostgresPipeline
    /// Where each portion's two statements begin.
    private var portions: [Int] = []
    /// Each replacement's statement, and how many days it has.
    private var replacements: [(statement: Int, count: Int)] = []
    /// How many rows a statement has to meet, by its place.
    private(set) var expected: [Int: Int] = [:]

    init(_ store: BatchStore, _ statements: BatchStore.Statements, _ pipeline: PostgresPipeline) {
        self.store = store
        self.statements = statements
        self.pipeline = pipeline
    }

    /// Asks for every source row in the ranges, and where their canonical days lie. All portions are asked for before
    /// anything is written, or they would be read behind it.
    public mutating func ask(for ranges: ArraySlice<DayRange>) {
        portions.append(pipeline.count)
        store.arrays.load(ranges: ranges, into: &store.parameters)
        pipeline.execute(statements.readDays, store.parameters)
        pipeline.execute(statements.findCanonicalDays, store.parameters)
        pipeline.sync()
    }

    /// Waits for what was asked for.
    ///
    /// - Parameter portion: which of the questions, from 0.
    /// - Returns: the rows.
    /// - Throws: `PostgresError`, or `StorageError` for rows that cannot be; then nothing is committed.
    public mutating func days(ofPortion portion: Int) throws -> StoredDays {
        guard portions.indices.contains(portion) else { throw StorageError.incompleteSnapshot }
        let rows = try pipeline.result(of: portions[portion])
        return try BatchStore.days(rows: rows, canonical: pipeline.result(of: portions[portion] + 1))
    }

    /// Sends days that are replaced unread, without waiting for it.
    ///
    /// - Parameters:
    ///   - days: each once; those of one record one behind the other.
    ///   - rules: the version of the rules.
    public mutating func replace(_ days: [BatchWrites.Replacement], rules: Int32) {
        store.arrays.load(replacements: days, rules: rules, into: &store.parameters)
        replacements.append((pipeline.count, days.count))
        sendAny(statements.replaceDays)
    }

    /// Waits for a replacement.
    ///
    /// - Parameter number: which of the replacements, from 0.
    /// - Returns: the indexes of its days that were not as expected, sorted; most often none. Their canonical days are to be
    ///   made anew, even where the row is what it shall be.
    /// - Throws: `PostgresError`, or `StorageError` for an answer that cannot be.
    public mutating func missed(ofReplacement number: Int) throws -> [Int] {
        guard replacements.indices.contains(number) else { throw StorageError.incompleteSnapshot }
        let (statement, count) = replacements[number]
        let result = try pipeline.result(of: statement)
        guard result.rowCount == 1 else { throw StorageError.incompleteSnapshot }
        // Whose canonical day was not there, it does not say.
        guard try result.int4(0, 2) == count else { return Array(0..<count) }
        if try result.int4(0, 1) == count { return [] }
        if try result.isNull(0, 0) { return Array(0..<count) }
        var isMissed = Array(repeating: true, count: count)
        for case let place? in try result.int4Array(0, 0) where isMissed.indices.contains(Int(place) - 1) {
            isMissed[Int(place) - 1] = false
        }
        return isMissed.indices.filter { isMissed[$0] }
    }

    /// Sends what changed, without waiting for it.
    public mutating func write(_ writes: BatchWrites) {
        if !writes.accounts.isEmpty {
            store.arrays.load(accounts: writes.accounts, into: &store.parameters)
            sendAny(statements.updateAccounts)
        }
        if !writes.removedSourceRows.isEmpty {
            store.arrays.load(removed: writes.removedSourceRows, into: &store.parameters)
            sendAny(statements.deleteSourceDays)
        }
        if !writes.removedCanonicalDays.isEmpty {
            store.arrays.load(removed: writes.removedCanonicalDays, into: &store.parameters)
            sendAny(statements.deleteCanonicalDays)
        }
        for areStored in [true, false] where !writes.sourceRows.isEmpty {
            let count = store.arrays.load(source: writes.sourceRows, areStored: areStored, into: &store.parameters)
            send(count, areStored ? statements.updateSourceDays : statements.insertSourceDays)
        }
        for areStored in [true, false] where !writes.canonicalDays.isEmpty {
            let count = store.arrays.load(
                canonical: writes.canonicalDays,
                areStored: areStored,
                rules: writes.ruleVersion,
                into: &store.parameters
            )
            send(count, areStored ? statements.updateCanonicalDays : statements.insertCanonicalDays)
        }
        if !writes.accountSources.isEmpty {
            store.arrays.load(accountSources: writes.accountSources, into: &store.parameters)
            sendAny(statements.upsertAccountSources)
        }
        if !writes.removedConnections.isEmpty {
            store.arrays.load(removed: writes.removedConnections, into: &store.parameters)
            sendAny(statements.deleteConnections)
        }
        if !writes.wakes.isEmpty {
            store.arrays.load(pairs: writes.wakes.lazy.map { ($0.user, $0.dueAt) }, into: &store.parameters)
            sendAny(statements.upsertWakes)
        }
        if !writes.removedWakes.isEmpty {
            store.arrays.load(removed: writes.removedWakes, into: &store.parameters)
            sendAny(statements.deleteWakes)
            sendAny(statements.deletePushSends)
        }
        // Whether or not a push of after the deletion has kept the user on the schedule.
        let erased = writes.accounts.filter { $0.account.deleted.rawValue > 0 }
        if !erased.isEmpty {
            store.arrays.load(
                pairs: erased.lazy.map { ($0.user, $0.account.deleted.instant.microseconds) },
                into: &store.parameters
            )
            sendAny(statements.clearPushSends)
        }
        if !writes.answers.isEmpty {
            WakeAnswerStatements.load(writes.answers, into: &store.parameters)
            sendAny(statements.answerWakes)
        }
        // Behind the schedule, for whoever locks both.
        if !writes.devices.isEmpty {
            store.arrays.load(devices: writes.devices, into: &store.parameters)
            sendAny(statements.upsertDevices)
        }
        if !writes.outdatedDevices.isEmpty {
            store.arrays.load(outdated: writes.outdatedDevices, into: &store.parameters)
            sendAny(statements.clearOutdatedDevices)
        }
        if !writes.deletedDevices.isEmpty {
            let deletions = writes.deletedDevices.lazy.map { ($0.user, $0.watermark.rawValue) }
            store.arrays.load(pairs: deletions, into: &store.parameters)
            sendAny(statements.clearDeletedDevices)
        }
        for areStored in [true, false] where !writes.connections.isEmpty {
            let count = store.arrays.load(
                connections: writes.connections,
                areStored: areStored,
                into: &store.parameters
            )
            send(count, areStored ? statements.updateConnections : statements.insertConnections)
        }
    }

    private mutating func send(_ count: Int, _ statement: PostgresPrepared) {
        guard count > 0 else { return }
        expected[pipeline.count] = count
        sendAny(statement)
    }

    private mutating func sendAny(_ statement: PostgresPrepared) {
        pipeline.execute(statement, store.parameters)
        pipeline.sync()
    }
}

extension BatchStore {
    /// Reads and writes days in the open transaction, looks whether every row was where it was read, and commits.
    ///
    /// - Parameter converse: asks for portions, takes them and sends what it makes of them.
    /// - Returns: whether the server committed.
    /// - Throws: `PostgresError`, or what `converse` throws. The transaction is open or failed then: call `rollback`.
    public func exchange(_ converse: (inout BatchExchange) throws -> Void) throws -> Commit {
        let statements = try prepared()
        var expected: [Int: Int] = [:]
        let outcomes = try connection.conversation { pipeline in
            var exchange = BatchExchange(self, statements, pipeline)
            defer {
                pipeline = exchange.pipeline
                expected = exchange.expected
            }
            try converse(&exchange)
        }
        for (index, outcome) in outcomes.enumerated() {
            do throws(PostgresError) {
                let result = try outcome.result()
                if let count = expected[index], result.affectedRows != count { throw Self.movedRow }
            } catch {
                // A row that was not there a moment before.
                throw error.sqlState == "23505" ? Self.movedRow : error
            }
        }
        return try end()
    }

    /// Writes and commits.
    ///
    /// - Parameter writes: everything that the batch changes.
    /// - Returns: whether the server committed.
    /// - Throws: as `exchange`.
    public func commit(_ writes: BatchWrites) throws -> Commit {
        try writes.isEmpty ? end() : exchange { $0.write(writes) }
    }

    private func end() throws(PostgresError) -> Commit {
        let answer = try connection.pipeline { pipeline in pipeline.commit() }
        return answer.last?.isCommitted == true ? .committed : .rolledBack
    }

    /// Somebody wrote without the account's lock. Nothing of ours stays; the next try reads what is there now.
    static let movedRow = PostgresError(
        sqlState: "40001",
        message: "a row was not where it had been read under the account's lock; the batch is tried again"
    )
}

extension PostgresError {
    /// A batch found a row elsewhere than where it had read it: somebody writes without the accounts' locks. Trying again
    /// helps if they were a person and not if they are a trigger or a damaged index.
    public var isMovedRow: Bool {
        sqlState == BatchStore.movedRow.sqlState && message == BatchStore.movedRow.message
    }
}

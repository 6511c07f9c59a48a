public import Domain
public import MessageContract
public import Storage

/// The pure middle of a batch of accounts records. What they change are registers that only grow, so that their order
/// does not matter, neither among each other nor among the records of days.
public struct AccountsMerge {
    private let snapshot: BatchSnapshot
    private var accounts: [UserID: Account]
    private var sources: [UserSource: AccountSource]
    private let users: [UserID]

    /// Applies the changes to the registers.
    ///
    /// - Parameters:
    ///   - changes: in any order.
    ///   - snapshot: read under the locks of the changes' users.
    public init(_ changes: [DecodedAccount], _ snapshot: BatchSnapshot) {
        self.snapshot = snapshot
        accounts = snapshot.accounts
        sources = snapshot.accountSources
        users = Set(changes.map(\.user)).sorted()
        for change in changes { apply(change) }
        for user in users { accounts[user] = accounts[user].map(Self.withoutDeletedPins) }
    }

    private mutating func apply(_ change: DecodedAccount) {
        let none = Account(deleted: Version(rawValue: 0), preferences: Preferences())
        let account = accounts[change.user] ?? none
        switch change.record {
        case .delete:
            let watermark = max(account.deleted, change.watermark ?? account.deleted)
            accounts[change.user] = Account(deleted: watermark, preferences: account.preferences)
        case .disconnect(let source, _):
            let key = UserSource(user: change.user, source: source)
            var state = sources[key] ?? AccountSource()
            state.disconnectedAt = max(state.disconnectedAt, change.envelope.receivedAt.microseconds)
            state.deleted = max(state.deleted, change.watermark ?? state.deleted)
            sources[key] = state
        case .preference(let metric, let source):
            var preferences = account.preferences
            preferences.apply(.init(metric: metric, source: source, version: change.version))
            accounts[change.user] = Account(deleted: account.deleted, preferences: preferences)
        }
    }

    private static func withoutDeletedPins(_ account: Account) -> Account {
        var preferences = account.preferences
        preferences.remove(below: account.deleted)
        return Account(deleted: account.deleted, preferences: preferences)
    }

    /// Users all of whose days are needed: their pins changed, or a watermark grew.
    public var usersWithDays: [UserID] {
        users.filter { user in pinsChanged(user) || Source.allCases.contains { watermarkGrew(user, $0) } }
    }

    private func pinsChanged(_ user: UserID) -> Bool {
        let before = snapshot.accounts[user]?.preferences ?? Preferences()
        let after = accounts[user]?.preferences ?? Preferences()
        return Metric.allCases.contains { before.pinnedSource(for: $0) != after.pinnedSource(for: $0) }
    }

    private func watermark(_ user: UserID, _ source: Source) -> Version {
        let account = accounts[user]?.deleted ?? Version(rawValue: 0)
        return max(account, sources[UserSource(user: user, source: source)]?.deleted ?? account)
    }

    private func watermarkGrew(_ user: UserID, _ source: Source) -> Bool {
        watermark(user, source) > snapshot.watermark(user, source)
    }

    /// - Parameter days: all days of `usersWithDays`.
    /// - Returns: what has to be written; nothing where the changes were known already.
    /// - Throws: where a window is in a format that this build does not know.
    public func finish(_ days: StoredDays) throws(StorageError) -> (writes: BatchWrites, counts: BatchCounts) {
        var writes = BatchWrites()
        writes.ruleVersion = snapshot.ruleVersion
        var table = DayTable(days)
        for key in snapshot.connections.keys.sorted() where watermarkGrew(key.user, key.provenance.source) {
            try clear(key, &table, &writes)
        }
        for key in days.keys {
            for row in days[key].map(\.row) where watermarkGrew(key.user, row.provenance.source) {
                table.remove(below: watermark(key.user, row.provenance.source), key, row.provenance)
            }
            if pinsChanged(key.user) { table.markForRecompute(key) }
        }
        table.addWrites(
            to: &writes,
            before: { snapshot.accounts[$0]?.preferences ?? Preferences() },
            after: { accounts[$0]?.preferences ?? Preferences() }
        )
        for user in users {
            guard let account = accounts[user], account != snapshot.accounts[user] else { continue }
            writes.accounts.append(.init(user: user, account: account))
            let known = snapshot.accounts[user]?.deleted ?? Version(rawValue: 0)
            if account.deleted > known { writes.deletedDevices.append((user, account.deleted)) }
        }
        let changed = sources.filter { snapshot.accountSources[$0.key] != $0.value }
        writes.accountSources = changed.map { ($0.key, $0.value) }.sorted { left, right in
            (left.0.user, left.0.source.rawValue) < (right.0.user, right.0.source.rawValue)
        }
        let left = Set(snapshot.connections.keys).subtracting(writes.removedConnections)
        let connected = Set(left.map(\.user))
        writes.removedWakes = Set(writes.removedConnections.map(\.user)).subtracting(connected).sorted()
        var counts = BatchCounts()
        counts.accountsChanged = Set(writes.accounts.map(\.user) + writes.accountSources.map(\.key.user)).count
        counts.sourceRowsWritten = writes.sourceRows.count
        counts.canonicalWritten = writes.canonicalDays.count + writes.removedCanonicalDays.count
        return (writes, counts)
    }

    /// Folds the connection's window into its rows, which are about to be written, and removes the connection itself
    /// unless it pushed after the deletion.
    private func clear(_ key: ConnectionKey, _ table: inout DayTable, _ writes: inout BatchWrites) throws(StorageError)
    {
        guard let stored = snapshot.connections[key] else { return }
        var connection = try WorkingConnection(key, stored, floor: snapshot.retentionFloor)
        for day in connection.window.days {
            guard let entry = connection.window[day] else { continue }
            table.fold(entry, UserDay(user: key.user, day: day), key.provenance)
        }
        if stored.lastPushAt < watermark(key.user, key.provenance.source).instant.microseconds {
            writes.removedConnections.append(key)
            return
        }
        connection.clearWindow()
        if let write = connection.write(format: snapshot.windowFormat) { writes.connections.append(write) }
    }
}

public import Domain
public import MessageContract
public import Storage

/// Works out what records would change, by the same merge as `BatchRunner`, without a lock and without a write: over
/// one snapshot of the tables, with what earlier records would have written laid over it. Owned by one thread.
public final class PreviewRunner {
    /// A canonical day before and after; nil for none.
    public struct Change: Hashable, Sendable {
        public let before: CanonicalDay?
        public var after: CanonicalDay?

        public init(before: CanonicalDay?, after: CanonicalDay?) {
            self.before = before
            self.after = after
        }
    }

    public enum Result: Hashable, Sendable {
        case taken(BatchCounts)
        /// As `BatchRunner.Result.tooManyOrigins`: nothing was taken.
        case tooManyOrigins([Int])
    }

    /// More would change than is kept in memory.
    public struct TooMuch: Error {}

    /// Canonical days that a preview keeps at most: some hundred MiB with what they are made from.
    public static let dayLimit = 500_000

    private let store: BatchStore
    private let dayLimit: Int
    private var overlay = PreviewOverlay()
    private var touched: [UserDay: Change] = [:]

    /// - Parameters:
    ///   - store: inside `beginSnapshot`.
    ///   - dayLimit: canonical days that it keeps at most.
    public init(store: BatchStore, dayLimit: Int = PreviewRunner.dayLimit) {
        self.store = store
        self.dayLimit = dayLimit
    }

    /// Every canonical day that would be another one at the end.
    public var changes: [UserDay: Change] { touched.filter { $0.value.before != $0.value.after } }

    public func run(_ records: [DecodedDays]) throws -> Result {
        let snapshot = try snapshot(of: DaysMerge.users(of: records))
        var merge = try DaysMerge(records, snapshot)
        if !merge.tooManyOrigins.isEmpty { return .tooManyOrigins(merge.tooManyOrigins) }
        let needs = merge.needs()
        let days = overlay.laid(over: try store.readDays(needs), needs)
        let (writes, counts) = merge.finish(days)
        try take(writes)
        return .taken(counts)
    }

    public func run(_ changes: [DecodedAccount]) throws -> BatchCounts {
        let merge = AccountsMerge(changes, try snapshot(of: TouchedUser.sorted(changes.map(\.user))))
        let ranges = merge.usersWithDays.map(DayRange.all)
        let days = overlay.laid(over: try store.readDays(ranges), ranges)
        let (writes, counts) = try merge.finish(days)
        try take(writes)
        return counts
    }

    private func snapshot(of users: [TouchedUser]) throws -> BatchSnapshot {
        var snapshot = try store.peek(users: users)
        try SchemaGate.check(rules: snapshot.ruleVersion, window: snapshot.windowFormat)
        overlay.lay(over: &snapshot, of: users)
        return snapshot
    }

    private func take(_ writes: BatchWrites) throws {
        let keys = writes.canonicalDays.map(\.key) + writes.removedCanonicalDays
        let stored = try store.readCanonical(keys.filter { touched[$0] == nil })
        for write in writes.canonicalDays { note(write.key, write.day, stored) }
        for key in writes.removedCanonicalDays { note(key, nil, stored) }
        overlay.take(writes)
        if touched.count > dayLimit || overlay.size > 4 * dayLimit { throw TooMuch() }
    }

    private func note(_ key: UserDay, _ day: CanonicalDay?, _ stored: [UserDay: CanonicalDay]) {
        touched[key, default: Change(before: stored[key], after: nil)].after = day
    }
}

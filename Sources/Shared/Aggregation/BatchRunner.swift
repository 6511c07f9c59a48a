internal import Domain
public import MessageContract
public import Storage

/// Applies records to the database, one transaction a batch. Used by the worker with a fence, and by the operator's
/// tools without one. Owned by one thread.
public final class BatchRunner {
    public enum Result: Hashable, Sendable {
        case applied(BatchCounts)
        /// The partition's row is not as this lane left it: nothing was written.
        case fenceLost
        /// The server answered COMMIT with ROLLBACK: nothing was written, the batch may be tried again.
        case rolledBack
        /// These records (by index) would each make one origin too many of a source: nothing was written, the batch
        /// may be tried without them.
        case tooManyOrigins([Int])
    }

    public let store: BatchStore

    public init(store: BatchStore) {
        self.store = store
    }

    /// Applies records of days.
    ///
    /// - Parameters:
    ///   - records: in any order; with none, only the fence moves.
    ///   - fence: the partition's move, made in the same transaction.
    /// - Returns: what became of the batch.
    /// - Throws: `PostgresError` (look at its disposition), `StorageError`, or `SchemaGate.Refusal` when a rule
    ///   version or window format was raised above what this build knows. Nothing was written then, unless the
    ///   connection was lost while the COMMIT was on its way: the fence tells, at the next try.
    public func run(_ records: [DecodedDays], fence: Fence?) throws -> Result {
        try transaction(fence, users: DaysMerge.users(of: records)) { snapshot in
            var merge = try DaysMerge(records, snapshot)
            if !merge.tooManyOrigins.isEmpty { return .refused(.tooManyOrigins(merge.tooManyOrigins)) }
            let days = try store.readDays(merge.needs())
            let (writes, counts) = merge.finish(days)
            return .write(writes, counts)
        }
    }

    /// Applies accounts records: a deletion, a disconnect or a pin, and all that follows from it for the user's days,
    /// in the one transaction. As for days, known changes change nothing.
    public func run(_ changes: [DecodedAccount], fence: Fence?) throws -> Result {
        try transaction(fence, users: TouchedUser.sorted(changes.map(\.user))) { snapshot in
            let merge = AccountsMerge(changes, snapshot)
            let days = try store.readDays(merge.usersWithDays.map(DayRange.all))
            let (writes, counts) = try merge.finish(days)
            return .write(writes, counts)
        }
    }

    private enum Step {
        case write(BatchWrites, BatchCounts)
        case refused(Result)
    }

    private func transaction(
        _ fence: Fence?,
        users: [TouchedUser],
        _ body: (BatchSnapshot) throws -> Step
    ) throws -> Result {
        do {
            let snapshot = try store.begin(fence, users: users)
            guard snapshot.isFenceHeld else {
                store.rollback()
                return .fenceLost
            }
            try SchemaGate.check(rules: snapshot.ruleVersion, window: snapshot.windowFormat)
            switch try body(snapshot) {
            case .write(let writes, let counts):
                return try store.commit(writes) == .committed ? .applied(counts) : .rolledBack
            case .refused(let result):
                store.rollback()
                return result
            }
        } catch {
            store.rollback()
            throw error
        }
    }
}

extension DayRange {
    /// Every day that a table can hold.
    static func all(of user: UserID) -> DayRange {
        DayRange(
            user: user,
            first: CalendarDay(daysSinceEpoch: -719_528),
            last: CalendarDay(daysSinceEpoch: 2_932_896)
        )
    }
}

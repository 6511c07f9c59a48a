public import Domain
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
    }

    public let store: BatchStore

    public init(store: BatchStore) {
        self.store = store
    }

    /// - Parameters:
    ///   - records: in any order; with none, only the fence moves.
    ///   - fence: the partition's move, made in the same transaction.
    /// - Returns: what became of the batch.
    /// - Throws: `PostgresError` (look at its disposition), `StorageError`, or `SchemaGate.Refusal` when a rule
    ///   version or window format was raised above what this build knows. Nothing was written then, unless the
    ///   connection was lost while the COMMIT was on its way: the fence tells, at the next try.
    public func run(_ records: [DecodedDays], fence: Fence?) throws -> Result {
        let needs = DaysMerge.needs(of: records)
        do {
            let snapshot = try store.begin(fence, users: needs.users, ranges: needs.ranges)
            guard snapshot.isFenceHeld else {
                store.rollback()
                return .fenceLost
            }
            try SchemaGate.check(rules: snapshot.ruleVersion, window: snapshot.windowFormat)
            let (writes, counts) = DaysMerge.merge(records, into: snapshot)
            switch try store.commit(writes) {
            case .committed: return .applied(counts)
            case .rolledBack: return .rolledBack
            }
        } catch {
            store.rollback()
            throw error
        }
    }

    /// Deletes a user's data below a watermark, in one transaction; what is newer stays, and what is older stays
    /// away however late it comes (D7). Deleting again, or with an older watermark, changes nothing.
    public func delete(_ user: UserID, below watermark: Version) throws -> Result {
        let touched = TouchedUser(user: user, bucket: Int16(Partitioner.bucket(of: user)))
        let always = DayRange(
            user: user,
            first: CalendarDay(daysSinceEpoch: -719_528),
            last: CalendarDay(daysSinceEpoch: 2_932_896)
        )
        do {
            let snapshot = try store.begin(nil, users: [touched], ranges: [always])
            let writes = DaysMerge.delete(user, below: watermark, in: snapshot)
            switch try store.commit(writes) {
            case .committed: return .applied(BatchCounts())
            case .rolledBack: return .rolledBack
            }
        } catch {
            store.rollback()
            throw error
        }
    }
}

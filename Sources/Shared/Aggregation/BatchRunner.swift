internal import Domain
public import MessageContract
public import Storage

/// What a batch of one topic holds: records of one of these kinds.
public struct TopicRecords: Sendable {
    public var days: [DecodedDays] = []
    public var accounts: [DecodedAccount] = []
    public var devices: [DecodedDevice] = []

    public init() {}
}

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

    /// The parts of a batch's time.
    public enum Stage: String, CaseIterable, Sendable {
        /// BEGIN, the fence, the locks and what hangs on the accounts.
        case lock
        /// What the windows decide.
        case confirm
        /// The days that the windows leave open.
        case read
        /// The merge of rows.
        case merge
        /// The writes and the COMMIT.
        case write
    }

    /// Small enough that merging and the database's work overlap; each portion costs the start of four statements.
    public static let portionDays = 1000

    public let store: BatchStore
    private let portionDays: Int
    private let build: Int32
    /// Told how long each stage took, on the runner's thread; stages that come in portions more than once a batch.
    public var onStage: ((Stage, Duration) -> Void)?

    /// - Parameters:
    ///   - store: of the connection that batches run on.
    ///   - build: the program's number; a schema that asks for a newer one is not written to.
    ///   - portionDays: about how many days a portion has; tests make it small.
    public init(store: BatchStore, build: Int32 = .max, portionDays: Int = BatchRunner.portionDays) {
        self.store = store
        self.build = build
        self.portionDays = portionDays
    }

    private func timed<Value>(_ stage: Stage, _ body: () throws -> Value) rethrows -> Value {
        var sum = Duration.zero
        return try timed(stage, &sum, body)
    }

    /// Also adds what it took.
    private func timed<Value>(_ stage: Stage, _ sum: inout Duration, _ body: () throws -> Value) rethrows -> Value {
        guard let onStage else { return try body() }
        let started = ContinuousClock.now
        defer {
            let taken = ContinuousClock.now - started
            sum += taken
            onStage(stage, taken)
        }
        return try body()
    }

    /// Applies records of days.
    ///
    /// - Parameters:
    ///   - records: in any order; with none, only the fence moves.
    ///   - fence: the partition's move, made in the same transaction.
    /// - Returns: what became of the batch.
    /// - Throws: `PostgresError` (look at its disposition), `StorageError`, or `SchemaGate.Refusal` when a rule
    ///   version or window format was raised above what this build knows, or the oldest build above it. Nothing was
    ///   written then, unless the connection was lost while the COMMIT was on its way: the fence tells, at the next try.
    public func run(_ records: [DecodedDays], fence: Fence?) throws -> Result {
        try transaction(fence, users: DaysMerge.users(of: records)) { snapshot in
            var merge = try timed(.confirm) { try DaysMerge(records, snapshot, replaces: true) }
            if !merge.tooManyOrigins.isEmpty { return .refused(.tooManyOrigins(merge.tooManyOrigins)) }
            let portions = merge.needs().portions(ofDays: portionDays)
            let replacements = merge.replacements(ofDays: portionDays)
            if portions.isEmpty && replacements.isEmpty {
                let (writes, counts) = timed(.merge) { merge.finish(StoredDays()) }
                return .write(writes, counts)
            }
            // The rows of a portion are merged while the database reads or writes those of another. What is neither
            // waiting for rows nor merging counts as writing.
            let started = ContinuousClock.now
            var elsewhere = Duration.zero
            var counts = BatchCounts()
            let commit = try store.exchange { exchange in
                for portion in portions { exchange.ask(for: portion) }
                for portion in replacements {
                    let days = timed(.merge, &elsewhere) { merge.days(ofReplacements: portion) }
                    exchange.replace(days, rules: merge.rules)
                }
                for (index, portion) in portions.enumerated() {
                    let days = try timed(.read, &elsewhere) { try exchange.days(ofPortion: index) }
                    let last = index == portions.count - 1 ? nil : portion.last?.user
                    exchange.write(timed(.merge, &elsewhere) { merge.rows(days, through: last) })
                }
                var missed: [UserDay] = []
                for (index, portion) in replacements.enumerated() {
                    missed += merge.conclude(replacements: portion, missed: try exchange.missed(ofReplacement: index))
                }
                if !missed.isEmpty {
                    exchange.ask(for: [DayRange](covering: missed)[...])
                    let days = try timed(.read, &elsewhere) { try exchange.days(ofPortion: portions.count) }
                    exchange.write(timed(.merge, &elsewhere) { merge.rows(days, through: nil) })
                }
                let (rest, all) = timed(.merge, &elsewhere) { merge.rest() }
                counts = all
                exchange.write(rest)
            }
            onStage?(.write, ContinuousClock.now - started - elsewhere)
            return .finished(commit, counts)
        }
    }

    /// Applies accounts records: a deletion, a disconnect or a pin, and all that follows from it for the user's days,
    /// in the one transaction. As for days, known changes change nothing.
    public func run(_ changes: [DecodedAccount], fence: Fence?) throws -> Result {
        try transaction(fence, users: TouchedUser.sorted(changes.map(\.user))) { snapshot in
            let merge = AccountsMerge(changes, snapshot)
            let days = try timed(.read) { try store.readDays(merge.usersWithDays.map(DayRange.all)) }
            let (writes, counts) = try timed(.merge) { try merge.finish(days) }
            return .write(writes, counts)
        }
    }

    /// Applies device records: who registered which token, and what that makes due.
    public func run(_ records: [DecodedDevice], fence: Fence?) throws -> Result {
        try transaction(fence, users: TouchedUser.sorted(records.map(\.record.user))) { snapshot in
            let merge = DevicesMerge(records, snapshot)
            let stored = try timed(.read) { try store.readDevices(merge.hashes) }
            let (writes, counts) = timed(.merge) { merge.finish(stored) }
            return .write(writes, counts)
        }
    }

    /// Applies records of one topic, which are all of one kind; with none, only the fence moves.
    public func run(_ records: TopicRecords, fence: Fence?) throws -> Result {
        if !records.accounts.isEmpty { return try run(records.accounts, fence: fence) }
        if !records.devices.isEmpty { return try run(records.devices, fence: fence) }
        return try run(records.days, fence: fence)
    }

    private enum Step {
        case write(BatchWrites, BatchCounts)
        /// Written and answered already.
        case finished(BatchStore.Commit, BatchCounts)
        case refused(Result)
    }

    private func transaction(
        _ fence: Fence?,
        users: [TouchedUser],
        _ body: (BatchSnapshot) throws -> Step
    ) throws -> Result {
        do {
            let snapshot = try timed(.lock) { try store.begin(fence, users: users) }
            guard snapshot.isFenceHeld else {
                store.rollback()
                return .fenceLost
            }
            try SchemaGate.check(
                rules: snapshot.ruleVersion,
                window: snapshot.windowFormat,
                oldestBuild: snapshot.oldestBuild,
                build: build
            )
            switch try body(snapshot) {
            case .write(let writes, let counts):
                let commit = try timed(.write) { try store.commit(writes) }
                return commit == .committed ? .applied(counts) : .rolledBack
            case .finished(let commit, let counts):
                return commit == .committed ? .applied(counts) : .rolledBack
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

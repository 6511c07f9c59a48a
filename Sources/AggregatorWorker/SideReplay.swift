internal import Aggregation
internal import Domain
internal import MessageContract
public import Postgres
internal import Storage

/// Applies records beside the workers, by the very batches that these apply, without a position: what a record says is
/// the same whoever applies it, and however often (D3). Poison is counted and put nowhere. Belongs to one thread.
public final class SideReplay {
    /// What stands in the way of a batch, and trying again does not help.
    public struct Refusal: Error, CustomStringConvertible {
        public let description: String
    }

    private let runner: BatchRunner
    private let connection: PostgresConnection
    private let months: MonthKeeper
    /// Batches shrink as soon as they are long: live records of the same users wait for their end.
    private var growth = BatchGrowth(BatchCut.Limits(records: 4000, days: 2000, bytes: 8 << 20))
    public private(set) var counts = ReplayCounts()

    /// So many times a batch that met a conflict is tried again.
    private static let patience = 200

    /// - Parameters:
    ///   - connection: with `BatchStore.sessionSettings`; nothing else uses it.
    ///   - connect: makes the connection on which missing months are made.
    public init(
        _ connection: PostgresConnection,
        connect: @escaping () throws(PostgresError) -> PostgresConnection
    ) {
        self.connection = connection
        runner = BatchRunner(store: BatchStore(connection))
        months = MonthKeeper(connect: connect)
    }

    public func count(_ body: (inout ReplayCounts) -> Void) {
        body(&counts)
    }

    /// Applies what the batch holds, and empties it.
    ///
    /// - Throws: `PostgresError` where the database is away, `Refusal`, or what `BatchRunner` throws. Everything before
    ///   this batch is applied then.
    public func apply(_ batch: inout ReplayBatch) throws {
        guard !batch.isEmpty else { return }
        defer { batch.removeAll() }
        let started = ContinuousClock.now
        if !batch.days.isEmpty { try apply(batch.days[...]) }
        if !batch.accounts.isEmpty { try apply(batch.accounts[...]) }
        let (seconds, attoseconds) = (ContinuousClock.now - started).components
        growth.note(nanoseconds: seconds * 1_000_000_000 + attoseconds / 1_000_000_000, days: batch.work)
        batch.dayLimit = growth.limits.days
    }

    private func apply(_ records: ArraySlice<DecodedDays>) throws {
        guard !records.isEmpty else { return }
        var records = Array(records)
        try months.prepare(for: records)
        for _ in 0..<Self.patience {
            do {
                switch try runner.run(records, fence: nil) {
                case .applied(let applied):
                    counts.note(applied, records.count)
                    return
                case .tooManyOrigins(let refused):
                    counts.poison[PoisonReason.tooManyOrigins.code, default: 0] += refused.count
                    let refused = Set(refused)
                    records = records.indices.filter { !refused.contains($0) }.map { records[$0] }
                case .rolledBack, .fenceLost:
                    counts.retries += 1
                }
            } catch let error as PostgresError {
                switch try answer(error) {
                case .again: months.forget()
                case .split:
                    guard records.count > 1 else { return countRefused() }
                    try apply(records[..<(records.count / 2)])
                    return try apply(records[(records.count / 2)...])
                }
                try months.prepare(for: records)
            }
        }
        throw Refusal(description: "a batch met conflicts \(Self.patience) times: look for who holds locks so long")
    }

    private func apply(_ changes: ArraySlice<DecodedAccount>) throws {
        guard !changes.isEmpty else { return }
        for _ in 0..<Self.patience {
            do {
                if case .applied(let applied) = try runner.run(Array(changes), fence: nil) {
                    return counts.note(applied, changes.count)
                }
                counts.retries += 1
            } catch let error as PostgresError {
                switch try answer(error) {
                case .again: continue
                case .split:
                    guard changes.count > 1 else { return countRefused() }
                    let middle = changes.startIndex + changes.count / 2
                    try apply(changes[..<middle])
                    return try apply(changes[middle...])
                }
            }
        }
        throw Refusal(description: "a batch met conflicts \(Self.patience) times: look for who holds locks so long")
    }

    private enum Answer {
        case again, split
    }

    private func answer(_ error: PostgresError) throws -> Answer {
        // A row that was not there under the account's lock: the next try finds it.
        if error.sqlState == "23505" {
            counts.retries += 1
            return .again
        }
        switch error.disposition {
        case .retry, .missingPartition:
            counts.retries += 1
            return .again
        case .poison: return .split
        case .unavailable, .stop: throw error
        }
    }

    private func countRefused() {
        counts.poison[PoisonReason.refused.code, default: 0] += 1
    }
}

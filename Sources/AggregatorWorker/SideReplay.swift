internal import Aggregation
internal import Domain
internal import MessageContract
internal import Observability
public import Postgres
internal import ServiceRuntime
internal import Storage

/// Applies records beside the workers, by the very batches that these apply, without a position: what a record says is
/// the same whoever applies it, and however often (D3). Poison is counted and put nowhere. Belongs to one thread.
public final class SideReplay {
    /// Trying again has not helped for minutes: somebody holds locks, or the database stays away.
    public struct GaveUp: Error, CustomStringConvertible {
        public let description: String
        /// The database, and not somebody's locks.
        public let isDatabaseAway: Bool
    }

    /// It was told to stop while it waited to try a batch again.
    public struct Stopped: Error {}

    private let runner: BatchRunner
    private let months: MonthKeeper
    /// Batches shrink as soon as they are long: live records of the same users wait for their end.
    private var growth = BatchGrowth(BatchCut.Limits(records: 4000, days: 2000, bytes: 8 << 20))
    public private(set) var counts = ReplayCounts()

    private let pause: (Int) -> Bool
    private var generator = SystemRandomNumberGenerator()

    /// Tries of one batch, with the waits between them: some five minutes.
    private static let patience = 60
    private static let backoff = Backoff(base: .milliseconds(50), cap: .seconds(5))

    /// - Parameters:
    ///   - connection: with `BatchStore.sessionSettings`; nothing else uses it.
    ///   - connect: makes the connection on which missing months are made.
    ///   - pause: waits so many milliseconds; true where it is to stop.
    public init(
        _ connection: PostgresConnection,
        connect: @escaping () throws(PostgresError) -> PostgresConnection,
        pause: @escaping (Int) -> Bool
    ) {
        self.pause = pause
        runner = BatchRunner(store: BatchStore(connection), build: Int32(clamping: BuildInfo.current.number))
        months = MonthKeeper(connect: connect)
    }

    public func count(_ body: (inout ReplayCounts) -> Void) {
        body(&counts)
    }

    /// Applies what the batch holds, and empties it. Conflicts and a database that is away are waited out, as the worker
    /// does, but not for ever.
    ///
    /// - Throws: `GaveUp`, `Stopped`, or what `BatchRunner` throws and trying again does not mend. Everything before this
    ///   batch is applied then.
    public func apply(_ batch: inout ReplayBatch) throws {
        guard !batch.isEmpty else { return }
        defer { batch.removeAll() }
        let started = ContinuousClock.now
        try apply(.days(batch.days))
        try apply(.accounts(batch.accounts))
        try apply(.devices(batch.devices))
        let (seconds, attoseconds) = (ContinuousClock.now - started).components
        growth.note(nanoseconds: seconds * 1_000_000_000 + attoseconds / 1_000_000_000, days: batch.work)
        batch.dayLimit = growth.limits.days
    }

    /// Records of one kind, on their way into one transaction or, where the database refuses one of them, into two.
    private enum Portion {
        case days([DecodedDays])
        case accounts([DecodedAccount])
        case devices([DecodedDevice])

        var count: Int {
            switch self {
            case .days(let records): records.count
            case .accounts(let changes): changes.count
            case .devices(let devices): devices.count
            }
        }

        func half(_ range: Range<Int>) -> Portion {
            switch self {
            case .days(let records): .days(Array(records[range]))
            case .accounts(let changes): .accounts(Array(changes[range]))
            case .devices(let devices): .devices(Array(devices[range]))
            }
        }
    }

    private func apply(_ portion: Portion) throws {
        var portion = portion
        var failure: PostgresError?
        for attempt in 1...Self.patience where portion.count > 0 {
            do {
                if runner.store.isBroken { try runner.store.reconnect() }
                switch try run(portion) {
                case .applied(let applied):
                    counts.note(applied, portion.count)
                    return
                case .tooManyOrigins(let refused):
                    portion = without(refused, portion)
                    continue
                case .rolledBack, .fenceLost: break
                }
            } catch let error as PostgresError {
                failure = error
                switch error.disposition {
                case .retry: break
                case .missingPartition: months.forget()
                case .unavailable:
                    months.close()
                    runner.store.disconnect()
                case .poison: return try split(portion)
                case .stop: throw error
                }
            }
            counts.retries += 1
            let delay = Self.backoff.delay(attempt: min(attempt, 20), using: &generator)
            if pause(Int(delay.clampedNanoseconds / 1_000_000)) { throw Stopped() }
        }
        guard portion.count > 0 else { return }
        throw GaveUp(
            description: failure.map { "\($0)" } ?? "the database rolled the same batch back again and again",
            isDatabaseAway: failure?.disposition == .unavailable
        )
    }

    private func run(_ portion: Portion) throws -> BatchRunner.Result {
        switch portion {
        case .days(let records):
            try months.prepare(for: records)
            return try runner.run(records, fence: nil)
        case .accounts(let changes): return try runner.run(changes, fence: nil)
        case .devices(let devices): return try runner.run(devices, fence: nil)
        }
    }

    private func without(_ refused: [Int], _ portion: Portion) -> Portion {
        guard case .days(let records) = portion else { return portion }
        counts.poison[PoisonReason.tooManyOrigins.code, default: 0] += refused.count
        let refused = Set(refused)
        return .days(records.indices.filter { !refused.contains($0) }.map { records[$0] })
    }

    private func split(_ portion: Portion) throws {
        guard portion.count > 1 else {
            counts.poison[PoisonReason.refused.code, default: 0] += 1
            return
        }
        let middle = portion.count / 2
        try apply(portion.half(0..<middle))
        try apply(portion.half(middle..<portion.count))
    }
}

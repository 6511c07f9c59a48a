import Aggregation
import AggregatorWorker
import Configuration
import DevelopmentStack
import Domain
import Kafka
import MessageContract
import Postgres
import ServiceRuntime
import Storage
import Synchronization

/// Works out what a replay would change. Threads share one snapshot of the database; each has whole users, those of
/// the partitions with one number, so that none needs what another would have written.
struct PreviewRun: Sendable {
    let access: StackAccess
    let request: ReplayRequest
    let plan: ReplayPlan
    let rate: Int?
    let jobs: Int
    /// It gives up after so many: as long as it runs, the database can't clean up behind it.
    let seconds: Int

    /// Partitions with one number, of all topics.
    private struct Part: Sendable {
        let stretches: [LogScan.Stretch]
    }

    /// - Returns: the report; nil where it was stopped.
    func run(_ signals: StopSignals, _ tally: ReplayTally, tick: () -> Void) throws -> PreviewReport? {
        let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
        let keeper = BatchStore(try access.connect(settings: settings))
        let snapshot = try keeper.beginSnapshot()
        defer { keeper.rollback() }
        let believes = try !access.isDevelopmentBroker()
        let found = Found()
        // With different counts a user's partitions have different numbers: then one thread takes all.
        let isEven = Set(plan.partitions.values).count <= 1
        let jobs = isEven ? min(jobs, max(1, Set(plan.stretches.map(\.place.partition)).count)) : 1
        let pacer = SharedPacer(rate: rate, now: monotonicSeconds())
        let deadline = monotonicSeconds() + Double(seconds)
        let isWhole = try PartWorkers.run(
            parts(jobs),
            jobs: jobs,
            signals,
            setup: { _ in LogScan(try access.kafkaReader()) },
            work: { part, scan, stop in
                let connection = try access.connect(settings: settings)
                let store = BatchStore(connection)
                _ = try store.beginSnapshot(sharing: snapshot)
                defer { store.rollback() }
                let worker = Worker(PreviewRunner(store: store), pacer, until: deadline)
                for stretch in part.stretches where !stop.isRaised {
                    guard let topic = topic(of: stretch) else { continue }
                    let batch = try ReplayBatch(topic, request.filter, believesAppendTimes: believes)
                    let count = jobs > 1 ? plan.partitions[stretch.place.topic] : nil
                    try worker.preview(stretch, batch, checksPartition: count, scan, tally, stop)
                }
                found.add(worker.changes)
            },
            tick: tick
        )
        return isWhole ? PreviewReport(tally.now.counts, found.changes) : nil
    }

    /// One thread takes all of it where a user's records may lie in several partitions.
    private func parts(_ jobs: Int) -> [Part] {
        if jobs == 1 { return [Part(stretches: plan.stretches)] }
        return Dictionary(grouping: plan.stretches, by: \.place.partition).sorted { $0.key < $1.key }
            .map { Part(stretches: $0.value) }
    }

    private func topic(of stretch: LogScan.Stretch) -> Topic? {
        let prefix = access.configuration.topicPrefix
        return request.topics.first { $0.name(prefix: prefix) == stretch.place.topic }
    }

    private final class Worker {
        private let runner: PreviewRunner
        private let pacer: SharedPacer
        private let deadline: Double
        private var counts = ReplayCounts()

        init(_ runner: PreviewRunner, _ pacer: SharedPacer, until deadline: Double) {
            self.runner = runner
            self.pacer = pacer
            self.deadline = deadline
        }

        var changes: [UserDay: PreviewRunner.Change] { runner.changes }

        func preview(
            _ stretch: LogScan.Stretch,
            _ batch: ReplayBatch,
            checksPartition count: Int?,
            _ scan: LogScan,
            _ tally: ReplayTally,
            _ stop: StopFlag
        ) throws {
            var batch = batch
            var before = counts
            var reached = stretch.start
            func take(_ next: Int64) throws {
                if let count { try Self.check(batch, stretch, count) }
                guard monotonicSeconds() < deadline else {
                    throw CommandFailure(
                        .temporaryFailure,
                        "the preview took longer than it may",
                        next: "Name a shorter stretch or fewer users, or raise --max-time."
                    )
                }
                do {
                    try apply(&batch)
                } catch is PreviewRunner.TooMuch {
                    throw CommandFailure(
                        .failure,
                        "more would change than a preview keeps in memory",
                        next: "Name a shorter stretch, or --user, --source or --route."
                    )
                }
                tally.add(from: before, to: counts, offsets: next - reached)
                before = counts
                reached = next
            }
            try scan.read(stretch) { record in
                batch.take(record, &counts)
                let wait = pacer.take(now: monotonicSeconds())
                if wait >= 0.001 { stop.wait(milliseconds: Int(wait * 1000)) }
                if batch.isFull { try take(record.offset + 1) }
                return !stop.isRaised
            }
            if !stop.isRaised { try take(stretch.end) }
        }

        private func apply(_ batch: inout ReplayBatch) throws {
            defer { batch.removeAll() }
            var records = batch.days
            while !records.isEmpty {
                switch try runner.run(records) {
                case .taken(let taken):
                    counts.note(taken, records.count)
                    records = []
                case .tooManyOrigins(let refused):
                    counts.poison[PoisonReason.tooManyOrigins.code, default: 0] += refused.count
                    let refused = Set(refused)
                    records = records.indices.filter { !refused.contains($0) }.map { records[$0] }
                }
            }
            if !batch.accounts.isEmpty { counts.note(try runner.run(batch.accounts), batch.accounts.count) }
        }

        /// A record from before partitions were added lies elsewhere than the user's newer ones.
        private static func check(_ batch: ReplayBatch, _ stretch: LogScan.Stretch, _ count: Int) throws {
            let users = batch.days.lazy.map(\.user)
            let others = batch.accounts.lazy.map(\.user)
            let isTheirs = { (user: UserID) in
                Int32(clamping: Partitioner.partition(of: user, partitions: count)) == stretch.place.partition
            }
            guard users.allSatisfy(isTheirs) && others.allSatisfy(isTheirs) else {
                throw CommandFailure(
                    .failure,
                    "\(stretch.place) holds records of users who belong to other partitions now",
                    next: "Partitions were added since. Give --jobs 1: one thread then sees all of a user's records."
                )
            }
        }
    }

    private final class Found: Sendable {
        private let state = Mutex<[UserDay: PreviewRunner.Change]>([:])

        func add(_ changes: [UserDay: PreviewRunner.Change]) {
            state.withLock { $0.merge(changes) { first, _ in first } }
        }

        var changes: [UserDay: PreviewRunner.Change] { state.withLock { $0 } }
    }
}

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

/// A replay beside the workers, partition by partition in several threads, each with a connection of its own.
struct ReplayRun: Sendable {
    /// A part of the saved run: a partition, from where it goes on.
    struct Part: Sendable {
        var stretch: LogScan.Stretch
        let topic: Topic
        var saved: ToolRuns.Part
    }

    let access: StackAccess
    let request: ReplayRequest
    let run: String
    let parts: [Part]
    /// Records a second over all threads; nil for as fast as it goes.
    let rate: Int?
    let jobs: Int

    /// - Returns: whether it went to its end.
    /// - Throws: what stands in its way; all until then is applied and saved.
    func run(_ signals: StopSignals, _ tally: ReplayTally, tick: () -> Void) throws -> Bool {
        let believes = try !access.isDevelopmentBroker()
        let jobs = min(jobs, max(1, parts.count))
        let pacer = SharedPacer(rate: rate, now: monotonicSeconds())
        return try PartWorkers.run(
            parts,
            jobs: jobs,
            signals,
            setup: { stop in try Worker(access, pacer, stop) },
            work: { part, worker, stop in
                do {
                    try worker.replay(part, of: run, request.filter, believes, tally, stop)
                } catch is SideReplay.Stopped {
                    // What was not applied is not saved as applied.
                }
            },
            tick: tick
        )
    }

    /// What one thread has for itself.
    final class Worker {
        private let replay: SideReplay
        private let saving: PostgresConnection
        private let runs: ToolRuns
        private let scan: LogScan
        private let access: StackAccess
        private let pacer: SharedPacer

        init(_ access: StackAccess, _ pacer: SharedPacer, _ stop: StopFlag) throws {
            self.access = access
            self.pacer = pacer
            let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
            replay = SideReplay(
                try access.connect(settings: settings),
                connect: { () throws(PostgresError) in
                    do {
                        return try access.connect()
                    } catch let error as PostgresError {
                        throw error
                    } catch {
                        throw PostgresError(message: "the connection that makes months could not be opened")
                    }
                },
                pause: { stop.wait(milliseconds: $0) }
            )
            saving = try access.connect()
            runs = ToolRuns(saving)
            scan = LogScan(try access.kafkaReader())
        }

        func replay(
            _ part: Part,
            of run: String,
            _ filter: ReplayFilter,
            _ believesAppendTimes: Bool,
            _ tally: ReplayTally,
            _ stop: StopFlag
        ) throws {
            var batch = try ReplayBatch(part.topic, filter, believesAppendTimes: believesAppendTimes)
            var part = part
            var savedAt = monotonicSeconds()
            var before = replay.counts
            func note(_ next: Int64) {
                let now = replay.counts
                part.saved = ReplayProgress.saved(part.saved, next: next, from: before, to: now)
                tally.add(from: before, to: now, offsets: next - part.stretch.start)
                part.stretch = LogScan.Stretch(place: part.stretch.place, start: next, end: part.stretch.end)
                before = now
            }
            try scan.read(part.stretch) { record in
                replay.count { batch.take(record, &$0) }
                let wait = pacer.take(now: monotonicSeconds())
                if wait >= 0.001 { stop.wait(milliseconds: Int(wait * 1000)) }
                if batch.isFull || stop.isRaised || wait > 0.05 {
                    try replay.apply(&batch)
                    note(record.offset + 1)
                    if monotonicSeconds() - savedAt > 1 {
                        try save(part.saved, of: run)
                        savedAt = monotonicSeconds()
                    }
                }
                return !stop.isRaised
            }
            if !stop.isRaised {
                try replay.apply(&batch)
                note(part.stretch.end)
                part.saved.isFinished = true
            }
            try save(part.saved, of: run)
        }

        private func save(_ part: ToolRuns.Part, of run: String) throws {
            try saving.reconnecting { try runs.save(part, of: run) }
        }
    }
}

/// How a replay's progress is kept: the end of the stretch and what was counted. Pure.
enum ReplayProgress {
    static func part(_ stretch: LogScan.Stretch) -> ToolRuns.Part {
        ToolRuns.Part(name: stretch.place.description, position: String(stretch.start), counts: [stretch.end])
    }

    /// Nil where it can't be read, or belongs to no topic of these.
    static func stretch(_ part: ToolRuns.Part) -> LogScan.Stretch? {
        guard let choice = try? PartitionChoice(part.name), case .partition(let name) = choice,
            let start = Int64(part.position), let end = part.counts.first, end >= start
        else { return nil }
        let place = TopicPartition(topic: name.topic, partition: name.partition)
        return LogScan.Stretch(place: place, start: start, end: end)
    }

    static func saved(
        _ part: ToolRuns.Part,
        next: Int64,
        from before: ReplayCounts,
        to after: ReplayCounts
    ) -> ToolRuns.Part {
        var part = part
        let old = Array(part.counts.dropFirst()) + Array(repeating: 0, count: 12)
        let new = zip(numbers(after), numbers(before)).map { $0 - $1 }
        part.counts = [part.counts.first ?? 0] + zip(old, new).map { $0 &+ $1 }
        part.position = String(next)
        return part
    }

    private static func numbers(_ counts: ReplayCounts) -> [Int64] {
        [
            counts.read, counts.applied, counts.changed, counts.confirmed, counts.older, counts.suppressed,
            counts.belowFloor, counts.sourceRows, counts.canonical, counts.accounts, counts.retries,
            counts.poison.values.reduce(0, +),
        ].map { Int64($0) }
    }

    /// What an earlier call had counted. By which reason a record was poison is not kept.
    static func counts(_ part: ToolRuns.Part) -> ReplayCounts {
        let numbers = part.counts.dropFirst().map { Int(clamping: $0) } + Array(repeating: 0, count: 12)
        var counts = ReplayCounts()
        counts.read = numbers[0]
        counts.applied = numbers[1]
        counts.changed = numbers[2]
        counts.confirmed = numbers[3]
        counts.older = numbers[4]
        counts.suppressed = numbers[5]
        counts.belowFloor = numbers[6]
        counts.sourceRows = numbers[7]
        counts.canonical = numbers[8]
        counts.accounts = numbers[9]
        counts.retries = numbers[10]
        if numbers[11] > 0 { counts.poison["in_an_earlier_call"] = numbers[11] }
        return counts
    }
}

/// What all threads of a replay have done together.
final class ReplayTally: Sendable {
    private let state: Mutex<(counts: ReplayCounts, offsets: Int64)>

    init(_ earlier: ReplayCounts = ReplayCounts()) {
        state = Mutex((earlier, 0))
    }

    func add(from before: ReplayCounts, to after: ReplayCounts, offsets: Int64) {
        state.withLock { state in
            state.counts += after
            state.counts.subtract(before)
            state.offsets += offsets
        }
    }

    /// Counted with earlier calls; offsets of this one alone.
    var now: (counts: ReplayCounts, offsets: Int64) { state.withLock { $0 } }
}

extension ReplayCounts {
    fileprivate mutating func subtract(_ other: ReplayCounts) {
        read -= other.read
        applied -= other.applied
        changed -= other.changed
        confirmed -= other.confirmed
        older -= other.older
        suppressed -= other.suppressed
        belowFloor -= other.belowFloor
        sourceRows -= other.sourceRows
        canonical -= other.canonical
        accounts -= other.accounts
        retries -= other.retries
        for (reason, count) in other.poison {
            let left = (poison[reason] ?? 0) - count
            poison[reason] = left == 0 ? nil : left
        }
    }
}

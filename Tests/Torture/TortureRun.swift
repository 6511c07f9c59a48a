import Foundation
import Kafka
import Postgres
import TestSupport

/// A line to standard output at once, also into a pipe.
private func emit(_ line: String) {
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
}

/// One run: load and faults, healing, the comparison, and the replays with their comparisons.
public final class TortureRun {
    private let options: TortureOptions
    private var report = Report()
    private let begun = Date()
    private var hashMismatches = 0

    public init(_ options: TortureOptions) {
        self.options = options
    }

    /// Prints what it finds.
    ///
    /// - Returns: whether every invariant held.
    public func run() -> Bool {
        emit("torture: seed \(options.seed), \(options.seconds) s of faults, Kafka \(options.kafka)")
        emit("torture: the same again: Scripts/torture \(options.words)")
        do {
            try perform()
        } catch {
            emit("torture: the run did not get to its end: \(error)")
            emit("torture: seed \(options.seed)")
            return false
        }
        for line in report.lines() { emit(line) }
        emit("torture: \(report.isGood ? "passed" : "FAILED"), seed \(options.seed)")
        return report.isGood
    }

    private func say(_ text: String) {
        emit(String(format: "%6.1f s  %@", Date().timeIntervalSince(begun), text))
    }

    private func perform() throws {
        let surroundings = try Surroundings(options.kafka, partitions: options.isShort ? 2 : 4)
        defer { surroundings.end() }
        let workers = try Workers(
            4,
            environment: surroundings.workerEnvironment(),
            upstream: surroundings.upstream,
            databaseURL: surroundings.databaseURL()
        )
        defer { workers.end() }
        say("Kafka, PostgreSQL and ingest are up")
        let first = load(surroundings, group: "aaaa", seed: options.seed, rate: options.isShort ? 50 : 20)
        try workers.keep(3)
        first.start()
        let nemesis = Nemesis(surroundings, workers, first, seed: options.seed &+ 1) { [self] in say($0) }
        defer { if !report.isGood { emit(workers.tails()) } }
        try breakThings(nemesis, workers, first)
        try nemesis.heal()
        say("healed; the load ends")
        try first.stop()
        try surroundings.stopIngest()
        let check = Verification(surroundings, workers, believesAppendTimes: options.kafka == .real)
        try check.waitUntilApplied()
        say("all is applied; comparing")
        var log = try check.compare(first.outcome, &report)
        let hash = try check.hash(ofGroup: "aaaa")
        say("hash \(String(hash, radix: 16)), \(log.records.count) records")
        try replay(surroundings, workers, check, first, &log, hash)
        finish(nemesis, workers, first)
    }

    /// For as long as was asked for, and for up to a third more while something is still to come that it has to go through.
    private func breakThings(_ nemesis: Nemesis, _ workers: Workers, _ load: Load) throws {
        let end = Date().addingTimeInterval(Double(options.seconds))
        let last = end.addingTimeInterval(Double(options.seconds / 3))
        try nemesis.run(until: end, short: options.isShort) {
            guard let goal = options.goal, Date() < last else { return false }
            return !coverage(nemesis, workers, load).shortfalls(of: goal).isEmpty
        }
    }

    private func coverage(_ nemesis: Nemesis, _ workers: Workers, _ load: Load) -> Coverage {
        // The other invariants are looked at once nothing is broken any more.
        var unchecked: [String] = []
        if nemesis.locks.isEmpty { unchecked.append("C5") }
        if nemesis.acceptedWithoutDatabase.isEmpty { unchecked.append("D8") }
        return Coverage(
            kills: workers.counts.kills,
            rebalances: workers.counts.rebalances,
            faults: nemesis.done,
            oddities: load.outcome.odd,
            expectedOddities: oddities,
            unchecked: unchecked
        )
    }

    private func load(_ surroundings: Surroundings, group: String, seed: UInt64, rate: Int) -> Load {
        let settings = Load.Settings(
            bootstrapServers: surroundings.kafka.bootstrapServers,
            secret: Surroundings.secret,
            topics: surroundings.topics,
            rate: rate
        )
        let generator = Generator(
            seed: seed,
            group: group,
            users: options.isShort ? 12 : 40,
            partitions: surroundings.partitions,
            kinds: oddities
        )
        let load = Load(settings, generator)
        load.setPort(surroundings.ingestPort)
        return load
    }

    /// The odd records that this run's Kafka can be given.
    private var oddities: [Oddity] { Oddity.all(onRealKafka: options.kafka == .real) }

    /// Everything again, twice: in the order of the log, then in another one, while other users are busy.
    private func replay(
        _ surroundings: Surroundings,
        _ workers: Workers,
        _ check: Verification,
        _ load: Load,
        _ log: inout LogContents,
        _ hash: UInt64
    ) throws {
        var mismatches = 0
        try surroundings.restartIngest()
        let second = self.load(surroundings, group: "bbbb", seed: options.seed &+ 2, rate: 15)
        second.start()
        for (number, name) in ["in the order of the log", "in another order"].enumerated() {
            if number == 0 {
                try surroundings.connect().simpleQuery(Nemesis.rewindStatement)
            } else {
                try load.republish(log.records, seed: options.seed &+ 3)
            }
            let goal = try check.ends()
            try check.waitUntilApplied(goal)
            let again = try check.hash(ofGroup: "aaaa")
            say("replayed \(name): \(again == hash ? "the same hash" : "ANOTHER HASH")")
            if again != hash { mismatches += 1 }
            report.check("D3", log.records.count, again == hash ? [] : ["another hash after the replay \(name)"])
        }
        try second.stop()
        try surroundings.stopIngest()
        try check.waitUntilApplied()
        say("comparing all once more")
        log = try check.compare(second.outcome, &report)
        hashMismatches = mismatches
    }

    private func finish(_ nemesis: Nemesis, _ workers: Workers, _ load: Load) {
        for slot in workers.slots { try? workers.stop(slot) }
        let (counts, outcome) = (workers.counts, load.outcome)
        tell(counts, outcome)
        report.check("D2", counts.started, counts.unexpectedEnds.map { _ in "a worker ended by itself" })
        let moved = "a row was not where a worker had read it under the account's lock"
        report.check("D2", counts.started, Array(repeating: moved, count: counts.movedRows))
        checkPromises(nemesis, counts)
        results("fault", nemesis.done)
        results("missed", nemesis.missed)
        results("odd", outcome.odd)
        report.result("kills", counts.kills)
        report.result("rebalances", counts.rebalances)
        report.result("lost", report.lost)
        report.result("hash_mismatches", hashMismatches)
        report.result("broker_kills", nemesis.brokerKills)
        report.result("freezes", counts.freezes)
        report.result("longest_lock_seconds", seconds: nemesis.locks.max() ?? 0)
        report.result("longest_stop_seconds", seconds: counts.stopSeconds.max() ?? 0)
        var coverage = coverage(nemesis, workers, load)
        coverage.unchecked = report.unchecked
        report.shortfalls = options.goal.map { coverage.shortfalls(of: $0) } ?? []
        report.notAsked = coverage.shortfalls(of: .whole).filter { !report.shortfalls.contains($0) }
    }

    /// What has to be so while things are broken, not afterwards.
    private func checkPromises(_ nemesis: Nemesis, _ counts: Workers.Counts) {
        let outages = nemesis.acceptedWithoutDatabase
        let accepted = outages.reduce(0, +)
        let isNothing = !outages.isEmpty && accepted == 0
        let nothing = "the database was away \(outages.count) times, and ingest accepted nothing meanwhile"
        report.check("D8", accepted, isNothing ? [nothing] : [])
        let locks = nemesis.locks.filter { $0 > Nemesis.lockLimit }
        report.check(
            "C5",
            nemesis.locks.count,
            locks.map { String(format: "the locks of a frozen worker were there for %.1f s", $0) }
        )
        let stops = counts.stopSeconds.filter { $0 > Workers.stopLimit }
        report.check(
            "C15",
            counts.stopSeconds.count,
            stops.map { String(format: "a worker took %.1f s to end after SIGTERM", $0) }
        )
    }

    private func results<Kind: RawRepresentable<String>>(_ name: String, _ counts: [Kind: Int]) {
        for (kind, count) in counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            report.result("\(name).\(kind.rawValue)", count)
        }
    }

    /// What is no verdict, but helps to understand one.
    private func tell(_ counts: Workers.Counts, _ outcome: Load.Outcome) {
        for (message, count) in counts.errors.sorted(by: { $0.key < $1.key }) {
            emit("workers said \(count) times: \(message)")
        }
        for end in counts.unexpectedEnds { emit("a worker ended by itself:\n\(end)") }
        for problem in outcome.problems { emit("load: \(problem)") }
        emit("load: answers \(outcome.statuses.sorted { $0.key < $1.key }), \(outcome.unanswered) without")
    }
}

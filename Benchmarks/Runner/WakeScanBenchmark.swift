import DevelopmentStack
import Domain
import Foundation
import Postgres
import Storage
import TestSupport
import WakeRules

/// A scan of 1,000 candidates with few and with many users beside them: it has to cost its candidates.
///
/// A round takes 1,000 users at random, most of whom have pushed lately and are only moved on, and scans: lock, facts,
/// decisions, writes, COMMIT. The sizes take turns, so that what the machine does besides falls on all alike. The
/// schedule is vacuumed before each scan, as it is all the time.
///
/// Two scans a round: the first right behind a checkpoint, where each page that is changed goes into the log as a whole;
/// and once more with the same users, whose pages have gone there since, as most have at most times. The first tells
/// besides how many pages 1,000 users share: of 100,000 users many, of ten million none. Tables and indexes are in the
/// server's memory; the processor's caches are swept, since between two scans of a worker other work goes through them:
/// else it would be compared what fits in them.
final class WakeScanBenchmark {
    private static let candidates = 1000
    /// Of a hundred candidates: the schedule is a lower bound, so most are found fresh and moved on. In the simulation's
    /// fourteen days of 100,000 phones (`wake-simulation`), 39 of a hundred looks end in a wake by the hourly schedule,
    /// 43 by the continuous one.
    private static let fresh = 60
    private let rounds: Int
    private let sizes: [Int]
    private var sweep = [UInt64](repeating: 1, count: 16 << 20)
    private let now = Instant(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))

    /// One of the databases.
    private struct Side {
        let users: Int
        let setup: PostgresConnection
        let store: WakeStore
        var first = Samples()
        var again = Samples()
    }

    private struct Samples {
        var milliseconds: [Double] = []
        var logBytes: [Int] = []

        var best: Double { milliseconds.min() ?? 0 }
        var median: Double { milliseconds.sorted()[milliseconds.count / 2] }
        var log: Int { logBytes.sorted()[logBytes.count / 2] >> 10 }

        mutating func add(_ sample: (milliseconds: Double, logBytes: Int)) {
            milliseconds.append(sample.milliseconds)
            logBytes.append(sample.logBytes)
        }
    }

    init(isQuick: Bool) {
        rounds = isQuick ? 9 : 15
        sizes = isQuick ? [100_000, 1_000_000] : [100_000, 1_000_000, 10_000_000]
    }

    /// All of it, with files that are removed.
    func run() throws {
        let loading = try WakeScanDatabase(in: nil, loads: true, mebibytes: mebibytes)
        defer { loading.database.stop() }
        try load(loading)
        loading.database.end()
        let folder = (loading.database.cluster.location.passwordFile as NSString).deletingLastPathComponent
        let measuring = try WakeScanDatabase(in: folder, loads: false, mebibytes: mebibytes)
        defer { measuring.database.end() }
        try measure(measuring)
    }

    /// One part of it: loading takes minutes that need no quiet machine.
    func run(_ part: String, in folder: String) throws {
        guard part == "load" || part == "measure" else { throw BenchmarkFailure("say load or measure, not \(part)") }
        let database = try WakeScanDatabase(in: folder, loads: part == "load", mebibytes: mebibytes)
        defer { database.database.end() }
        if part == "load" { try load(database) } else { try measure(database) }
    }

    private var mebibytes: Int { WakeScanDatabase.sharedMebibytes(users: sizes.reduce(0, +)) }

    private func load(_ database: WakeScanDatabase) throws {
        for size in sizes {
            let start = ContinuousClock.now
            try database.load(size, now)
            say("\(size) users loaded in \((ContinuousClock.now - start).components.seconds) s")
        }
    }

    private func measure(_ database: WakeScanDatabase) throws {
        say(try database.database.settings + ", in huge pages \(WakeScanDatabase.hugeMebibytes) MiB")
        var sides = try sizes.map { try side($0, database) }
        // The first is not counted: catalogs are read, plans are made.
        for round in 0...rounds {
            for place in sides.indices {
                let side = sides[place]
                try choose(side)
                try side.setup.simpleQuery("CHECKPOINT")
                let first = try scan(side)
                try makeDue(side)
                let again = try scan(side)
                guard round > 0 else { continue }
                sides[place].first.add(first)
                sides[place].again.add(again)
            }
        }
        let heading = "median ms, KiB of log"
        say(cell("", 16) + cell("best ms", -10) + "  " + cell(heading, 26) + "behind a checkpoint: best ms, " + heading)
        for side in sides {
            let (first, again) = (side.first, side.again)
            say(
                cell("\(side.users) users", 16) + cell(format(again.best, 1), -10) + cell(format(again.median, 1), -10)
                    + cell("\(again.log)", -10) + cell(format(first.best, 1), -20) + cell(format(first.median, 1), -10)
                    + cell("\(first.log)", -10) + "   \(try database.size(side.setup)) MiB of tables and indexes"
            )
        }
        for side in [sides.first, sides.last].compactMap({ $0 }) {
            say("\nThe statement that locks, \(side.users) users:")
            for line in try plan(side) { say("  \(line)") }
        }
        guard let small = sides.first, let large = sides.last else { return }
        say("")
        let medians = format(large.again.median / small.again.median, 2)
        let first = format(large.first.best / small.first.best, 2)
        say("\(large.users) / \(small.users) users: medians \(medians), the best behind a checkpoint \(first)")
        say("RESULT \(Goal.scan.name) \(format(large.again.best / small.again.best, 2))")
        say(Goal.scan.line(large.again.best / small.again.best))
    }

    private func side(_ users: Int, _ database: WakeScanDatabase) throws -> Side {
        let url = try database.url(users)
        let setup = try PostgresConnection(url: url, applicationName: "benchmark", settings: [])
        try WakeMonths(setup).ensureAhead(of: now.day(secondsFromUTC: 0))
        try WakeUsers.setApplied(now, topic: WakeScanDatabase.topic, partitions: 4, on: setup)
        try setup.simpleQuery("CREATE TEMPORARY TABLE chosen (user_id uuid PRIMARY KEY, is_due boolean)")
        // Of an earlier run.
        let later = now.advanced(bySeconds: 4 * 3600).microseconds
        try setup.simpleQuery("UPDATE wake_schedule SET due_at = \(later) WHERE due_at <= \(now.microseconds)")
        try database.warm(setup)
        let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
        let store = WakeStore(
            try PostgresConnection(url: url, applicationName: "scan", settings: settings),
            topic: WakeScanDatabase.topic
        ) { _, _ in 0 }
        return Side(users: users, setup: setup, store: store)
    }

    /// Takes users at random, a part of whom is to be due.
    private func choose(_ side: Side) throws {
        try side.setup.simpleQuery(
            """
            TRUNCATE chosen;
            INSERT INTO chosen
            SELECT \(WakeScanDatabase.user), row_number() OVER () * 100 <= \(Self.candidates * (100 - Self.fresh))
            FROM (
                SELECT DISTINCT floor(random() * \(side.users))::bigint AS number
                FROM generate_series(1, \(Self.candidates * 2)) LIMIT \(Self.candidates)
            ) AS numbers
            """
        )
        try makeDue(side)
    }

    /// Makes them candidates.
    private func makeDue(_ side: Side) throws {
        let longAgo = now.advanced(bySeconds: -30 * 3600).microseconds
        let lately = now.advanced(bySeconds: -3600).microseconds
        try side.setup.simpleQuery(
            """
            UPDATE wake_schedule SET due_at = \(longAgo), last_wake_at = 0, unanswered = 0, claimed_until = 0
            FROM chosen WHERE chosen.user_id = wake_schedule.user_id;
            UPDATE connections SET last_push_at = CASE WHEN is_due THEN \(longAgo) ELSE \(lately) END
            FROM chosen WHERE chosen.user_id = connections.user_id;
            """
        )
        try side.setup.simpleQuery("VACUUM wake_schedule")
    }

    private func scan(_ side: Side) throws -> (milliseconds: Double, logBytes: Int) {
        let round = WakeRound(
            policy: WakePolicy(schedule: SendSchedule(.continuous)),
            pipeline: PipelineState(
                appliedThrough: [0: now.microseconds, 1: now.microseconds, 2: now.microseconds, 3: now.microseconds],
                counts: [4],
                door: DoorCounts()
            ),
            leaseSeconds: 60,
            worker: UUID128(high: 1, low: 1)
        )
        let log = try position(side)
        for place in stride(from: 0, to: sweep.count, by: 8) { sweep[place] &+= 1 }
        let start = ContinuousClock.now
        let scan = try side.store.scan(limit: Self.candidates, wakes: Self.candidates, round, now: now)
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        let logBytes = try position(side) - log
        let due = Self.candidates * (100 - Self.fresh) / 100
        guard scan.candidates == Self.candidates, scan.claims.count == due else {
            throw BenchmarkFailure(
                "\(scan.candidates) of \(Self.candidates) candidates, \(scan.claims.count) of \(due) claims: "
                    + "the scan is wrong"
            )
        }
        try forget(side)
        return (Double(seconds) * 1000 + Double(attoseconds) / 1e15, logBytes)
    }

    private func forget(_ side: Side) throws {
        try side.setup.simpleQuery(
            """
            TRUNCATE push_sends;
            UPDATE accounts SET open_wake_at = 0 FROM chosen
            WHERE open_wake_at > 0 AND accounts.user_id = chosen.user_id
            """
        )
    }

    private func position(_ side: Side) throws -> Int {
        Int(try side.setup.executeUnprepared("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8").int8(0, 0))
    }

    /// Of the statement as scans execute it.
    private func plan(_ side: Side) throws -> [String] {
        try choose(side)
        defer { try? forget(side) }
        return try side.store.explainScan(limit: Self.candidates, now: now)
    }
}

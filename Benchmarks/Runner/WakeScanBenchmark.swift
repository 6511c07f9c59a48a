import DevelopmentStack
import Dispatch
import Domain
import Foundation
import Postgres
import Storage
import Synchronization
import TestSupport
import WakeRules

/// A scan of 1,000 candidates with few and with many users beside them: it has to cost its candidates.
///
/// One database grows from 100,000 to 10 million users, each with an account, a connection, a place in the schedule and
/// a device token. A round takes 1,000 users at random, most of whom have pushed lately and are only moved on, and
/// scans: lock, facts, decisions, writes, COMMIT.
final class WakeScanBenchmark {
    private static let candidates = 1000
    /// Of a hundred candidates: the schedule is a lower bound, so most are found fresh.
    private static let fresh = 80
    private static let topic = "benchmark.live"
    private let rounds: Int
    private let sizes: [Int]

    private struct Sample {
        var milliseconds: Double
        var pages: Int
    }

    init(isQuick: Bool) {
        rounds = isQuick ? 7 : 15
        sizes = isQuick ? [100_000, 1_000_000] : [100_000, 1_000_000, 10_000_000]
    }

    func run() throws {
        let cluster = try PrivatePostgres.makeCluster()
        try cluster.start()
        defer { cluster.stop() }
        let url = try cluster.createDatabase(named: "scan")
        let setup = try PostgresConnection(url: url, applicationName: "benchmark", settings: [])
        let now = Instant(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
        try Migrator(setup).migrate(today: now.day(secondsFromUTC: 0))
        try WakeMonths(setup).ensureAhead(of: now.day(secondsFromUTC: 0))
        try setup.simpleQuery("ALTER TABLE wake_schedule SET (autovacuum_enabled = off)")
        try WakeUsers.setApplied(now, topic: Self.topic, partitions: 4, on: setup)
        let settings = PostgresConnection.recommendedSettings + BatchStore.sessionSettings
        let store = WakeStore(
            try PostgresConnection(url: url, applicationName: "scan", settings: settings),
            topic: Self.topic
        ) { _, _ in 0 }
        var users = 0
        var best: [Int: Sample] = [:]
        for size in sizes {
            let started = Date()
            try grow(from: users, to: size, url, now)
            users = size
            let loading = Date().timeIntervalSince(started)
            var samples: [Sample] = []
            for _ in 0..<rounds { samples.append(try round(store, setup, users, now)) }
            // The best: what the machine does besides only adds.
            let sample = samples.min { $0.milliseconds < $1.milliseconds } ?? Sample(milliseconds: 0, pages: 0)
            best[size] = sample
            let median = samples.map(\.milliseconds).sorted()[samples.count / 2]
            say(
                cell("\(size) users", 16) + cell("best \(format(sample.milliseconds, 1)) ms", 18)
                    + cell("median \(format(median, 1)) ms", 20) + cell("\(sample.pages) pages to lock them", 26)
                    + "loaded in \(Int(loading)) s"
            )
        }
        guard let small = best[sizes[0]], let large = best[sizes.last ?? 0] else { return }
        say("")
        say(
            "pages of the locking statement, largest over smallest: \(format(Double(large.pages) / Double(small.pages), 2))"
        )
        say("RESULT " + Goal.scan.line(large.milliseconds / small.milliseconds))
    }

    /// Chooses candidates, then scans.
    private func round(_ store: WakeStore, _ setup: PostgresConnection, _ users: Int, _ now: Instant) throws -> Sample {
        let chosen = (0..<Self.candidates).map { _ in Int.random(in: 0..<users) }
        let list = Set(chosen).map { "'\(WakeUsers.user($0))'" }
        let due = list.prefix(list.count * (100 - Self.fresh) / 100)
        let longAgo = now.advanced(bySeconds: -30 * 3600).microseconds
        let lately = now.advanced(bySeconds: -3600).microseconds
        try setup.simpleQuery(
            """
            UPDATE wake_schedule SET due_at = \(longAgo), last_wake_at = 0, unanswered = 0, claimed_until = 0
            WHERE user_id IN (\(list.joined(separator: ",")));
            UPDATE connections SET last_push_at = \(lately) WHERE user_id IN (\(list.joined(separator: ",")));
            UPDATE connections SET last_push_at = \(longAgo) WHERE user_id IN (\(due.joined(separator: ",")));
            """
        )
        // Not inside: what the index's front holds of earlier rounds is vacuum's work, at any size.
        try setup.simpleQuery("VACUUM wake_schedule")
        let pages = try Self.pages(store.explainScan(limit: Self.candidates, now: now))
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
        let start = ContinuousClock.now
        let scan = try store.scan(limit: Self.candidates, wakes: Self.candidates, round, now: now)
        let duration = ContinuousClock.now - start
        guard scan.candidates == list.count, scan.claims.count == due.count else {
            throw BenchmarkFailure(
                "\(scan.candidates) of \(list.count) candidates, \(scan.claims.count) of \(due.count) claims: the scan is wrong"
            )
        }
        try setup.simpleQuery(
            "DELETE FROM push_sends; UPDATE accounts SET open_wake_at = 0 WHERE open_wake_at > 0 AND user_id IN (\(due.joined(separator: ",")))"
        )
        let (seconds, attoseconds) = duration.components
        return Sample(milliseconds: Double(seconds) * 1000 + Double(attoseconds) / 1e15, pages: pages)
    }

    /// More users, by two connections; keys are taken away for the while, so that it takes minutes and not hours.
    private func grow(from first: Int, to count: Int, _ url: String, _ now: Instant) throws {
        guard count > first else { return }
        let later = now.advanced(bySeconds: 3 * 3600).microseconds
        let lately = now.advanced(bySeconds: -3600).microseconds
        let registered = Version(
            observedAt: nil,
            receivedAt: now.advanced(bySeconds: -86_400),
            event: EventID(high: 0, low: 0)
        )
        let user = """
            (lpad(to_hex(number >> 16), 8, '0') || '-' || lpad(to_hex(number & 65535), 4, '0')
                || '-4000-8000-000000000000')::uuid
            """
        let series = "FROM generate_series(\(first)::bigint, \(count - 1)::bigint) AS number"
        let halves = [
            """
            ALTER TABLE accounts DROP CONSTRAINT accounts_pkey;
            ALTER TABLE connections DROP CONSTRAINT connections_pkey;
            INSERT INTO accounts (user_id, bucket) SELECT \(user), number % 4096 \(series);
            INSERT INTO connections (user_id, source, origin, last_push_at) SELECT \(user), 1, '', \(lately) \(series);
            ALTER TABLE accounts ADD CONSTRAINT accounts_pkey PRIMARY KEY (user_id);
            ALTER TABLE connections ADD CONSTRAINT connections_pkey PRIMARY KEY (user_id, source, origin);
            """,
            """
            ALTER TABLE wake_schedule DROP CONSTRAINT wake_schedule_pkey;
            DROP INDEX wake_schedule_due;
            ALTER TABLE device_tokens DROP CONSTRAINT device_tokens_pkey;
            DROP INDEX device_tokens_of_user;
            INSERT INTO wake_schedule (user_id, due_at)
            SELECT \(user), \(later) + (hashint8(number)::bigint + 2147483648) * 3 \(series);
            INSERT INTO device_tokens
                (token_hash, user_id, bucket, registered_version, token, platform, environment, app_id)
            SELECT decode(md5(number::text) || md5('b' || number::text), 'hex'), \(user), 0, \(registered.rawValue),
                md5(number::text) || md5('b' || number::text), 'ios', 'production', 'com.example' \(series);
            ALTER TABLE wake_schedule ADD CONSTRAINT wake_schedule_pkey PRIMARY KEY (user_id);
            CREATE INDEX wake_schedule_due ON wake_schedule (due_at);
            ALTER TABLE device_tokens ADD CONSTRAINT device_tokens_pkey PRIMARY KEY (token_hash, user_id);
            CREATE INDEX device_tokens_of_user ON device_tokens (user_id);
            """,
        ]
        let failures = Mutex<[String]>([])
        DispatchQueue.concurrentPerform(iterations: halves.count) { half in
            do {
                let connection = try PostgresConnection(url: url, applicationName: "load", settings: [])
                try connection.simpleQuery("SET maintenance_work_mem = '512MB'")
                try connection.simpleQuery(halves[half])
                for table in [["accounts", "connections"], ["wake_schedule", "device_tokens"]][half] {
                    try connection.simpleQuery("VACUUM ANALYZE \(table)")
                }
            } catch {
                failures.withLock { $0.append("\(error)") }
            }
        }
        if let failure = failures.withLock(\.first) {
            throw BenchmarkFailure("the users could not be made: \(failure)")
        }
    }

    /// Of the whole statement.
    private static func pages(_ plan: [String]) -> Int {
        let line = plan.first { $0.contains("Buffers: shared") } ?? ""
        return line.split(separator: " ").compactMap { word -> Int? in
            guard word.hasPrefix("hit=") || word.hasPrefix("read=") else { return nil }
            return Int(word.drop { $0 != "=" }.dropFirst())
        }.reduce(0, +)
    }
}

import DevelopmentStack
import Dispatch
import Domain
import Foundation
import Glibc
import Postgres
import Storage
import Synchronization
import TestSupport

/// A server with a database for each number of users, each user with an account, a phone, a place in the schedule and a
/// device token. Ids are as random as real ones: a user's neighbours in an index are not those in the table.
final class WakeScanDatabase {
    let database: BenchmarkDatabase
    static let topic = "benchmark.live"
    /// The id of user number `number`.
    static let user = "md5(number::text)::uuid"

    /// - Parameters:
    ///   - folder: where it is or is to be; nil takes a new one, to be removed.
    ///   - loads: written without WAL, which the first start after it has again.
    ///   - mebibytes: of shared buffers.
    /// - Throws: if the server does not start.
    init(in folder: String?, loads: Bool, mebibytes: Int) throws {
        var changed = [
            ("shared_buffers", "\(mebibytes)MB"), ("max_wal_size", "8GB"), ("autovacuum", "off"),
            ("checkpoint_timeout", "1h"),
        ]
        if loads { changed += [("wal_level", "minimal"), ("max_wal_senders", "0")] }
        database = try BenchmarkDatabase(in: folder, changed: changed)
    }

    /// What the tables of all sizes fit in, if half of the machine's free memory is enough; of huge pages all that are
    /// there, if any are.
    static func sharedMebibytes(users: Int) -> Int {
        let wanted = users / 1000 * 8 / 10
        let huge = memory("HugePages_Free:") * memory("Hugepagesize:") / 1024
        // The server keeps a little more than the buffers there.
        if huge > 1024 { return min(wanted, huge * 96 / 100) }
        return max(256, min(wanted, memory("MemAvailable:") / 1024 / 2))
    }

    /// How much of the server's memory is in huge pages, in MiB.
    static var hugeMebibytes: Int {
        let used = memory("HugePages_Total:") - memory("HugePages_Free:") + memory("HugePages_Rsvd:")
        return used * memory("Hugepagesize:") / 1024
    }

    private static func memory(_ name: String) -> Int {
        let text = (try? String(contentsOfFile: "/proc/meminfo", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(separator: " ").compactMap { Int($0) }.first ?? 0
    }

    func url(_ users: Int) throws -> String { try database.url(Self.name(users)) }

    static func name(_ users: Int) -> String { "users_\(users)" }

    /// Makes the database with so many users; keys are added once the rows are there. What is written to tables that
    /// were emptied in the same transaction needs no WAL: it is on disk before its COMMIT.
    func load(_ users: Int, _ now: Instant) throws {
        let setup = try PostgresConnection(
            url: database.cluster.createDatabase(named: Self.name(users)),
            applicationName: "load",
            settings: []
        )
        try Migrator(setup).migrate(today: now.day(secondsFromUTC: 0))
        let later = now.advanced(bySeconds: 3 * 3600).microseconds
        let lately = now.advanced(bySeconds: -3600).microseconds
        let registered = Version(
            observedAt: nil,
            receivedAt: now.advanced(bySeconds: -86_400),
            event: EventID(high: 0, low: 0)
        )
        let series = "FROM generate_series(0, \(users - 1)::bigint) AS number"
        let halves = [
            """
            BEGIN;
            TRUNCATE accounts, connections;
            ALTER TABLE accounts DROP CONSTRAINT accounts_pkey;
            ALTER TABLE connections DROP CONSTRAINT connections_pkey;
            INSERT INTO accounts (user_id, bucket) SELECT \(Self.user), number % 4096 \(series);
            INSERT INTO connections (user_id, source, origin, last_push_at)
            SELECT \(Self.user), 1, '', \(lately) \(series);
            ALTER TABLE accounts ADD CONSTRAINT accounts_pkey PRIMARY KEY (user_id);
            ALTER TABLE connections ADD CONSTRAINT connections_pkey PRIMARY KEY (user_id, source, origin);
            COMMIT
            """,
            """
            BEGIN;
            TRUNCATE wake_schedule, device_tokens;
            ALTER TABLE wake_schedule DROP CONSTRAINT wake_schedule_pkey;
            DROP INDEX wake_schedule_due;
            ALTER TABLE device_tokens DROP CONSTRAINT device_tokens_pkey;
            DROP INDEX device_tokens_of_user;
            INSERT INTO wake_schedule (user_id, due_at)
            SELECT \(Self.user), \(later) + (hashint8(number)::bigint + 2147483648) * 3 \(series);
            INSERT INTO device_tokens
                (token_hash, user_id, bucket, registered_version, token, platform, environment, app_id)
            SELECT decode(md5(number::text) || md5('b' || number::text), 'hex'), \(Self.user), 0,
                \(registered.rawValue), md5(number::text) || md5('b' || number::text), 'ios', 'production', 'com.example'
            \(series);
            ALTER TABLE wake_schedule ADD CONSTRAINT wake_schedule_pkey PRIMARY KEY (user_id);
            CREATE INDEX wake_schedule_due ON wake_schedule (due_at);
            ALTER TABLE device_tokens ADD CONSTRAINT device_tokens_pkey PRIMARY KEY (token_hash, user_id);
            CREATE INDEX device_tokens_of_user ON device_tokens (user_id);
            COMMIT
            """,
        ]
        let url = try url(users)
        let failures = Mutex<[String]>([])
        DispatchQueue.concurrentPerform(iterations: halves.count) { half in
            do {
                let connection = try PostgresConnection(url: url, applicationName: "load", settings: [])
                try connection.simpleQuery("SET maintenance_work_mem = '1GB'")
                try connection.simpleQuery(halves[half])
                for table in [["accounts", "connections"], ["wake_schedule", "device_tokens"]][half] {
                    try connection.simpleQuery("VACUUM (FREEZE, ANALYZE) \(table)")
                }
            } catch {
                failures.withLock { $0.append("\(error)") }
            }
        }
        if let failure = failures.withLock(\.first) {
            throw BenchmarkFailure("the users could not be made: \(failure)")
        }
        try setup.simpleQuery("CREATE EXTENSION pg_prewarm")
    }

    /// Into the shared buffers, as the pages of a server that has run for a day are.
    func warm(_ connection: PostgresConnection) throws {
        for relation in Self.relations { try connection.simpleQuery("SELECT pg_prewarm('\(relation)')") }
    }

    /// In MiB, with indexes.
    func size(_ connection: PostgresConnection) throws -> Int {
        let sum = Self.relations.map { "pg_relation_size('\($0)')" }.joined(separator: " + ")
        return Int(try connection.executeUnprepared("SELECT (\(sum)) >> 20").int8(0, 0))
    }

    static let relations = [
        "accounts", "accounts_pkey", "connections", "connections_pkey", "wake_schedule", "wake_schedule_pkey",
        "wake_schedule_due", "device_tokens", "device_tokens_pkey", "device_tokens_of_user",
    ]
}

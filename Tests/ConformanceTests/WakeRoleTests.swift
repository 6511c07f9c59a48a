import Domain
import Postgres
import Storage
import Testing
import WakeRules

/// What the wake worker's role may write, and what it may not.
@Suite struct `The rights of whoever wakes` {
    private func connection(_ database: WakesUnderTest, _ role: String) throws -> PostgresConnection {
        let settings = PostgresConnection.recommendedSettings + [("role", role)]
        return try PostgresConnection(url: database.url, applicationName: role, settings: settings)
    }

    @Test func `the wake worker's role writes what the worker writes, and nothing else`() throws {
        let database = try WakesUnderTest()
        try database.add(0..<1, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        let role = try connection(database, "daybook_wake")
        for sql in [
            "UPDATE device_tokens SET deactivated_at = 1", "UPDATE accounts SET open_wake_at = 1",
            "UPDATE wake_schedule SET due_at = 1, last_wake_at = 1, previous_wake_at = 1, unanswered = 1, "
                + "struck_at = 1, claim = 1, claimed_until = 1",
            "UPDATE push_sends SET outcome = 'accepted', concluded_at = 1",
            "UPDATE wake_control SET pace_spent_through = 1, door_shut_at = 1, door_shut_since = 1",
            "SELECT 1 FROM wake_control FOR UPDATE", "INSERT INTO partition_counts VALUES ('t', 4, 1)",
            "INSERT INTO push_stops VALUES ('fcm', '', 'x', 1)",
            "INSERT INTO provider_tokens (key_id, paused_until) VALUES ('K', 1) "
                + "ON CONFLICT (key_id) DO UPDATE SET paused_until = 2, jwt = '', issued_at = 1, signer = ''",
        ] {
            try role.simpleQuery("BEGIN; \(sql); ROLLBACK")
        }
        for sql in [
            // What phones registered.
            "UPDATE device_tokens SET token = 'x'", "UPDATE device_tokens SET registered_version = 1",
            "UPDATE device_tokens SET user_id = gen_random_uuid()", "DELETE FROM device_tokens",
            "INSERT INTO device_tokens (token_hash, user_id, bucket) VALUES (sha256(''), gen_random_uuid(), 1)",
            // What operators say.
            "UPDATE wake_control SET paused_at = NULL", "UPDATE wake_control SET resumes = resumes + 1",
            "DELETE FROM wake_control", "INSERT INTO wake_control DEFAULT VALUES", "DELETE FROM push_stops",
            "UPDATE push_stops SET code = 'x'",
            // What happened.
            "UPDATE partition_counts SET partitions = 1", "DELETE FROM partition_counts",
            "UPDATE push_sends SET answered_at = 1", "UPDATE push_sends SET wake_at = 1", "DELETE FROM push_sends",
            "DELETE FROM provider_tokens", "UPDATE door_counts SET answered = 0",
            // Who is on the schedule.
            "INSERT INTO wake_schedule (user_id, due_at) VALUES (gen_random_uuid(), 1)", "DELETE FROM wake_schedule",
            "UPDATE wake_schedule SET user_id = gen_random_uuid()", "UPDATE accounts SET bucket = 0",
            "UPDATE connections SET last_push_at = 0", "INSERT INTO schema_migrations VALUES (99, 'x', 1, 1)",
        ] {
            do {
                try role.simpleQuery(sql)
                Issue.record("may: \(sql)")
            } catch {
                #expect(error.sqlState == "42501", "\(sql)")
            }
        }
        let store = try database.store(role: "daybook_wake")
        #expect(throws: PostgresError.self) { try store.pause() }
        #expect(throws: PostgresError.self) { try store.resume() }
    }

    /// The scan reads tokens without the view: it has to find the same ones.
    @Test func `what the view does not have is not sent to: deleted, withdrawn, dead, or somebody else's`()
        throws
    {
        let database = try WakesUnderTest()
        try database.add(0..<6, pushedAt: database.at(hours: 0), dueAt: database.at(hours: 4))
        func change(_ number: Int, _ table: String, _ set: String) throws {
            try database.connection.simpleQuery(
                "UPDATE \(table) SET \(set) WHERE user_id = '\(WakesUnderTest.user(number))'"
            )
        }
        let (one, five) = (WakesUnderTest.user(1), WakesUnderTest.user(5))
        try change(0, "accounts", "deleted_version = (SELECT max(registered_version) + 1 FROM device_tokens)")
        try change(2, "device_tokens", "withdrawn_version = registered_version")
        try change(3, "device_tokens", "deactivated_at = \(database.at(hours: 1).microseconds)")
        try change(4, "accounts", "deleted_version = (SELECT max(registered_version) FROM device_tokens)")
        // The first user's token is the last one's by now.
        try database.connection.simpleQuery(
            """
            INSERT INTO device_tokens (token_hash, user_id, bucket, registered_version, token, platform, environment)
            SELECT token_hash, '\(five)', bucket, registered_version + 1, token, platform, environment
            FROM device_tokens WHERE user_id = '\(one)'
            """
        )
        let now = database.at(hours: 10)
        try database.setApplied(now)
        let scan = try database.store(role: "daybook_wake").scan(
            limit: 10,
            wakes: 10,
            try database.round(now),
            now: now
        )
        #expect(scan.candidates == 6 && scan.parked == 4)
        #expect(Set(scan.claims.map(\.user)) == [WakesUnderTest.user(4), five])
        let live = try database.connection.executeUnprepared("SELECT token_hash FROM live_device_tokens")
        #expect(scan.claims.reduce(0) { $0 + $1.tokens.count } == live.rowCount && live.rowCount == 3)
    }

    @Test func `operators pause and resume wakes with the role of their tools, and see no token of theirs`() throws {
        let database = try WakesUnderTest(partitions: 1)
        let worker = try database.store(role: "daybook_wake")
        let store = try database.store(role: "daybook_worker")
        let now = database.at(hours: 1)
        try worker.addStop(WakeStop(lane: "fcm", topic: nil, code: "x", until: nil), now: now)
        let since = try store.pause()
        #expect(try worker.shared(ownClock: 0, retentionSeconds: 1).pipeline.pausedAt == since)
        #expect(try store.shared(ownClock: 0, retentionSeconds: 1).pipeline.stops.count == 1)
        #expect(try store.resume() == 1)
        let role = try connection(database, "daybook_worker")
        for sql in ["SELECT jwt FROM provider_tokens", "UPDATE wake_control SET pace_spent_through = 0"] {
            do {
                try role.simpleQuery(sql)
                Issue.record("may: \(sql)")
            } catch {
                #expect(error.sqlState == "42501", "\(sql)")
            }
        }
    }
}

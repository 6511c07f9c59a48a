public import Domain
public import Postgres

/// Users who may be woken, put into a database straight by SQL.
public enum WakeUsers {
    public static func user(_ number: Int) -> UserID {
        UserID(high: UInt64(number) << 16 | 0x4000, low: 0x8000_0000_0000_0000)
    }

    /// What the device token of a user is in `add`: SHA-256 of the user's id, as hex.
    public static func tokens(of connection: PostgresConnection) throws -> [UserID: String] {
        let result = try connection.executeUnprepared(
            "SELECT user_id, token FROM device_tokens WHERE token IS NOT NULL"
        )
        var tokens: [UserID: String] = [:]
        for row in 0..<result.rowCount {
            let user = try result.uuid(row, 0)
            tokens[UserID(high: user.high, low: user.low)] = try result.text(row, 1)
        }
        return tokens
    }

    /// Users with a phone that pushed then and a token, on the schedule from then on.
    public static func add(
        _ numbers: Range<Int>,
        pushedAt: Instant,
        dueAt: Instant,
        token: Bool = true,
        to connection: PostgresConnection
    ) throws {
        let version = Version(observedAt: nil, receivedAt: pushedAt, event: EventID(high: 0, low: 0)).rawValue
        let tokens = """
            INSERT INTO device_tokens
                (token_hash, user_id, bucket, registered_version, token, platform, environment, app_id, app_version)
            SELECT sha256(user_id::text::bytea), user_id, 0, \(version), encode(sha256(user_id::text::bytea), 'hex'),
                'ios', 'production', 'com.example', '4.2' FROM fresh
            """
        // All at once: nobody should find a user without a token who is to have one.
        try connection.simpleQuery(
            """
            CREATE TEMPORARY TABLE IF NOT EXISTS fresh (number bigint, user_id uuid);
            TRUNCATE fresh;
            INSERT INTO fresh
            SELECT number, (lpad(to_hex(number >> 16), 8, '0') || '-' || lpad(to_hex(number & 65535), 4, '0')
                || '-4000-8000-000000000000')::uuid
            FROM generate_series(\(numbers.lowerBound)::bigint, \(numbers.upperBound - 1)::bigint) AS number;
            INSERT INTO accounts (user_id, bucket) SELECT user_id, number % 4096 FROM fresh;
            INSERT INTO connections (user_id, source, origin, last_push_at)
            SELECT user_id, 1, '', \(pushedAt.microseconds) FROM fresh;
            INSERT INTO wake_schedule (user_id, due_at) SELECT user_id, \(dueAt.microseconds) FROM fresh;
            \(token ? tokens : "")
            """
        )
    }

    /// Rows as of workers that have applied everything up to then.
    public static func setApplied(
        _ time: Instant,
        topic: String,
        partitions: Int,
        on connection: PostgresConnection
    ) throws {
        try connection.simpleQuery(
            """
            INSERT INTO consumer_offsets (topic, partition, cluster_id, owner, epoch, next_offset, applied_through)
            SELECT '\(topic)', number, 'a', '\(user(1))', 1, 0, \(time.microseconds)
            FROM generate_series(0, \(partitions - 1)) AS number
            ON CONFLICT (topic, partition) DO UPDATE SET applied_through = excluded.applied_through
            """
        )
    }
}

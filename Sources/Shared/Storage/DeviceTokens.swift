public import Domain
public import Postgres

/// Device tokens for those who send pushes, keep the table in order, or look.
public struct DeviceTokens {
    /// A token that a push may be sent to.
    public struct Live: Hashable, Sendable {
        public let key: DeviceKey
        /// Of its registration.
        public let version: Version
        public let registration: DeviceRegistration
    }

    /// An entry as it stands, for people: its registration has an empty token.
    public struct Shown: Hashable, Sendable {
        public let hash: DeviceTokenHash
        public let entry: DeviceEntry
        public let isLive: Bool
    }

    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// The live tokens of these users, sorted by user and token. Whoever decides on them holds the users' accounts
    /// locked, and asks behind the lock.
    public func live(of users: [UserID]) throws -> [Live] {
        var array = PostgresArray(of: .uuid)
        for user in users { array.append(uuidHigh: user.high, low: user.low) }
        var parameters = PostgresParameters()
        parameters.append(array)
        return try Self.live(try connection.executeUnprepared(Self.liveStatement, parameters))
    }

    /// $1 users.
    static let liveStatement = """
        SELECT token_hash, user_id, registered_version, 0::int8, 0::int8, \(DeviceRowReader.texts)
        FROM live_device_tokens WHERE user_id = ANY ($1::uuid[]) ORDER BY user_id, token_hash
        """

    /// $1 users. As the view has them, but for the deletion of the account: for who has read its row anyway, so that it
    /// is not looked up again.
    static let heldStatement = """
        SELECT token_hash, user_id, registered_version, 0::int8, 0::int8, \(DeviceRowReader.texts)
        FROM device_tokens AS held
        WHERE user_id = ANY ($1::uuid[]) AND token IS NOT NULL AND registered_version > withdrawn_version
            AND NOT EXISTS (
                SELECT FROM device_tokens AS every
                WHERE every.token_hash = held.token_hash
                    AND ((every.registered_version, every.user_id) > (held.registered_version, held.user_id)
                        OR every.deactivated_at >= \(time(of: "held.registered_version")))
            )
        ORDER BY user_id, token_hash
        """

    static func live(_ result: PostgresResult) throws -> [Live] {
        try (0..<result.rowCount).compactMap { try live(result, $0) }
    }

    /// The same, with rows that can't be read left out and counted: one of them must not be in all others' way.
    static func readable(_ result: PostgresResult) throws -> (live: [Live], unreadable: Int) {
        var found: [Live] = []
        found.reserveCapacity(result.rowCount)
        var unreadable = 0
        for row in 0..<result.rowCount {
            do {
                if let live = try live(result, row) { found.append(live) }
            } catch is StorageError {
                unreadable += 1
            }
        }
        return (found, unreadable)
    }

    private static func live(_ result: PostgresResult, _ row: Int) throws -> Live? {
        let entry = try DeviceRowReader.entry(result, row)
        guard let registration = entry.registration else { return nil }
        return Live(
            key: try DeviceRowReader.key(result, row),
            version: entry.registered,
            registration: registration
        )
    }

    /// Notes that Apple or Google call these tokens dead. A registration that is newer than they say stays live, and a
    /// replay of an older one does not bring it back. No account need be locked for it.
    ///
    /// - Parameter tokens: each with the time that the answer names.
    /// - Throws: `PostgresError`.
    public func deactivate(_ tokens: [(key: DeviceKey, at: Instant)]) throws(PostgresError) {
        var hashes = PostgresArray(of: .bytea)
        var users = PostgresArray(of: .uuid)
        var times = PostgresArray(of: .int8)
        for token in tokens.sorted(by: { $0.key < $1.key }) {
            hashes.append(bytea: token.key.hash.bytes.span)
            users.append(uuidHigh: token.key.user.high, low: token.key.user.low)
            times.append(int8: token.at.microseconds)
        }
        var parameters = PostgresParameters()
        parameters.append(hashes)
        parameters.append(users)
        parameters.append(times)
        try connection.executeUnprepared(
            """
            UPDATE device_tokens AS held SET deactivated_at = dead.at
            FROM (
                SELECT every.token_hash, every.user_id, dead.at
                FROM (
                    SELECT token_hash, user_id, max(at) AS at
                    FROM unnest($1::bytea[], $2::uuid[], $3::int8[]) AS said (token_hash, user_id, at)
                    GROUP BY token_hash, user_id
                ) AS dead
                JOIN device_tokens AS every USING (token_hash, user_id)
                ORDER BY every.token_hash, every.user_id
                FOR NO KEY UPDATE OF every
            ) AS dead
            WHERE held.token_hash = dead.token_hash AND held.user_id = dead.user_id AND held.deactivated_at < dead.at
            """,
            parameters
        )
    }

    /// Every entry of the user, the newest first.
    public func shown(of user: UserID) throws -> [Shown] {
        var parameters = PostgresParameters()
        parameters.append(uuidHigh: user.high, low: user.low)
        let result = try connection.executeUnprepared(
            """
            SELECT \(DeviceRowReader.columnsForPeople), EXISTS (
                SELECT FROM live_device_tokens AS live
                WHERE live.token_hash = held.token_hash AND live.user_id = held.user_id
            )
            FROM device_tokens AS held WHERE user_id = $1::uuid
            ORDER BY greatest(registered_version, withdrawn_version) DESC, token_hash
            """,
            parameters
        )
        return try (0..<result.rowCount).map { row in
            Shown(
                hash: try DeviceRowReader.key(result, row).hash,
                entry: try DeviceRowReader.entry(result, row),
                isLive: try result.bool(row, DeviceRowReader.nextColumn)
            )
        }
    }

    /// Drops dead entries that the topic can't bring back any more, because its records of them are gone. One stays
    /// while another entry of the token would be live without it.
    ///
    /// - Parameters:
    ///   - oldest: entries of which nothing was registered or withdrawn since then.
    ///   - limit: how many at most.
    /// - Returns: how many were dropped.
    /// - Throws: `PostgresError`.
    public func drop(olderThan oldest: Instant, limit: Int = 5000) throws(PostgresError) -> Int {
        var parameters = PostgresParameters()
        parameters.append(int8: Version(observedAt: nil, receivedAt: oldest, event: EventID(high: 0, low: 0)).rawValue)
        parameters.append(int8: Int64(limit))
        let result = try connection.executeUnprepared(
            """
            DELETE FROM device_tokens AS held USING (
                SELECT dead.token_hash, dead.user_id FROM device_tokens AS dead
                WHERE greatest(dead.registered_version, dead.withdrawn_version) < $1::int8
                    AND (dead.token IS NULL OR dead.deactivated_at > 0)
                    AND (dead.token IS NULL OR dead.deactivated_at >= \(Self.time(of: "dead.registered_version")))
                    AND NOT EXISTS (
                        SELECT FROM device_tokens AS other
                        WHERE other.token_hash = dead.token_hash AND other.user_id <> dead.user_id
                            AND other.token IS NOT NULL
                            AND (other.registered_version <= dead.registered_version
                                OR \(Self.time(of: "other.registered_version")) <= dead.deactivated_at)
                    )
                ORDER BY dead.token_hash, dead.user_id LIMIT $2::int8 FOR UPDATE SKIP LOCKED
            ) AS old
            WHERE held.token_hash = old.token_hash AND held.user_id = old.user_id
            """,
            parameters
        )
        return result.affectedRows
    }

    /// A version's microseconds since 1970, as `Version.instant`.
    private static func time(of version: String) -> String {
        "(\(version) >> 12) + \(Instant.earliest.microseconds)"
    }
}

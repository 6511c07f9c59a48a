public import Domain
public import Postgres

/// Everything that the database knows of one user, read in one snapshot.
public struct UserExport {
    public struct SourceDay: Sendable {
        public let day: CalendarDay
        /// With effective versions.
        public let rows: [SourceRow]
    }

    /// A row of a table that this build has no words for, as JSON.
    public struct OtherRow: Sendable {
        public let table: String
        public let json: String
    }

    public let account: Account?
    public let sources: [(source: Source, state: AccountSource)]
    public let connections: [(provenance: Provenance, lastPushAt: Int64, lastDataAt: Int64)]
    public let days: [SourceDay]
    public let canonical: [DayReads.StoredCanonicalDay]
    /// Without the tokens themselves, which never leave the database.
    public let devices: [DeviceTokens.Shown]
    /// Of every further table that has a column `user_id`, so that none can be forgotten.
    public let others: [OtherRow]

    private static let known = [
        "accounts", "account_sources", "connections", "source_days", "canonical_days", "device_tokens",
    ]

    public static func read(_ user: UserID, _ connection: PostgresConnection) throws -> UserExport {
        try connection.simpleQuery("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        defer { _ = try? connection.simpleQuery("COMMIT") }
        let reads = DayReads(connection)
        let all = CalendarDay(daysSinceEpoch: -700_000)...CalendarDay(daysSinceEpoch: 2_900_000)
        return UserExport(
            account: try reads.account(user),
            sources: try accountSources(of: user, connection),
            connections: try reads.connections(of: user),
            days: try reads.sourceRows(of: user, all).map { SourceDay(day: $0.day, rows: $0.rows) },
            canonical: try reads.canonicalDays(of: user, all),
            devices: try DeviceTokens(connection).shown(of: user),
            others: try otherRows(of: user, connection)
        )
    }

    private static func accountSources(
        of user: UserID,
        _ connection: PostgresConnection
    ) throws -> [(source: Source, state: AccountSource)] {
        let result = try connection.executeUnprepared(
            "SELECT source, deleted_version, disconnected_at FROM account_sources WHERE user_id = $1::uuid ORDER BY 1",
            parameters(user)
        )
        return try (0..<result.rowCount).map { row in
            guard let source = Source(rawValue: UInt8(clamping: try result.int2(row, 0))) else {
                throw StorageError.unknownSource
            }
            let state = AccountSource(
                deleted: Version(rawValue: try result.int8(row, 1)),
                disconnectedAt: try result.int8(row, 2)
            )
            return (source, state)
        }
    }

    private static func otherRows(of user: UserID, _ connection: PostgresConnection) throws -> [OtherRow] {
        let tables = try connection.executeUnprepared(
            """
            SELECT relation.relname::text, quote_ident(relation.relname)
            FROM pg_class AS relation JOIN pg_attribute AS attribute ON attribute.attrelid = relation.oid
            WHERE relation.relnamespace = current_schema()::regnamespace AND relation.relkind IN ('r', 'p')
                AND NOT relation.relispartition AND attribute.attname = 'user_id' AND NOT attribute.attisdropped
                AND attribute.atttypid = 'uuid'::regtype
            ORDER BY 1
            """
        )
        var rows: [OtherRow] = []
        for index in 0..<tables.rowCount {
            let table = try tables.text(index, 0)
            if known.contains(table) { continue }
            let found = try connection.executeUnprepared(
                "SELECT (to_jsonb(row) - 'token')::text FROM \(try tables.text(index, 1)) AS row WHERE row.user_id = $1::uuid",
                parameters(user)
            )
            for row in 0..<found.rowCount { rows.append(OtherRow(table: table, json: try found.text(row, 0))) }
        }
        return rows
    }

    private static func parameters(_ user: UserID) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(uuidHigh: user.high, low: user.low)
        return parameters
    }
}

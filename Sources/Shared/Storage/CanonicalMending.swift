public import Domain
public import Postgres

/// Recomputes canonical days page by page, each page in a transaction of its own under its accounts' locks: beside
/// live workers, these meet it where they meet each other. Belongs to one thread.
public final class CanonicalMending {
    public struct Outcome: Hashable, Sendable {
        public var users = 0
        public var days = 0
        /// Days that were not what their rows say.
        public var mended = 0
        /// Days that an older version of the rules had made.
        public var moved = 0

        public init() {}
    }

    private let connection: PostgresConnection
    private let pages: UserPages

    public init(_ connection: PostgresConnection) {
        self.connection = connection
        pages = UserPages(connection)
    }

    /// Makes the rules the active ones; they only move up.
    ///
    /// - Returns: the active version afterwards.
    public func raiseRules(to version: Int32) throws -> Int32 {
        var parameters = PostgresParameters()
        parameters.append(int4: version)
        try connection.executeUnprepared(
            "UPDATE control SET rule_version = $1::int4 WHERE rule_version < $1::int4",
            parameters
        )
        return try activeRules()
    }

    public func activeRules() throws -> Int32 {
        let control = try connection.executeUnprepared("SELECT rule_version FROM control")
        guard control.rowCount == 1 else { throw StorageError.incompleteSnapshot }
        return try control.int4(0, 0)
    }

    /// Where transactions stand now; see `havePassed`.
    public func barrier() throws -> Int64 {
        try connection.executeUnprepared("SELECT pg_current_xact_id()::text::int8").int8(0, 0)
    }

    /// Whether everything has ended that was under way at the barrier. A batch that had read the rules before they were
    /// raised, for a user whose account nobody could see yet, has committed then.
    public func havePassed(_ barrier: Int64) throws -> Bool {
        var parameters = PostgresParameters()
        parameters.append(int8: barrier)
        return try connection.executeUnprepared(
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 > $1::int8",
            parameters
        ).bool(0, 0)
    }

    /// Recomputes some users from the beginning of the stretch.
    ///
    /// - Parameters:
    ///   - range: the page begins at its first user.
    ///   - limit: so many users at most.
    ///   - bucket: of a user who has canonical days and no account.
    ///   - progress: saved in the same transaction.
    /// - Returns: the last user that is done, and what was; nil where the stretch holds none any more.
    /// - Throws: `PostgresError` (a conflict may be tried again), `StorageError`, or `SchemaGate.Refusal` where this
    ///   build does not know the active rules. Nothing of the page was written then.
    public func mend(
        _ range: UserRange,
        limit: Int,
        bucket: (UserID) -> Int16,
        progress: (ToolRuns, UserID, Outcome) throws -> Void
    ) throws -> (last: UserID, outcome: Outcome)? {
        try connection.simpleQuery("BEGIN ISOLATION LEVEL READ COMMITTED")
        do {
            guard let page = try pages.locked(range, limit: limit, bucket: bucket) else {
                try connection.simpleQuery("ROLLBACK")
                return nil
            }
            try SchemaGate.check(rules: page.rules, window: 0)
            var outcome = Outcome()
            outcome.users = page.users
            outcome.days = page.days.count
            var writes: [(key: UserDay, day: CanonicalDay)] = []
            var removals: [UserDay] = []
            for day in page.days {
                let resolved = page.resolved(day)
                let isSame = resolved == day.stored
                if isSame && (day.stored == nil || day.storedRules == page.rules) { continue }
                if day.storedRules == page.rules || day.storedRules == nil { outcome.mended += 1 }
                if let rules = day.storedRules, rules != page.rules { outcome.moved += 1 }
                if let resolved { writes.append((day.key, resolved)) } else { removals.append(day.key) }
            }
            try write(writes, rules: page.rules)
            try remove(removals)
            try progress(ToolRuns(connection), page.last, outcome)
            let commit = try connection.simpleQuery("COMMIT")
            guard commit.last?.isCommitted == true else {
                throw PostgresError(sqlState: "40001", message: "the server answered COMMIT with ROLLBACK")
            }
            return (page.last, outcome)
        } catch {
            if !connection.isBroken { _ = try? connection.simpleQuery("ROLLBACK") }
            throw error
        }
    }

    private func write(_ writes: [(key: UserDay, day: CanonicalDay)], rules: Int32) throws(PostgresError) {
        guard !writes.isEmpty else { return }
        var users = PostgresArray(of: .uuid)
        var days = PostgresArray(of: .date)
        var finals = PostgresArray(of: .bool)
        var sources = PostgresArray(of: .bytea)
        var origins = PostgresArray(of: .text)
        var values = Metric.allCases.map { _ in PostgresArray(of: .float4) }
        var scratch: [UInt8] = []
        for (key, day) in writes {
            users.append(uuidHigh: key.user.high, low: key.user.low)
            days.append(date: key.day.daysSinceEpoch)
            finals.append(bool: day.isFinal)
            let numbers = day.winners.map(\.source.rawValue)
            sources.append(bytea: numbers.span)
            if day.winners.allSatisfy({ $0.origin.isEmpty }) {
                origins.appendNull()
            } else {
                scratch.removeAll(keepingCapacity: true)
                BatchArrays.appendArrayText(of: day.winners, to: &scratch)
                origins.append(text: scratch.span)
            }
            for metric in Metric.allCases {
                if let tenths = day.values[metric] {
                    values[metric.index].append(float4: MetricColumns.real(tenths: tenths))
                } else {
                    values[metric.index].appendNull()
                }
            }
        }
        var parameters = PostgresParameters()
        parameters.append(users)
        parameters.append(days)
        parameters.append(int4: rules)
        parameters.append(finals)
        parameters.append(sources)
        parameters.append(origins)
        for metric in Metric.allCases { parameters.append(values[metric.index]) }
        try connection.executeUnprepared(
            """
            INSERT INTO canonical_days
                (user_id, day, rule_version, final, winner_sources, winner_origins, \(MetricColumns.list))
            SELECT unnest($1::uuid[]), unnest($2::date[]), $3::int4, unnest($4::bool[]), unnest($5::bytea[]),
                unnest($6::text[])::text[], \(MetricColumns.unnests(from: 7))
            ON CONFLICT (user_id, day) DO UPDATE
            SET rule_version = excluded.rule_version, final = excluded.final,
                winner_sources = excluded.winner_sources, winner_origins = excluded.winner_origins,
                \(MetricColumns.names.map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
            """,
            parameters
        )
    }

    private func remove(_ keys: [UserDay]) throws(PostgresError) {
        guard !keys.isEmpty else { return }
        var users = PostgresArray(of: .uuid)
        var days = PostgresArray(of: .date)
        for key in keys {
            users.append(uuidHigh: key.user.high, low: key.user.low)
            days.append(date: key.day.daysSinceEpoch)
        }
        var parameters = PostgresParameters()
        parameters.append(users)
        parameters.append(days)
        try connection.executeUnprepared(
            """
            DELETE FROM canonical_days AS row USING unnest($1::uuid[], $2::date[]) AS gone (user_id, day)
            WHERE row.user_id = gone.user_id AND row.day = gone.day
            """,
            parameters
        )
    }
}

public import Domain
public import Postgres

/// Reading as a batch does, without its locks and its writes: for looking ahead.
extension BatchStore {
    /// Begins a transaction that only reads, takes no lock on a row, and sees the tables as they are now until it ends.
    ///
    /// - Parameter shared: what another's call returned: this one then sees the very same.
    /// - Returns: a name by which others see the same, as long as this transaction is open.
    /// - Throws: `PostgresError`.
    public func beginSnapshot(sharing shared: String? = nil) throws(PostgresError) -> String {
        try connection.simpleQuery(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0"
        )
        if let shared {
            guard
                shared.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || (48...57).contains($0) || (65...70).contains($0) })
            else { throw PostgresError(message: "that is no name of a snapshot") }
            try connection.simpleQuery("SET TRANSACTION SNAPSHOT '\(shared)'")
        }
        return try connection.executeUnprepared("SELECT pg_export_snapshot()").text(0, 0)
    }

    /// What a batch reads under its locks, here without them. Users without an account are left out.
    /// `users` are sorted, without repetitions.
    public func peek(users: [TouchedUser]) throws -> BatchSnapshot {
        let statements = try prepared()
        arrays.load(users: users)
        parameters.reset()
        parameters.append(arrays.users)
        let accounts = try connection.executeUnprepared(
            "SELECT \(BatchStatements.accountColumns) FROM accounts WHERE user_id = ANY ($1::uuid[])",
            parameters
        )
        let results = try connection.pipeline { pipeline in
            pipeline.execute(statements.control)
            pipeline.execute(statements.accountSources, parameters)
            pipeline.execute(statements.connections, parameters)
        }
        var snapshot = try Self.snapshot(control: results[0], isFenceHeld: true)
        try read(accounts: accounts, into: &snapshot)
        try read(sources: results[1], into: &snapshot)
        try read(connections: results[2], into: &snapshot)
        return snapshot
    }

    /// Canonical days as they are stored; those that are not are left out.
    public func readCanonical(_ keys: [UserDay]) throws -> [UserDay: CanonicalDay] {
        guard !keys.isEmpty else { return [:] }
        arrays.load(removed: keys, into: &parameters)
        let result = try connection.executeUnprepared(
            """
            SELECT \(DayRowReader.canonicalColumns.split(separator: ", ").map { "row.\($0)" }.joined(separator: ", "))
            FROM unnest($1::uuid[], $2::date[]) AS wanted (user_id, day)
            JOIN canonical_days AS row ON row.user_id = wanted.user_id AND row.day = wanted.day
            """,
            parameters
        )
        var days: [UserDay: CanonicalDay] = [:]
        for row in 0..<result.rowCount {
            let key = try DayRowReader.key(result, row)
            days[UserDay(user: key.user, day: key.day)] = try DayRowReader.canonicalRow(result, row).day
        }
        return days
    }
}

public import Postgres

/// Long work of the operator's tools, kept so that it goes on where it was stopped.
public struct ToolRuns {
    public struct Part: Hashable, Sendable {
        public let name: String
        /// The next place to be worked on, as the tool writes it.
        public var position: String
        public var isFinished: Bool
        public var counts: [Int64]

        public init(name: String, position: String, isFinished: Bool = false, counts: [Int64] = []) {
            self.name = name
            self.position = position
            self.isFinished = isFinished
            self.counts = counts
        }
    }

    public struct Run: Hashable, Sendable {
        public let name: String
        /// In microseconds since 1970.
        public let startedAt: Int64
        /// In the order of their names.
        public let parts: [Part]
    }

    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// The newest run that asked for the same and was not finished.
    public func unfinished(kind: String, request: String) throws -> Run? {
        var parameters = PostgresParameters()
        parameters.append(text: kind)
        parameters.append(text: request)
        let found = try connection.executeUnprepared(
            """
            SELECT run, started_at FROM tool_runs
            WHERE kind = $1::text AND request = $2::text AND finished_at IS NULL ORDER BY started_at DESC LIMIT 1
            """,
            parameters
        )
        guard found.rowCount == 1 else { return nil }
        let name = try found.text(0, 0)
        var key = PostgresParameters()
        key.append(text: name)
        let result = try connection.executeUnprepared(
            "SELECT part, position, finished, counts FROM tool_run_parts WHERE run = $1::text ORDER BY part",
            key
        )
        let parts = try (0..<result.rowCount).map { row in
            Part(
                name: try result.text(row, 0),
                position: try result.text(row, 1),
                isFinished: try result.bool(row, 2),
                counts: try result.int8Array(row, 3).map { $0 ?? 0 }
            )
        }
        return Run(name: name, startedAt: try found.int8(0, 1), parts: parts)
    }

    /// Begins a run; others that asked for the same count as given up. Runs of a year ago are forgotten.
    public func begin(_ name: String, kind: String, request: String, at now: Int64, parts: [Part]) throws -> Run {
        var parameters = PostgresParameters()
        parameters.append(text: name)
        parameters.append(text: kind)
        parameters.append(text: request)
        parameters.append(int8: now)
        try connection.executeUnprepared(
            """
            WITH old AS (
                DELETE FROM tool_runs WHERE started_at < $4::int8 - 365 * 86400000000
                    OR (kind = $2::text AND request = $3::text AND finished_at IS NULL)
            )
            INSERT INTO tool_runs (run, kind, request, started_at) VALUES ($1::text, $2::text, $3::text, $4::int8)
            """,
            parameters
        )
        for part in parts { try save(part, of: name) }
        return Run(name: name, startedAt: now, parts: parts)
    }

    public func save(_ part: Part, of run: String) throws(PostgresError) {
        var counts = PostgresArray(of: .int8)
        for count in part.counts { counts.append(int8: count) }
        var parameters = PostgresParameters()
        parameters.append(text: run)
        parameters.append(text: part.name)
        parameters.append(text: part.position)
        parameters.append(bool: part.isFinished)
        parameters.append(counts)
        do throws(PostgresError) {
            try connection.executeUnprepared(
                """
                INSERT INTO tool_run_parts (run, part, position, finished, counts)
                SELECT $1::text, $2::text, $3::text, $4::bool, $5::int8[]
                WHERE EXISTS (SELECT FROM tool_runs WHERE run = $1::text)
                ON CONFLICT (run, part) DO UPDATE
                SET position = excluded.position, finished = excluded.finished, counts = excluded.counts
                """,
                parameters
            )
        } catch {
            // The run was given up for another one between the look and the insertion: there is nothing to remember.
            guard error.sqlState == "23503" else { throw error }
        }
    }

    public func finish(_ run: String, at now: Int64) throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.append(text: run)
        parameters.append(int8: now)
        try connection.executeUnprepared(
            "UPDATE tool_runs SET finished_at = $2::int8 WHERE run = $1::text",
            parameters
        )
    }
}

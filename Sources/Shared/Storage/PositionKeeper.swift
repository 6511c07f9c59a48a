public import Postgres

/// What operators do to positions, also while workers run: these notice by the fence of their next batch, or within
/// five seconds.
public struct PositionKeeper {
    /// A position before and after.
    public struct Move: Hashable, Sendable {
        public let name: PartitionName
        public let from: Int64
        public let to: Int64
        /// The epoch as it is now.
        public let epoch: Int64

        public init(name: PartitionName, from: Int64, to: Int64, epoch: Int64) {
            self.name = name
            self.from = from
            self.to = to
            self.epoch = epoch
        }
    }

    public enum Failure: Error, Hashable, CustomStringConvertible {
        case noPosition(PartitionName)
        case wouldSkip(PartitionName, from: Int64, to: Int64)

        public var description: String {
            switch self {
            case .noPosition(let name):
                "\(name) has no position: no worker has read it yet, and the first one starts at its beginning"
            case .wouldSkip(let name, let from, let to):
                "\(name) is at \(from): from \(to) on, \(to - from) records would never be applied"
            }
        }
    }

    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Sets positions, all of them or none: epoch + 1, and the digest of the record before is cleared, since it belongs
    /// to the old position. Waits for the batches that are under way on these partitions, at most the session's
    /// `lock_timeout`.
    ///
    /// - Parameters:
    ///   - targets: each between its log's beginning and end, which only the caller can ask.
    ///   - allowsSkip: forward, too; what lies between is then never applied.
    /// - Returns: the moves in the order of the partitions.
    /// - Throws: `Failure` or `PostgresError`; nothing has moved then.
    public func move(_ targets: [PartitionName: Int64], allowsSkip: Bool) throws -> [Move] {
        try connection.simpleQuery("BEGIN ISOLATION LEVEL READ COMMITTED")
        do {
            // In the order of the key; a batch locks one of these rows, and before anything else.
            let moves = try targets.keys.sorted().map { name in
                try move(name, to: targets[name] ?? 0, allowsSkip: allowsSkip)
            }
            try connection.simpleQuery("COMMIT")
            return moves
        } catch {
            _ = try? connection.simpleQuery("ROLLBACK")
            throw error
        }
    }

    private func move(_ name: PartitionName, to target: Int64, allowsSkip: Bool) throws -> Move {
        var parameters = Self.parameters(name)
        let found = try connection.executeUnprepared(
            """
            SELECT next_offset FROM consumer_offsets WHERE topic = $1::text AND partition = $2::int4
            FOR NO KEY UPDATE
            """,
            parameters
        )
        guard found.rowCount == 1 else { throw Failure.noPosition(name) }
        let before = try found.int8(0, 0)
        if target > before && !allowsSkip { throw Failure.wouldSkip(name, from: before, to: target) }
        parameters.append(int8: target)
        let moved = try connection.executeUnprepared(
            """
            UPDATE consumer_offsets SET next_offset = $3::int8, epoch = epoch + 1, last_record = NULL
            WHERE topic = $1::text AND partition = $2::int4
            RETURNING epoch
            """,
            parameters
        )
        guard moved.rowCount == 1 else { throw Failure.noPosition(name) }
        return Move(name: name, from: before, to: target, epoch: try moved.int8(0, 0))
    }

    /// Lets partitions go on that the brake has stopped, with a history of no dead letters; nil for all. Returns those
    /// that stood still, in order, with the time since when, in microseconds since 1970.
    public func release(_ name: PartitionName? = nil) throws(PostgresError) -> [(name: PartitionName, since: Int64)] {
        var parameters = PostgresParameters()
        if let name { parameters = Self.parameters(name) }
        let one = name == nil ? "" : "AND topic = $1::text AND partition = $2::int4"
        let result = try connection.executeUnprepared(
            """
            WITH braked AS (
                SELECT topic, partition, braked_at FROM consumer_offsets
                WHERE braked_at IS NOT NULL \(one)
                ORDER BY topic, partition FOR NO KEY UPDATE
            )
            UPDATE consumer_offsets AS row SET brake_recent = NULL, braked_at = NULL
            FROM braked WHERE row.topic = braked.topic AND row.partition = braked.partition
            RETURNING row.topic, row.partition, braked.braked_at
            """,
            parameters
        )
        var released: [(name: PartitionName, since: Int64)] = []
        for row in 0..<result.rowCount {
            let name = PartitionName(topic: try result.text(row, 0), partition: try result.int4(row, 1))
            released.append((name, try result.int8(row, 2)))
        }
        return released.sorted { $0.name < $1.name }
    }

    private static func parameters(_ name: PartitionName) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(text: name.topic)
        parameters.append(int4: name.partition)
        return parameters
    }
}

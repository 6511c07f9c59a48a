public import Domain
public import Postgres

/// Names a partition of a topic.
public struct PartitionName: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let topic: String
    public let partition: Int32

    public init(topic: String, partition: Int32) {
        self.topic = topic
        self.partition = partition
    }

    public var description: String { "\(topic)/\(partition)" }

    public static func < (left: PartitionName, right: PartitionName) -> Bool {
        left.topic == right.topic ? left.partition < right.partition : left.topic < right.topic
    }
}

/// A partition's row in `consumer_offsets`.
public struct PartitionState: Hashable, Sendable {
    public var clusterID: String
    public var owner: UUID128
    public var epoch: Int64
    public var nextOffset: Int64
    /// Digest of whatever record was at `nextOffset - 1`; nil proves nothing.
    public var lastRecord: Int64?
    /// The newest received-at applied, in microseconds since 1970.
    public var appliedThrough: Int64
    public var brake: [UInt8]?
    public var brakedAt: Int64?
    /// Up to this offset, lost records are counted already.
    public var lostThrough: Int64 = 0

    public init(
        clusterID: String,
        owner: UUID128,
        epoch: Int64,
        nextOffset: Int64,
        lastRecord: Int64?,
        appliedThrough: Int64,
        brake: [UInt8]?,
        brakedAt: Int64?
    ) {
        self.clusterID = clusterID
        self.owner = owner
        self.epoch = epoch
        self.nextOffset = nextOffset
        self.lastRecord = lastRecord
        self.appliedThrough = appliedThrough
        self.brake = brake
        self.brakedAt = brakedAt
    }
}

/// Positions in the database: who reads a partition, from where, fenced by an epoch that every claim raises.
public struct OffsetsStore {
    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    private static let columns =
        "cluster_id, owner, epoch, next_offset, last_record, applied_through, brake_recent, braked_at, lost_through"

    /// Takes the partition: owner = me, epoch + 1. A partition that nobody has read starts at `start`, the log's
    /// beginning, with `isNew`. Waits at most the session's `lock_timeout` for a batch of the former owner.
    public func claim(
        _ name: PartitionName,
        owner: UUID128,
        clusterID: String,
        startingAt start: Int64 = 0
    ) throws(PostgresError) -> (state: PartitionState, isNew: Bool) {
        var parameters = PostgresParameters()
        parameters.append(text: name.topic)
        parameters.append(int4: name.partition)
        parameters.append(text: clusterID)
        parameters.append(uuidHigh: owner.high, low: owner.low)
        parameters.append(int8: start)
        let result = try connection.executeUnprepared(
            """
            INSERT INTO consumer_offsets (topic, partition, cluster_id, owner, epoch, next_offset)
            VALUES ($1::text, $2::int4, $3::text, $4::uuid, 1, $5::int8)
            ON CONFLICT (topic, partition) DO UPDATE
            SET owner = excluded.owner, epoch = consumer_offsets.epoch + 1
            RETURNING \(Self.columns), xmax = 0
            """,
            parameters
        )
        return (try Self.state(result, 0), try result.bool(0, 9))
    }

    public func look(_ name: PartitionName) throws(PostgresError) -> PartitionState? {
        var parameters = PostgresParameters()
        parameters.append(text: name.topic)
        parameters.append(int4: name.partition)
        let result = try connection.executeUnprepared(
            "SELECT \(Self.columns) FROM consumer_offsets WHERE topic = $1::text AND partition = $2::int4",
            parameters
        )
        return result.rowCount == 0 ? nil : try Self.state(result, 0)
    }

    public func all() throws(PostgresError) -> [(name: PartitionName, state: PartitionState)] {
        let result = try connection.executeUnprepared(
            "SELECT \(Self.columns), topic, partition FROM consumer_offsets ORDER BY topic, partition"
        )
        var rows: [(name: PartitionName, state: PartitionState)] = []
        for row in 0..<result.rowCount {
            let name = PartitionName(topic: try result.text(row, 9), partition: try result.int4(row, 10))
            rows.append((name, try Self.state(result, row)))
        }
        return rows
    }

    /// Puts the position somewhere else: another log, or behind records lost to retention. The record digest is cleared: it
    /// belongs to the old position. What of the log is counted as lost is forgotten, unless `keepsLoss`. Returns false
    /// where the partition is no longer mine.
    public func move(
        _ name: PartitionName,
        owner: UUID128,
        epoch: Int64,
        clusterID: String,
        to offset: Int64,
        keepsLoss: Bool
    ) throws(PostgresError) -> Bool {
        var parameters = Self.mine(name, owner, epoch)
        parameters.append(text: clusterID)
        parameters.append(int8: offset)
        parameters.append(bool: keepsLoss)
        let result = try connection.executeUnprepared(
            """
            UPDATE consumer_offsets
            SET cluster_id = $5::text, next_offset = $6::int8, last_record = NULL,
                lost_through = CASE WHEN $7::bool THEN lost_through ELSE 0 END
            WHERE topic = $1::text AND partition = $2::int4 AND owner = $3::uuid AND epoch = $4::int8
            """,
            parameters
        )
        return result.affectedRows == 1
    }

    /// Counts records that the log lost before they were read, up to this offset; the position stays. Returns false where
    /// the partition is no longer mine.
    public func countLoss(
        _ name: PartitionName,
        owner: UUID128,
        epoch: Int64,
        of records: Int64,
        through offset: Int64
    ) throws(PostgresError) -> Bool {
        var parameters = Self.mine(name, owner, epoch)
        parameters.append(int8: records)
        parameters.append(int8: offset)
        let result = try connection.executeUnprepared(
            """
            UPDATE consumer_offsets SET lost_records = lost_records + $5::int8, lost_through = $6::int8
            WHERE topic = $1::text AND partition = $2::int4 AND owner = $3::uuid AND epoch = $4::int8
            """,
            parameters
        )
        return result.affectedRows == 1
    }

    private static func mine(_ name: PartitionName, _ owner: UUID128, _ epoch: Int64) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(text: name.topic)
        parameters.append(int4: name.partition)
        parameters.append(uuidHigh: owner.high, low: owner.low)
        parameters.append(int8: epoch)
        return parameters
    }

    private static func state(_ result: PostgresResult, _ row: Int) throws(PostgresError) -> PartitionState {
        let owner = try result.uuid(row, 1)
        var state = PartitionState(
            clusterID: try result.text(row, 0),
            owner: UUID128(high: owner.high, low: owner.low),
            epoch: try result.int8(row, 2),
            nextOffset: try result.int8(row, 3),
            lastRecord: try result.isNull(row, 4) ? nil : try result.int8(row, 4),
            appliedThrough: try result.int8(row, 5),
            brake: try result.isNull(row, 6) ? nil : try result.bytea(row, 6),
            brakedAt: try result.isNull(row, 7) ? nil : try result.int8(row, 7)
        )
        state.lostThrough = try result.int8(row, 8)
        return state
    }
}

public import Domain
public import Postgres

/// Which dead letter one is: where the record stood in its own log, and which attempt of it failed. A letter that was
/// written twice has one identity.
public struct DeadLetterIdentity: Hashable, Comparable, Sendable {
    public let clusterID: String
    public let topic: String
    public let partition: Int32
    public let offset: Int64
    /// When the record was appended to its log, in milliseconds since 1970.
    public let appendedAt: Int64
    /// From 1.
    public let attempt: Int32

    public init(clusterID: String, topic: String, partition: Int32, offset: Int64, appendedAt: Int64, attempt: Int32) {
        self.clusterID = clusterID
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.appendedAt = appendedAt
        self.attempt = attempt
    }

    public static func < (left: DeadLetterIdentity, right: DeadLetterIdentity) -> Bool {
        (left.topic, left.partition, left.appendedAt, left.offset, left.attempt)
            < (right.topic, right.partition, right.appendedAt, right.offset, right.attempt)
    }
}

/// What an operator decided about a dead letter.
public struct DeadLetterMark: Hashable, Sendable {
    public enum State: String, Sendable {
        /// Sent again to its topic.
        case redriven
        /// Looked at, and not worth it.
        case dropped
    }

    public let state: State
    /// Why it was dropped.
    public let reason: String
    /// In microseconds since 1970.
    public let markedAt: Int64

    public init(state: State, reason: String = "", markedAt: Int64) {
        self.state = state
        self.reason = reason
        self.markedAt = markedAt
    }
}

/// The marks of all dead letters. The letters themselves lie in Kafka, where nothing can be changed.
public struct DeadLetterMarks {
    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    public func all() throws -> [DeadLetterIdentity: DeadLetterMark] {
        let result = try connection.executeUnprepared(
            """
            SELECT cluster_id, topic, partition, record_offset, appended_at, attempt, state, reason, marked_at
            FROM dead_letter_marks
            """
        )
        var marks: [DeadLetterIdentity: DeadLetterMark] = [:]
        for row in 0..<result.rowCount {
            let identity = DeadLetterIdentity(
                clusterID: try result.text(row, 0),
                topic: try result.text(row, 1),
                partition: try result.int4(row, 2),
                offset: try result.int8(row, 3),
                appendedAt: try result.int8(row, 4),
                attempt: try result.int4(row, 5)
            )
            // A state of a newer build is at least no open letter.
            let state = DeadLetterMark.State(rawValue: try result.text(row, 6)) ?? .dropped
            marks[identity] = DeadLetterMark(
                state: state,
                reason: try result.text(row, 7),
                markedAt: try result.int8(row, 8)
            )
        }
        return marks
    }

    /// Marks all of them or none; a letter that has a mark gets this one instead.
    public func set(_ mark: DeadLetterMark, _ letters: [DeadLetterIdentity]) throws(PostgresError) {
        guard !letters.isEmpty else { return }
        var clusters = PostgresArray(of: .text)
        var topics = PostgresArray(of: .text)
        var partitions = PostgresArray(of: .int4)
        var offsets = PostgresArray(of: .int8)
        var times = PostgresArray(of: .int8)
        var attempts = PostgresArray(of: .int4)
        for letter in Set(letters).sorted() {
            clusters.append(text: letter.clusterID)
            topics.append(text: letter.topic)
            partitions.append(int4: letter.partition)
            offsets.append(int8: letter.offset)
            times.append(int8: letter.appendedAt)
            attempts.append(int4: letter.attempt)
        }
        var parameters = PostgresParameters()
        parameters.append(clusters)
        parameters.append(topics)
        parameters.append(partitions)
        parameters.append(offsets)
        parameters.append(times)
        parameters.append(attempts)
        parameters.append(text: mark.state.rawValue)
        parameters.append(text: mark.reason)
        parameters.append(int8: mark.markedAt)
        try connection.executeUnprepared(
            """
            INSERT INTO dead_letter_marks
                (cluster_id, topic, partition, record_offset, appended_at, attempt, state, reason, marked_at)
            SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::int4[]), unnest($4::int8[]), unnest($5::int8[]),
                unnest($6::int4[]), $7::text, $8::text, $9::int8
            ON CONFLICT (topic, partition, record_offset, cluster_id, appended_at, attempt) DO UPDATE
            SET state = excluded.state, marked_at = excluded.marked_at,
                -- What somebody wrote stays, unless somebody writes something else.
                reason = CASE WHEN excluded.reason = '' THEN dead_letter_marks.reason ELSE excluded.reason END
            """,
            parameters
        )
    }

    /// Until when each of these users' data is deleted; users without a deletion are left out.
    public func deletions(of users: Set<UserID>) throws -> [UserID: Instant] {
        guard !users.isEmpty else { return [:] }
        var list = PostgresArray(of: .uuid)
        for user in users { list.append(uuidHigh: user.high, low: user.low) }
        var parameters = PostgresParameters()
        parameters.append(list)
        let result = try connection.executeUnprepared(
            "SELECT user_id, deleted_version FROM accounts WHERE user_id = ANY ($1::uuid[]) AND deleted_version > 0",
            parameters
        )
        var deletions: [UserID: Instant] = [:]
        for row in 0..<result.rowCount {
            let user = try result.uuid(row, 0)
            deletions[UserID(high: user.high, low: user.low)] = Version(rawValue: try result.int8(row, 1)).instant
        }
        return deletions
    }
}

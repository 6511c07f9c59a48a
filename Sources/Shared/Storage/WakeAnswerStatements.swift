internal import Domain
internal import Postgres

/// What a batch tells the wake worker: which wakes were answered, and what the door answered lately.
enum WakeAnswerStatements {
    /// $1 users, $2 their first and $3 their last push, $4 the oldest wake that they may answer, $5 whether they brought
    /// data, $6 the spacing, $7 by how much a wake may be later than its answer. Under the accounts' locks. A wake that
    /// was claimed after the last push stays open and goes on to count. No answer is written as earlier than its wake.
    static let answerWakes = """
        WITH answer AS (
            SELECT given.user_id, given.first_at, given.last_at, given.open_since, given.brought_data, later.struck,
                later.open_since AS next
            FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::bool[])
                AS given (user_id, first_at, last_at, open_since, brought_data)
            CROSS JOIN LATERAL (
                SELECT count(*) FILTER (WHERE outcome = 'accepted') AS struck, min(wake_at) AS open_since FROM push_sends
                WHERE push_sends.user_id = given.user_id AND wake_at >= given.last_at + $7::int8 AND answered_at IS NULL
                    AND (outcome IS NULL OR outcome IN ('accepted', 'unknown'))
            ) AS later
        ), filled AS (
            UPDATE push_sends
            SET answered_at = greatest(wake_at,
                    CASE WHEN wake_at < answer.first_at + $7::int8 THEN answer.first_at ELSE answer.last_at END),
                brought_data = answer.brought_data
            FROM answer
            WHERE push_sends.user_id = answer.user_id AND push_sends.wake_at >= answer.open_since
                AND push_sends.wake_at < answer.last_at + $7::int8 AND push_sends.answered_at IS NULL
                AND (push_sends.outcome IS NULL OR push_sends.outcome IN ('accepted', 'unknown'))
        ), healed AS (
            UPDATE wake_schedule
            SET unanswered = answer.struck, due_at = least(due_at, answer.last_at + $6::int8)
            FROM answer WHERE wake_schedule.user_id = answer.user_id
        )
        UPDATE accounts SET open_wake_at = coalesce(answer.next, 0) FROM answer
        WHERE accounts.user_id = answer.user_id
        """

    static func load(_ answers: [WakeAnswer], into parameters: inout PostgresParameters) {
        var users = PostgresArray(of: .uuid)
        var first = PostgresArray(of: .int8)
        var last = PostgresArray(of: .int8)
        var opened = PostgresArray(of: .int8)
        var brought = PostgresArray(of: .bool)
        for answer in answers {
            users.append(uuidHigh: answer.user.high, low: answer.user.low)
            first.append(int8: answer.firstAt)
            last.append(int8: answer.lastAt)
            opened.append(int8: answer.openSince)
            brought.append(bool: answer.broughtData)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(first)
        parameters.append(last)
        parameters.append(opened)
        parameters.append(brought)
        parameters.append(int8: Int64(WakeRule.spacingSeconds) * 1_000_000)
        parameters.append(int8: Int64(WakeRule.answerToleranceSeconds) * 1_000_000)
    }

    /// $1 topic, $2 partition, $3 minutes, $4 requests, $5 answered. A slot is used again for every 16th minute; what
    /// belongs to an older minute than the slot's is too old to count.
    static let countDoor = """
        INSERT INTO door_counts AS held (topic, partition, slot, minute, requests, answered)
        SELECT $1::text, $2::int4, (new.minute % 16)::int2, new.minute, new.requests, new.answered
        FROM unnest($3::int8[], $4::int8[], $5::int8[]) AS new (minute, requests, answered)
        ON CONFLICT (topic, partition, slot) DO UPDATE
        SET minute = excluded.minute,
            requests = excluded.requests + CASE WHEN held.minute = excluded.minute THEN held.requests ELSE 0 END,
            answered = excluded.answered + CASE WHEN held.minute = excluded.minute THEN held.answered ELSE 0 END
        WHERE excluded.minute >= held.minute
        """

    static func load(_ door: [DoorMinute], of partition: PartitionName, into parameters: inout PostgresParameters) {
        var minutes = PostgresArray(of: .int8)
        var requests = PostgresArray(of: .int8)
        var answered = PostgresArray(of: .int8)
        for minute in door {
            minutes.append(int8: minute.minute)
            requests.append(int8: Int64(clamping: minute.requests))
            answered.append(int8: Int64(clamping: minute.answered))
        }
        parameters.reset()
        parameters.append(text: partition.topic)
        parameters.append(int4: partition.partition)
        parameters.append(minutes)
        parameters.append(requests)
        parameters.append(answered)
    }
}

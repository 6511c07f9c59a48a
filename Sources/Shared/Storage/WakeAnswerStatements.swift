internal import Domain
internal import Postgres

/// What a batch tells the wake worker: which wakes were answered, and what the door answered lately.
enum WakeAnswerStatements {
    /// $1 users, $2 when they pushed, $3 the oldest wake that it may answer, $4 whether the push brought data, $5 the
    /// spacing. Under the accounts' locks. A wake that was claimed after the push stays open and goes on to count.
    static let answerWakes = """
        WITH answer AS (
            SELECT given.user_id, given.pushed_at, given.open_since, given.brought_data, later.struck, later.open_since AS next
            FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::bool[])
                AS given (user_id, pushed_at, open_since, brought_data)
            CROSS JOIN LATERAL (
                SELECT count(*) FILTER (WHERE outcome = 'accepted') AS struck, min(wake_at) AS open_since FROM push_sends
                WHERE push_sends.user_id = given.user_id AND wake_at >= given.pushed_at AND answered_at IS NULL
                    AND (outcome IS NULL OR outcome IN ('accepted', 'unknown'))
            ) AS later
        ), filled AS (
            UPDATE push_sends SET answered_at = answer.pushed_at, brought_data = answer.brought_data FROM answer
            WHERE push_sends.user_id = answer.user_id AND push_sends.wake_at >= answer.open_since
                AND push_sends.wake_at < answer.pushed_at AND push_sends.answered_at IS NULL
                AND (push_sends.outcome IS NULL OR push_sends.outcome IN ('accepted', 'unknown'))
        ), healed AS (
            UPDATE wake_schedule
            SET unanswered = answer.struck, due_at = least(due_at, answer.pushed_at + $5::int8)
            FROM answer WHERE wake_schedule.user_id = answer.user_id
        )
        UPDATE accounts SET open_wake_at = coalesce(answer.next, 0) FROM answer
        WHERE accounts.user_id = answer.user_id
        """

    static func load(_ answers: [WakeAnswer], into parameters: inout PostgresParameters) {
        var users = PostgresArray(of: .uuid)
        var pushes = PostgresArray(of: .int8)
        var opened = PostgresArray(of: .int8)
        var brought = PostgresArray(of: .bool)
        for answer in answers {
            users.append(uuidHigh: answer.user.high, low: answer.user.low)
            pushes.append(int8: answer.pushedAt)
            opened.append(int8: answer.openSince)
            brought.append(bool: answer.broughtData)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(pushes)
        parameters.append(opened)
        parameters.append(brought)
        parameters.append(int8: Int64(WakeRule.spacingSeconds) * 1_000_000)
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

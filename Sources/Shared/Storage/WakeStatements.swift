/// The statements of wakes. The session is a batch's (`BatchStore.sessionSettings`): no way but by the indexes.
enum WakeStatements {
    /// As `WakeStore.accounts` takes them.
    private static let accountColumns = ["user_id", "bucket", "open_wake_at", "deleted_version"]

    /// $1 now, $2 how many. Candidates in the order of the index, for whoever only looks. Of `wake_schedule` nothing is
    /// returned but where the row lies: with locks it would be as old as the statement, not as the lock.
    static let candidates = """
        SELECT \(accountColumns.map { "accounts.\($0)" }.joined(separator: ", ")), wake_schedule.ctid
        FROM wake_schedule JOIN accounts ON accounts.user_id = wake_schedule.user_id
        WHERE wake_schedule.due_at <= $1::int8
        ORDER BY wake_schedule.due_at LIMIT $2::int4
        """

    /// The same, each with the lock of its account; those whose accounts somebody else holds are passed over. Costs its
    /// candidates, however many users there are.
    static let lockCandidates = "\(candidates) FOR NO KEY UPDATE OF accounts SKIP LOCKED"

    /// $1 users.
    static let accounts = """
        SELECT \(accountColumns.joined(separator: ", ")) FROM accounts WHERE user_id = ANY ($1::uuid[])
        """

    /// The same, in the order of which they are locked: as every batch does it, since this waits.
    static let lockAccounts = "\(accounts) ORDER BY user_id FOR NO KEY UPDATE"

    /// As `WakeStore.schedules` takes them.
    private static let scheduleColumns =
        "user_id, due_at, last_wake_at, previous_wake_at, unanswered, struck_at, claim, claimed_until, ctid"

    /// $1 users.
    static let schedules = "SELECT \(scheduleColumns) FROM wake_schedule WHERE user_id = ANY ($1::uuid[])"

    /// $1 places, as `candidates` says them, so that no index is asked for what it has just said. Behind the accounts'
    /// locks: a row that was written before they were held lies elsewhere by now, and is not returned; what lies in its
    /// place may be another user's.
    static let schedulesAtPlaces = "SELECT \(scheduleColumns) FROM wake_schedule WHERE ctid = ANY ($1::tid[])"

    /// $1 users, $2 on-device sources.
    static let connections = """
        SELECT user_id, source, last_push_at FROM connections
        WHERE user_id = ANY ($1::uuid[]) AND source = ANY ($2::int2[])
        """

    /// $1 users, $2 on-device sources.
    static let disconnects = """
        SELECT user_id, source, disconnected_at FROM account_sources
        WHERE user_id = ANY ($1::uuid[]) AND source = ANY ($2::int2[]) AND disconnected_at > 0
        """

    /// $1 users, $2 due, $3 last wake, $4 the one before, $5 unanswered, $6 struck, $7 claim, $8 claimed until, $9 places
    /// that were read behind the accounts' locks. Every row has to be met: see `WakeStore.requireUpdated`. The user is
    /// compared in a way that no index can serve: on small tables the planner would take that for as cheap as the place.
    static let updateSchedules = """
        UPDATE wake_schedule AS held
        SET due_at = new.due_at, last_wake_at = new.last_wake_at, previous_wake_at = new.previous_wake_at,
            unanswered = new.unanswered, struck_at = new.struck_at, claim = new.claim,
            claimed_until = new.claimed_until
        FROM unnest(
            $1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::int8[], $8::int8[], $9::tid[]
        ) AS new (user_id, due_at, last_wake_at, previous_wake_at, unanswered, struck_at, claim, claimed_until, place)
        WHERE held.ctid = new.place AND held.user_id IS NOT DISTINCT FROM new.user_id
        """

    /// $1 users, $2 wakes, $3 campaign, $4 claims, $5 worker, $6 tokens, $7 platforms, $8 app versions.
    static let insertSends = """
        INSERT INTO push_sends (user_id, wake_at, campaign, claim, worker, tokens, platform, app_version)
        SELECT unnest($1::uuid[]), unnest($2::int8[]), $3::int8, unnest($4::int8[]), $5::uuid, unnest($6::int2[]),
            unnest($7::text[]), unnest($8::text[])
        """

    /// $1 users, $2 open since.
    static let updateOpenWakes = """
        UPDATE accounts SET open_wake_at = new.open_wake_at
        FROM unnest($1::uuid[], $2::int8[]) AS new (user_id, open_wake_at)
        WHERE accounts.user_id = new.user_id
        """

    /// $1 users, $2 wakes. When they were answered already.
    static let answers = """
        SELECT held.user_id, held.answered_at FROM unnest($1::uuid[], $2::int8[]) AS claim (user_id, wake_at)
        JOIN push_sends AS held ON held.user_id = claim.user_id AND held.wake_at = claim.wake_at
        WHERE held.outcome IS NULL
        """

    /// $1 users, $2 wakes, $3 outcomes, $4 now.
    static let concludeSends = """
        UPDATE push_sends AS held SET outcome = new.outcome, concluded_at = $4::int8
        FROM unnest($1::uuid[], $2::int8[], $3::text[]) AS new (user_id, wake_at, outcome)
        WHERE held.user_id = new.user_id AND held.wake_at = new.wake_at AND held.outcome IS NULL
        """

    // MARK: What all share

    /// $1 topic.
    static let applied = """
        SELECT partition, applied_through FROM consumer_offsets WHERE topic = $1::text ORDER BY partition
        """

    /// $1 topic, $2 the first minute that counts. Every partition gets every heartbeat: the one that knows most of them.
    static let door = """
        SELECT sum(requests)::int8 AS requests, sum(answered)::int8 FROM door_counts
        WHERE topic = $1::text AND minute >= $2::int8
        GROUP BY partition ORDER BY requests DESC LIMIT 1
        """

    /// $1 topic.
    static let partitionCounts = "SELECT partitions, since FROM partition_counts WHERE topic = $1::text"

    /// $1 topic, $2 count, $3 now.
    static let addPartitionCount = """
        INSERT INTO partition_counts (topic, partitions, since) VALUES ($1::text, $2::int4, $3::int8)
        ON CONFLICT (topic, partitions) DO NOTHING
        """

    static let control = """
        SELECT paused_at, door_shut_at, resumes, door_shut_since, clock_jumped_through, clock_jumped_by
        FROM wake_control
        """

    static let stops = "SELECT lane, topic, code, since FROM push_stops ORDER BY lane, topic"

    static let pausedCredentials = "SELECT max(paused_until) FROM provider_tokens"

    /// Workers forget their own stops when they see the number grow.
    static let resume = """
        WITH gone AS (
            DELETE FROM push_stops RETURNING 1
        )
        UPDATE wake_control SET paused_at = NULL, resumes = resumes + 1
        RETURNING (SELECT count(*) FROM gone)
        """

    static let pause = "UPDATE wake_control SET paused_at = coalesce(paused_at, $1::int8) RETURNING paused_at"

    /// $1 now. Where the row is gone.
    static let beginPaused = """
        INSERT INTO wake_control (paused_at) VALUES ($1::int8)
        ON CONFLICT (only_row) DO UPDATE SET paused_at = coalesce(wake_control.paused_at, excluded.paused_at)
        RETURNING paused_at
        """

    /// $1 the time that was last seen before the jump, $2 through, $3 by, $4 the long spacing. Every worker writes down
    /// what it saw; the first one's counts. One that came less than the long spacing before is added.
    static let noteClockJump = """
        UPDATE wake_control
        SET clock_jumped_through = $2::int8,
            clock_jumped_by = $3::int8
                + CASE WHEN clock_jumped_through + clock_jumped_by > $2::int8 - $4::int8 THEN clock_jumped_by ELSE 0 END
        WHERE clock_jumped_through + clock_jumped_by <= $1::int8
        """

    /// $1 now. A jump that ends in the future has been taken back, as far as that.
    static let takeBackClockJump = """
        UPDATE wake_control SET clock_jumped_by = greatest(0, $1::int8 - clock_jumped_through)
        WHERE clock_jumped_through + clock_jumped_by > $1::int8
        """

    static let serverTime = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8"

    /// $1 since, $2 now, $3 the spacing: as `PipelineState.noteDoorShut`.
    static let noteDoorShut = """
        UPDATE wake_control
        SET door_shut_since = CASE
                WHEN door_shut_at > 0 AND door_shut_at >= $1::int8 - $3::int8 THEN least(door_shut_since, $1::int8)
                ELSE $1::int8
            END,
            door_shut_at = greatest(door_shut_at, $2::int8)
        """

    static let lockPace = "SELECT pace_spent_through FROM wake_control FOR UPDATE"

    /// $1 spent through.
    static let setPace = "UPDATE wake_control SET pace_spent_through = $1::int8"

    /// $1 lane, $2 topic, $3 code, $4 now.
    static let addStop = """
        INSERT INTO push_stops (lane, topic, code, since) VALUES ($1::text, $2::text, $3::text, $4::int8)
        ON CONFLICT (lane, topic) DO NOTHING
        """
}

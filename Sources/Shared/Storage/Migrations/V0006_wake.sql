-- What the wake worker needs: claims that are fenced, a record of every wake, what all workers share, and a role with
-- no more rights than that takes. Times are microseconds since 1970.

ALTER TABLE wake_schedule
    -- `last_wake_at` before the open claim, which may turn out to have sent nothing.
    ADD COLUMN previous_wake_at bigint NOT NULL DEFAULT 0,
    -- The newest wake that counts as unanswered.
    ADD COLUMN struck_at bigint NOT NULL DEFAULT 0,
    -- The fencing number of the open or the last claim.
    ADD COLUMN claim bigint NOT NULL DEFAULT 0,
    -- When the open claim's lease ends; 0 for none. `due_at` is the same then, so that whoever scans finds it.
    ADD COLUMN claimed_until bigint NOT NULL DEFAULT 0;

-- Every look moves `due_at`, and with it an entry of the index from its front to somewhere behind: what it leaves there
-- lies in every scan's way until it is vacuumed.
ALTER TABLE wake_schedule SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000);

-- The oldest wake that no push has answered, 0 for none. It stands here, in the row that every batch locks and reads,
-- so that users without an open wake cost the batch nothing.
ALTER TABLE accounts ADD COLUMN open_wake_at bigint NOT NULL DEFAULT 0;

-- One row per user and wake.
CREATE TABLE push_sends (
    user_id uuid NOT NULL,
    -- When it was claimed.
    wake_at bigint NOT NULL,
    -- The beginning of the round of sends that it belongs to.
    campaign bigint NOT NULL,
    claim bigint NOT NULL,
    worker uuid NOT NULL,
    -- How many tokens were tried.
    tokens smallint NOT NULL,
    -- Of the newest of them.
    platform text NOT NULL,
    app_version text NOT NULL,
    -- Null while the claim is open; accepted, unknown, or why it was not spent.
    outcome text,
    concluded_at bigint,
    -- Received-at of the next push of a phone.
    answered_at bigint,
    -- Whether that push changed a value.
    brought_data boolean,
    PRIMARY KEY (user_id, wake_at)
) PARTITION BY RANGE (wake_at);

-- Rows come in the order of time: pages do, too.
CREATE INDEX push_sends_time ON push_sends USING brin (wake_at);

CREATE VIEW wakes WITH (security_invoker = true) AS
SELECT user_id, to_timestamp(wake_at / 1000000.0) AS woken_at, to_timestamp(campaign / 1000000.0) AS campaign,
    platform, app_version, tokens, outcome, to_timestamp(answered_at / 1000000.0) AS answered_at,
    (answered_at - wake_at) / 60000000.0 AS minutes_to_answer, brought_data
FROM push_sends;

-- Makes the month's partition if it is missing. Made apart and attached, as for the days.
CREATE FUNCTION ensure_wake_month(first_day date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    month date := date_trunc('month', first_day)::date;
    child text := 'push_sends_' || to_char(month, '"y"YYYY"m"MM');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('daybook.months', 0));
    IF to_regclass(child) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE push_sends INCLUDING ALL) WITH (fillfactor = 80)', child);
        EXECUTE format('ALTER TABLE push_sends ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', child,
            extract(epoch FROM month)::bigint * 1000000,
            extract(epoch FROM (month + interval '1 month')::date)::bigint * 1000000);
    END IF;
END
$$;

-- Drops the month's partition; false where there is none. Never a month that ended less than a month ago: its wakes may
-- still be answered. Gives up after a second, and is tried again later.
CREATE FUNCTION drop_wake_month(first_day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '1s' AS $$
DECLARE
    month date := date_trunc('month', first_day)::date;
    child text := 'push_sends_' || to_char(month, '"y"YYYY"m"MM');
BEGIN
    IF month + interval '2 months' > now() OR to_regclass(child) IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('daybook.months', 0));
    EXECUTE format('DROP TABLE IF EXISTS %I', child);
    RETURN true;
END
$$;

-- What all wake workers share.
CREATE TABLE wake_control (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- By an operator; null while wakes run.
    paused_at bigint,
    -- When the door was last found shut, or nothing at all got in, and since when; openings that are shorter than the
    -- spacing of wakes are passed over.
    door_shut_at bigint NOT NULL DEFAULT 0,
    door_shut_since bigint NOT NULL DEFAULT 0,
    -- Sends are given out up to here (WakeRules/SendPace).
    pace_spent_through bigint NOT NULL DEFAULT 0,
    -- Raised by an operator's resume, so that workers forget the stops that they know of.
    resumes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO wake_control DEFAULT VALUES;

-- Where nothing is sent until somebody resumes it: a credential or a topic that is refused, too many bad tokens.
CREATE TABLE push_stops (
    lane text NOT NULL,
    -- Empty for the whole lane.
    topic text NOT NULL,
    code text NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (lane, topic)
);

-- One provider token per signing key for all workers: Apple wants them at least 20 minutes apart.
CREATE TABLE provider_tokens (
    key_id text PRIMARY KEY,
    jwt text,
    issued_at bigint,
    -- Names the team and the public key that signed it: a digest of both.
    signer text,
    paused_until bigint NOT NULL DEFAULT 0
);

-- What the door answered, from the heartbeats: minute by minute in slots that are used again.
CREATE TABLE door_counts (
    topic text NOT NULL,
    partition integer NOT NULL,
    slot smallint NOT NULL,
    -- Minutes since 1970.
    minute bigint NOT NULL,
    requests bigint NOT NULL,
    answered bigint NOT NULL,
    PRIMARY KEY (topic, partition, slot)
) WITH (fillfactor = 50);

-- How many partitions a topic had, and since when: records written by an earlier count may still be in the log.
CREATE TABLE partition_counts (
    topic text NOT NULL,
    partitions integer NOT NULL,
    since bigint NOT NULL,
    PRIMARY KEY (topic, partitions)
);

ALTER TABLE push_sends ENABLE ROW LEVEL SECURITY;

ALTER FUNCTION grant_daybook_roles() RENAME TO grant_daybook_roles_4;

-- What the steps before grant, and for wakes: a third role, of the wake worker.
CREATE FUNCTION grant_daybook_roles() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    guarded text;
BEGIN
    PERFORM grant_daybook_roles_4();
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_worker') THEN
        -- The batch counts heartbeats, fills in answers, and erases with the account.
        GRANT SELECT, INSERT, UPDATE ON door_counts TO daybook_worker;
        GRANT SELECT, UPDATE, DELETE ON push_sends TO daybook_worker;
        IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = 'push_sends'::regclass AND polname = 'every_row') THEN
            CREATE POLICY every_row ON push_sends TO daybook_worker USING (true) WITH CHECK (true);
        END IF;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_wake') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO daybook_wake', current_schema());
        GRANT SELECT ON schema_migrations, control, consumer_offsets, door_counts, account_sources TO daybook_wake;
        GRANT SELECT (user_id, bucket, deleted_version, open_wake_at), UPDATE (open_wake_at) ON accounts TO daybook_wake;
        -- Neither the windows nor anything else of what a phone sent.
        GRANT SELECT (user_id, source, origin, last_push_at) ON connections TO daybook_wake;
        GRANT SELECT, UPDATE ON wake_schedule TO daybook_wake;
        GRANT SELECT, INSERT, UPDATE ON push_sends, push_stops, provider_tokens, partition_counts TO daybook_wake;
        GRANT SELECT, UPDATE ON wake_control TO daybook_wake;
        GRANT DELETE ON push_stops TO daybook_wake;
        GRANT SELECT, UPDATE ON device_tokens TO daybook_wake;
        GRANT SELECT ON live_device_tokens, wakes TO daybook_wake;
        GRANT EXECUTE ON FUNCTION ensure_wake_month(date), drop_wake_month(date) TO daybook_wake;
        FOREACH guarded IN ARRAY
            ARRAY['accounts', 'account_sources', 'connections', 'wake_schedule', 'device_tokens', 'push_sends']
        LOOP
            IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = guarded::regclass AND polname = 'every_row_to_wake')
            THEN
                EXECUTE format('CREATE POLICY every_row_to_wake ON %I TO daybook_wake USING (true) WITH CHECK (true)',
                    guarded);
            END IF;
        END LOOP;
    END IF;
END
$$;

DO $$
BEGIN
    REVOKE EXECUTE ON FUNCTION ensure_wake_month(date), drop_wake_month(date), grant_daybook_roles() FROM PUBLIC;
    EXECUTE format('ALTER FUNCTION ensure_wake_month(date) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION drop_wake_month(date) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION grant_daybook_roles() SET search_path = %I, pg_temp', current_schema());
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_wake') THEN
        BEGIN
            CREATE ROLE daybook_wake NOLOGIN;
        EXCEPTION
            -- Roles belong to the whole server: another database's migration was faster.
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'the role daybook_wake is missing, and this role may not make it: have "CREATE ROLE '
                    'daybook_wake NOLOGIN" run by one that may, then "SELECT grant_daybook_roles()" by the owner of the '
                    'tables' USING ERRCODE = 'insufficient_privilege';
        END;
    END IF;
    PERFORM grant_daybook_roles();
END
$$;

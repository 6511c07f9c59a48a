-- When a user is looked at next by whoever sends silent pushes. `due_at` (microseconds since 1970) is a lower bound,
-- kept lazily: a row is made and brought forward when a missing condition comes true (a first or a renewed
-- connection of an on-device source), and not moved by every push, so that a push costs no index update.
-- Written under the account's lock only.
CREATE TABLE wake_schedule (
    user_id uuid PRIMARY KEY,
    due_at bigint NOT NULL,
    last_wake_at bigint NOT NULL DEFAULT 0,
    -- Wakes in a row that no push of an on-device source has answered.
    unanswered smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 90);

CREATE INDEX wake_schedule_due ON wake_schedule (due_at);

-- As for every table of a user's own: row security, and the workers' grants where their role exists.
ALTER TABLE wake_schedule ENABLE ROW LEVEL SECURITY;

ALTER FUNCTION grant_daybook_roles() RENAME TO grant_daybook_roles_2;

-- What the step before grants, and this table.
CREATE FUNCTION grant_daybook_roles() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM grant_daybook_roles_2();
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_worker') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON wake_schedule TO daybook_worker;
        IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = 'wake_schedule'::regclass AND polname = 'every_row') THEN
            CREATE POLICY every_row ON wake_schedule TO daybook_worker USING (true) WITH CHECK (true);
        END IF;
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION grant_daybook_roles() FROM PUBLIC;
SELECT grant_daybook_roles();

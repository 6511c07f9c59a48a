-- What operators decided about dead letters. A letter is named by where the record stood in its own log and by its
-- attempt, so that one that was written twice is one here too. No key and no value: nothing of a person.
CREATE TABLE dead_letter_marks (
    cluster_id text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    record_offset bigint NOT NULL,
    -- The record's append time, in milliseconds since 1970: a log that was made anew has the same offsets.
    appended_at bigint NOT NULL,
    attempt integer NOT NULL,
    state text NOT NULL CHECK (state IN ('redriven', 'dropped')),
    -- Why it was dropped, in the operator's words.
    reason text NOT NULL DEFAULT '',
    -- In microseconds since 1970.
    marked_at bigint NOT NULL,
    PRIMARY KEY (topic, partition, record_offset, cluster_id, appended_at, attempt)
);

-- Long work of the operator's tools (recomputing, replaying), so that it can be stopped and goes on where it was.
CREATE TABLE tool_runs (
    run text PRIMARY KEY,
    kind text NOT NULL,
    -- What was asked for, as the tool writes it: only a run that asks for the same is continued.
    request text NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint
);

CREATE TABLE tool_run_parts (
    run text NOT NULL REFERENCES tool_runs ON DELETE CASCADE,
    part text NOT NULL,
    -- The next place to be worked on: an offset, or a user.
    position text NOT NULL,
    finished boolean NOT NULL DEFAULT false,
    -- What was counted so far, by the tool's own order.
    counts bigint[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (run, part)
) WITH (fillfactor = 50);

ALTER FUNCTION grant_daybook_roles() RENAME TO grant_daybook_roles_6;

-- What the step before grants, and the tools' tables. Raising the rule version stays with the owner of the tables.
CREATE FUNCTION grant_daybook_roles() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM grant_daybook_roles_6();
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_worker') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON dead_letter_marks, tool_runs, tool_run_parts TO daybook_worker;
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION grant_daybook_roles() FROM PUBLIC;
SELECT grant_daybook_roles();

-- The wake worker's role may write only what the worker writes. What operators do (pause, resume, forget stops) goes to
-- the role that their tools use for all else.

ALTER FUNCTION grant_daybook_roles() RENAME TO grant_daybook_roles_8;

-- What the steps before grant, less what nobody needs.
CREATE FUNCTION grant_daybook_roles() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM grant_daybook_roles_8();
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_wake') THEN
        REVOKE UPDATE ON device_tokens, push_sends, wake_schedule, wake_control, partition_counts, push_stops,
            provider_tokens FROM daybook_wake;
        REVOKE DELETE ON push_stops FROM daybook_wake;
        -- Of a token only that a push server called it dead; what phones registered stays theirs.
        GRANT UPDATE (deactivated_at) ON device_tokens TO daybook_wake;
        -- How a wake ended; that it was answered is the batch's to say.
        GRANT UPDATE (outcome, concluded_at) ON push_sends TO daybook_wake;
        GRANT UPDATE (due_at, last_wake_at, previous_wake_at, unanswered, struck_at, claim, claimed_until)
            ON wake_schedule TO daybook_wake;
        GRANT UPDATE (jwt, issued_at, signer, paused_until) ON provider_tokens TO daybook_wake;
        -- All but an operator's pause and what tells that one resumed.
        EXECUTE (
            SELECT format('GRANT UPDATE (%s) ON wake_control TO daybook_wake', string_agg(quote_ident(attname), ', '))
            FROM pg_attribute
            WHERE attrelid = 'wake_control'::regclass AND attnum > 0 AND NOT attisdropped
                AND attname NOT IN ('only_row', 'paused_at', 'resumes')
        );
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_worker') THEN
        -- For `daybook wake`.
        GRANT SELECT, INSERT, UPDATE (paused_at, resumes) ON wake_control TO daybook_worker;
        GRANT SELECT, DELETE ON push_stops TO daybook_worker;
        GRANT SELECT ON partition_counts, wakes TO daybook_worker;
        -- Not the token itself.
        GRANT SELECT (key_id, issued_at, paused_until) ON provider_tokens TO daybook_worker;
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION grant_daybook_roles() FROM PUBLIC;
SELECT grant_daybook_roles();

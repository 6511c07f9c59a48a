-- Device tokens, as registered by apps: the one table that spans users, so it is placed by the token's hash. An entry
-- is two registers that only grow: a user's newest registration of a token, and their newest withdrawal of it. Who owns
-- a token, and whether it is live, follows from all of its entries (see `live_device_tokens`).
-- Written under the lock of the entry's account; only the deactivation, and the clearing of what another user's newer
-- registration has outdated, need no more than the row's own.
CREATE TABLE device_tokens (
    -- SHA-256 of the token.
    token_hash bytea NOT NULL CHECK (octet_length(token_hash) = 32),
    user_id uuid NOT NULL,
    -- murmur2 of the hash's hex mod 4096, as of every key: the unit of placement.
    bucket smallint NOT NULL,
    -- Versions; 0 for none.
    registered_version bigint NOT NULL DEFAULT 0,
    withdrawn_version bigint NOT NULL DEFAULT 0,
    -- What Apple or Google said when they called the token dead, in microseconds since 1970; 0 for never. It only
    -- grows, and counts for every registration of the token that is not newer.
    deactivated_at bigint NOT NULL DEFAULT 0,
    -- From here on, of the newest registration; null where the user has withdrawn it or deleted the account, or another
    -- user has registered the token since: only hash and versions are left then.
    token text,
    platform text,
    environment text,
    app_id text,
    app_version text,
    os_version text,
    time_zone text,
    PRIMARY KEY (token_hash, user_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.2);

CREATE INDEX device_tokens_of_user ON device_tokens (user_id);

-- Dead entries, by age, for dropping them when the topic can't bring them back any more.
CREATE INDEX device_tokens_dead ON device_tokens (greatest(registered_version, withdrawn_version))
    WHERE token IS NULL OR deactivated_at > 0;

-- The tokens that a push may be sent to, each with its only owner: the user of its newest registration, if that is
-- newer than this user's withdrawal and than the token's deactivation, and not below the deletion of the account.
CREATE VIEW live_device_tokens WITH (security_invoker = true) AS
SELECT held.user_id, held.token_hash, held.registered_version, held.token, held.platform, held.environment,
    held.app_id, held.app_version, held.os_version, held.time_zone
FROM device_tokens AS held
JOIN accounts ON accounts.user_id = held.user_id
WHERE held.token IS NOT NULL
    AND held.registered_version > held.withdrawn_version
    AND held.registered_version >= accounts.deleted_version
    AND NOT EXISTS (
        SELECT FROM device_tokens AS every
        WHERE every.token_hash = held.token_hash
            AND ((every.registered_version, every.user_id) > (held.registered_version, held.user_id)
                -- A version's time: microseconds since 2020 above twelve bits.
                OR every.deactivated_at >= (held.registered_version >> 12) + 1577836800000000)
    );

ALTER TABLE device_tokens ENABLE ROW LEVEL SECURITY;

ALTER FUNCTION grant_daybook_roles() RENAME TO grant_daybook_roles_3;

-- What the steps before grant, and this table.
CREATE FUNCTION grant_daybook_roles() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM grant_daybook_roles_3();
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_worker') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON device_tokens TO daybook_worker;
        GRANT SELECT ON live_device_tokens TO daybook_worker;
        IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = 'device_tokens'::regclass AND polname = 'every_row') THEN
            CREATE POLICY every_row ON device_tokens TO daybook_worker USING (true) WITH CHECK (true);
        END IF;
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION grant_daybook_roles() FROM PUBLIC;
SELECT grant_daybook_roles();

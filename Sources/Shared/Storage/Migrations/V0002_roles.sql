-- Two roles without login, of which login roles are made members: daybook_worker, with the least that the workers and
-- the operator's tools need, and daybook_reader, which sees one user's rows. The tables' owner is bound by neither.

-- Where row security is on, a role that is neither the owner nor named in a policy sees nothing.
ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
ALTER TABLE account_sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE connections ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_days ENABLE ROW LEVEL SECURITY;
ALTER TABLE canonical_days ENABLE ROW LEVEL SECURITY;

-- Every push updates its connection's row, in place (no index has a column that changes): the versions of it that a
-- page can't reclaim by itself should not wait until they are a fifth of the table.
ALTER TABLE connections SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.2);
-- A few rows that every batch updates. Cutting off the file's end would need a lock that every batch waits for.
ALTER TABLE consumer_offsets SET (vacuum_truncate = false);

-- Drops one partition of a month that the retention floor has passed; false where there is none or the month is kept.
-- For workers that do not own the tables: the owner detaches without a lock that batches wait for, which no function
-- can. So this one gives up after a second, and is tried again later.
CREATE FUNCTION drop_month(parent text, first_day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '1s' AS $$
DECLARE
    month date := date_trunc('month', first_day)::date;
    child text := parent || '_' || to_char(month, '"y"YYYY"m"MM');
    detaching boolean;
BEGIN
    IF parent NOT IN ('source_days', 'canonical_days') OR month >= (SELECT retention_floor FROM control) THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('daybook.months', 0));
    SELECT inhdetachpending INTO detaching FROM pg_inherits
    WHERE inhparent = to_regclass(parent) AND inhrelid = to_regclass(child);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I %s', parent, child,
        CASE WHEN detaching THEN 'FINALIZE' ELSE '' END);
    EXECUTE format('DROP TABLE %I', child);
    RETURN true;
END
$$;

-- Makes policies and grants for those of both roles that exist. To be called again by the owner after a role was made
-- that the migration had no right to make. Only parents are granted: what is granted on a partition goes round the row
-- security of its parent.
CREATE FUNCTION grant_daybook_roles() RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    guarded text;
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_reader') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO daybook_reader', current_schema());
        GRANT SELECT ON accounts, account_sources, connections, source_days, canonical_days, canonical_values, sources
            TO daybook_reader;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_worker') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO daybook_worker', current_schema());
        GRANT SELECT ON schema_migrations, control, sources, canonical_values TO daybook_worker;
        GRANT UPDATE (retention_floor) ON control TO daybook_worker;
        GRANT SELECT, INSERT, UPDATE ON consumer_offsets, accounts, account_sources TO daybook_worker;
        GRANT SELECT, INSERT, UPDATE, DELETE ON connections, source_days, canonical_days TO daybook_worker;
        GRANT EXECUTE ON FUNCTION ensure_month(date), drop_month(text, date) TO daybook_worker;
    END IF;
    FOREACH guarded IN ARRAY
        ARRAY['accounts', 'account_sources', 'connections', 'source_days', 'canonical_days']
    LOOP
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_reader')
            AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = guarded::regclass AND polname = 'own_rows')
        THEN
            -- Once a statement, not once a row; a setting that was reset is the empty text.
            EXECUTE format('CREATE POLICY own_rows ON %I FOR SELECT TO daybook_reader '
                'USING (user_id = (SELECT nullif(current_setting(''daybook.user_id'', true), '''')::uuid))', guarded);
        END IF;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'daybook_worker')
            AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = guarded::regclass AND polname = 'every_row')
        THEN
            EXECUTE format('CREATE POLICY every_row ON %I TO daybook_worker USING (true) WITH CHECK (true)', guarded);
        END IF;
    END LOOP;
END
$$;

DO $$
DECLARE
    one text;
BEGIN
    -- They run with the owner's rights: for nobody but the workers, and not to be led astray by a temporary table.
    REVOKE EXECUTE ON FUNCTION ensure_month(date), drop_month(text, date), grant_daybook_roles() FROM PUBLIC;
    EXECUTE format('ALTER FUNCTION ensure_month(date) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION drop_month(text, date) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION grant_daybook_roles() SET search_path = %I, pg_temp', current_schema());
    FOREACH one IN ARRAY ARRAY['daybook_reader', 'daybook_worker'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = one);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', one);
        EXCEPTION
            -- Roles belong to the whole server: another database's migration was faster.
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE WARNING 'the role % is missing, and this role may not make it: have "CREATE ROLE % NOLOGIN" run '
                    'by one that may, then "SELECT grant_daybook_roles()" by the owner of the tables', one, one
                    USING ERRCODE = 'insufficient_privilege';
        END;
    END LOOP;
    PERFORM grant_daybook_roles();
END
$$;

-- The oldest build that the schema allows, beside what every batch reads anyway, so that a worker which runs notices it.
ALTER TABLE control ADD COLUMN oldest_build integer NOT NULL DEFAULT 1;
UPDATE control SET oldest_build = (SELECT max(oldest_build) FROM schema_migrations);

CREATE FUNCTION note_oldest_build() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE control SET oldest_build = NEW.oldest_build WHERE oldest_build < NEW.oldest_build;
    RETURN NULL;
END
$$;

CREATE TRIGGER note_oldest_build AFTER INSERT OR UPDATE ON schema_migrations
FOR EACH ROW EXECUTE FUNCTION note_oldest_build();

-- Records before this offset, that were lost before they were read, are counted in lost_records: a partition that stands
-- still over a gap is claimed again and again.
ALTER TABLE consumer_offsets ADD COLUMN lost_through bigint NOT NULL DEFAULT 0;

-- Also a month that was detached and not dropped: whoever did so ended in between, and nothing lists it any more.
CREATE OR REPLACE FUNCTION drop_month(parent text, first_day date) RETURNS boolean
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
    IF FOUND THEN
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I %s', parent, child,
            CASE WHEN detaching THEN 'FINALIZE' ELSE '' END);
    ELSIF to_regclass(child) IS NULL OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(child)) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I', child);
    RETURN true;
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION drop_month(text, date) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION note_oldest_build() SET search_path = %I, pg_temp', current_schema());
END
$$;
REVOKE EXECUTE ON FUNCTION note_oldest_build() FROM PUBLIC;

-- One row per user each, and updated here and there (open wakes, deletions, pins): a fifth of millions is long to wait
-- for. What has few rows, or rows that are written once and soon complete, does well with the defaults.
ALTER TABLE accounts SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.2);
ALTER TABLE account_sources SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.2);

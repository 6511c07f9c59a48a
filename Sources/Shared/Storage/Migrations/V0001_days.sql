-- Everything is keyed by user first, and nothing spans users, so that ranges of users can move to databases of
-- their own. Times are microseconds since 1970 (bigint) where they take part in versions, else timestamptz.

CREATE TABLE control (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    rule_version integer NOT NULL,
    window_format smallint NOT NULL,
    -- Days before it are gone, and stay away: it only moves up.
    retention_floor date NOT NULL
);

-- Where the writers of one user meet: whoever writes anything of a user locks this row first.
CREATE TABLE accounts (
    user_id uuid PRIMARY KEY,
    -- murmur2 of the user's id mod 4096: the unit of placement.
    bucket smallint NOT NULL,
    -- Watermark of the newest deletion, 0 for none: what has a smaller version is gone and stays away.
    deleted_version bigint NOT NULL DEFAULT 0,
    -- Pins, nine or ten bytes each (Storage/PreferencesCodec).
    preferences bytea
) WITH (fillfactor = 90);

-- Per source: both versions only grow. A row may exist where no connection does.
CREATE TABLE account_sources (
    user_id uuid NOT NULL,
    source smallint NOT NULL,
    deleted_version bigint NOT NULL DEFAULT 0,
    disconnected_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, source)
) WITH (fillfactor = 90);

CREATE TABLE connections (
    user_id uuid NOT NULL,
    source smallint NOT NULL,
    origin text NOT NULL,
    -- The largest received-at of its records, in microseconds since 1970; moved even by records whose readings are
    -- all suppressed.
    last_push_at bigint NOT NULL,
    -- When a value last changed; informative, no part of what the tables mean.
    last_data_at bigint NOT NULL DEFAULT 0,
    -- What the newest unchanged readings of the recent days said (format: control.window_format); null until it is
    -- used.
    recent_window bytea,
    PRIMARY KEY (user_id, source, origin)
) WITH (fillfactor = 70);

-- One row per user, day, source and origin: a last-writer-wins register per metric.
CREATE TABLE source_days (
    user_id uuid NOT NULL,
    day date NOT NULL,
    source smallint NOT NULL,
    -- Metrics (bits) whose value was read after the day had ended for the phone.
    closed integer NOT NULL,
    -- The version of most of the row's metrics; `versions` holds the others, nine bytes each
    -- (Storage/VersionsCodec), and is null where all agree.
    version bigint NOT NULL,
    origin text NOT NULL,
    versions bytea,
    steps real,
    active_energy_kcal real,
    basal_energy_kcal real,
    total_energy_kcal real,
    exercise_minutes real,
    active_minutes real,
    mindful_minutes real,
    sleep_minutes real,
    nap_minutes real,
    resting_heart_rate_bpm real,
    average_heart_rate_bpm real,
    hrv_sdnn_ms real,
    hrv_rmssd_ms real,
    distance_m real,
    flights_climbed real,
    workout_count real,
    water_ml real,
    spo2_percent real,
    activity_score real,
    PRIMARY KEY (user_id, day, source, origin)
) PARTITION BY RANGE (day);

-- One row per user and day: what the day counts as, a pure function of its source rows and the preferences.
CREATE TABLE canonical_days (
    user_id uuid NOT NULL,
    day date NOT NULL,
    rule_version integer NOT NULL,
    final boolean NOT NULL,
    -- The number of the winning source for each value that is not null, in the order of the columns.
    winner_sources bytea NOT NULL,
    -- The winning origins in the same order; null where all are the empty one.
    winner_origins text[],
    steps real,
    active_energy_kcal real,
    basal_energy_kcal real,
    total_energy_kcal real,
    exercise_minutes real,
    active_minutes real,
    mindful_minutes real,
    sleep_minutes real,
    nap_minutes real,
    resting_heart_rate_bpm real,
    average_heart_rate_bpm real,
    hrv_sdnn_ms real,
    hrv_rmssd_ms real,
    distance_m real,
    flights_climbed real,
    workout_count real,
    water_ml real,
    spo2_percent real,
    activity_score real,
    PRIMARY KEY (user_id, day)
) PARTITION BY RANGE (day);

-- The aggregator's positions, moved in the transaction that applies the records.
CREATE TABLE consumer_offsets (
    topic text NOT NULL,
    partition integer NOT NULL,
    cluster_id text NOT NULL,
    owner uuid NOT NULL,
    epoch bigint NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    -- Digest of whatever record was at next_offset - 1; null proves nothing.
    last_record bigint,
    -- The newest received-at applied, in microseconds since 1970; heartbeats move it too.
    applied_through bigint NOT NULL DEFAULT 0,
    -- Which of the last records were dead letters, newest first (Aggregation/Brake); null before the first one.
    brake_recent bytea,
    -- When the brake stopped the partition, in microseconds since 1970; null while it runs.
    braked_at bigint,
    -- Records that were lost to retention before they could be read.
    lost_records bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

CREATE TABLE sources (
    source smallint PRIMARY KEY,
    name text NOT NULL UNIQUE
);
INSERT INTO sources (source, name) VALUES
    (1, 'apple_health'), (2, 'health_connect'), (3, 'oura'), (4, 'whoop'), (5, 'garmin'), (6, 'manual'),
    (7, 'checkin');

INSERT INTO control (rule_version, window_format, retention_floor)
VALUES (1, 1, date_trunc('month', now() - interval '400 days')::date);

-- Makes the month's partitions of both tables if they are missing; never below the retention floor. Returns whether
-- they exist now. It runs with its owner's rights, so that a worker need not own the tables.
CREATE FUNCTION ensure_month(first_day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    month date := date_trunc('month', first_day)::date;
    suffix text := to_char(month, '"y"YYYY"m"MM');
    parent text;
BEGIN
    IF month < (SELECT retention_floor FROM control) THEN
        RETURN false;
    END IF;
    -- Two workers that need the same month wait for each other here, not on each other's tables.
    PERFORM pg_advisory_xact_lock(hashtextextended('daybook.months', 0));
    FOREACH parent IN ARRAY ARRAY['source_days', 'canonical_days'] LOOP
        IF to_regclass(parent || '_' || suffix) IS NULL THEN
            -- Made apart and attached: that takes a lock on the parent which running batches do not wait for.
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = 90, '
                'autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)',
                parent || '_' || suffix, parent);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                parent, parent || '_' || suffix, month, (month + interval '1 month')::date);
        END IF;
    END LOOP;
    RETURN true;
END
$$;

-- For people who read: values as rows, with whose each is. The reader's own rights count, row security among them.
CREATE VIEW canonical_values WITH (security_invoker = true) AS
SELECT day.user_id, day.day, value.metric, value.value,
    sources.name AS source, COALESCE(day.winner_origins[value.place], '') AS origin, day.final
FROM canonical_days AS day
CROSS JOIN LATERAL (
    SELECT metric, value, row_number() OVER (ORDER BY number) AS place
    FROM (VALUES
        (0, 'steps', day.steps), (1, 'active_energy_kcal', day.active_energy_kcal),
        (2, 'basal_energy_kcal', day.basal_energy_kcal), (3, 'total_energy_kcal', day.total_energy_kcal),
        (4, 'exercise_minutes', day.exercise_minutes), (5, 'active_minutes', day.active_minutes),
        (6, 'mindful_minutes', day.mindful_minutes), (7, 'sleep_minutes', day.sleep_minutes),
        (8, 'nap_minutes', day.nap_minutes), (9, 'resting_heart_rate_bpm', day.resting_heart_rate_bpm),
        (10, 'average_heart_rate_bpm', day.average_heart_rate_bpm), (11, 'hrv_sdnn_ms', day.hrv_sdnn_ms),
        (12, 'hrv_rmssd_ms', day.hrv_rmssd_ms), (13, 'distance_m', day.distance_m),
        (14, 'flights_climbed', day.flights_climbed), (15, 'workout_count', day.workout_count),
        (16, 'water_ml', day.water_ml), (17, 'spo2_percent', day.spo2_percent),
        (18, 'activity_score', day.activity_score)
    ) AS every (number, metric, value)
    WHERE value IS NOT NULL
) AS value
JOIN sources ON sources.source = get_byte(day.winner_sources, value.place::integer - 1);

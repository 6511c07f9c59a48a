internal import Domain

/// The statements of a batch. Each is prepared once a session, and their plans are generic ones: the session offers
/// the planner no other way than the indexes (`BatchStore.sessionSettings`).
enum BatchStatements {
    /// $1 topic, $2 partition, $3 owner, $4 epoch, $5 position, $6 next, $7 last record, $8 applied through,
    /// $9 brake, $10 braked at.
    static let fence = """
        UPDATE consumer_offsets
        SET next_offset = $6::int8, last_record = $7::int8,
            applied_through = greatest(applied_through, $8::int8), brake_recent = $9::bytea, braked_at = $10::int8
        WHERE topic = $1::text AND partition = $2::int4 AND owner = $3::uuid AND epoch = $4::int8
            AND next_offset = $5::int8
        """

    /// $1 users (sorted), $2 buckets.
    static let createAccounts = """
        INSERT INTO accounts (user_id, bucket)
        SELECT new.user_id, new.bucket
        FROM unnest($1::uuid[], $2::int2[]) AS new (user_id, bucket)
        WHERE NOT EXISTS (SELECT FROM accounts WHERE accounts.user_id = new.user_id)
        ON CONFLICT (user_id) DO NOTHING
        """

    /// As `BatchStore.read(accounts:into:)` takes them.
    static let accountColumns = "user_id, deleted_version, preferences, open_wake_at"

    /// Returns columns of `accounts` itself only: anything joined would be as old as the statement.
    static let lockAccounts = """
        SELECT \(accountColumns) FROM accounts
        WHERE user_id = ANY ($1::uuid[]) ORDER BY user_id FOR NO KEY UPDATE
        """

    static let control = "SELECT rule_version, window_format, retention_floor, oldest_build FROM control"

    /// $1 users.
    static let accountSources = """
        SELECT user_id, source, deleted_version, disconnected_at FROM account_sources
        WHERE user_id = ANY ($1::uuid[])
        """

    /// $1 users.
    static let connections = """
        SELECT user_id, source, origin, last_push_at, last_data_at, recent_window, ctid FROM connections
        WHERE user_id = ANY ($1::uuid[])
        """

    /// $1 users, $2 first days, $3 last days.
    static let readDays = """
        SELECT \(DayRowReader.sourceColumns), row.ctid
        FROM unnest($1::uuid[], $2::date[], $3::date[]) AS range (user_id, first_day, last_day)
        CROSS JOIN LATERAL (
            SELECT ctid, * FROM source_days
            WHERE source_days.user_id = range.user_id
                AND source_days.day BETWEEN range.first_day AND range.last_day
        ) AS row
        """

    /// The canonical days of the same ranges: only which there are, and where.
    static let findCanonicalDays = """
        SELECT row.user_id, row.day, row.ctid
        FROM unnest($1::uuid[], $2::date[], $3::date[]) AS range (user_id, first_day, last_day)
        CROSS JOIN LATERAL (
            SELECT ctid, user_id, day FROM canonical_days
            WHERE canonical_days.user_id = range.user_id
                AND canonical_days.day BETWEEN range.first_day AND range.last_day
        ) AS row
        """

    // Which rows are there, and where, was read under the account's lock, and every writer of a user holds it. So a new
    // row is simply inserted, at half of what ON CONFLICT costs, and a stored one is updated where it lies, without a
    // look into an index; the day in the condition finds the partition. The runner compares the numbers of rows.

    /// $1 users, $2 days, $3 sources, $4 origins, $5 closed, $6 version, $7 versions, $8… values.
    static let insertSourceDays = """
        INSERT INTO source_days (user_id, day, source, origin, closed, version, versions, \(MetricColumns.list))
        SELECT unnest($1::uuid[]), unnest($2::date[]), unnest($3::int2[]), unnest($4::text[]), unnest($5::int4[]),
            unnest($6::int8[]), unnest($7::bytea[]), \(MetricColumns.unnests(from: 8))
        """

    /// $1 places, $2 days, $3 closed, $4 version, $5 versions, $6 users, $7… values. With the user in the condition a
    /// plan that was made while a partition was empty, and goes by its index, is right and quick too.
    static let updateSourceDays = """
        UPDATE source_days AS row
        SET closed = new.closed, version = new.version, versions = new.versions, \(MetricColumns.newAssignments)
        FROM (
            SELECT unnest($1::tid[]) AS place, unnest($2::date[]) AS day, unnest($3::int4[]) AS closed,
                unnest($4::int8[]) AS version, unnest($5::bytea[]) AS versions, unnest($6::uuid[]) AS user_id,
                \(MetricColumns.namedUnnests(from: 7))
        ) AS new
        WHERE row.ctid = new.place AND row.day = new.day AND row.user_id = new.user_id
        """

    /// $1 users, $2 days, $3 rule version, $4 final, $5 winning sources, $6 winning origins (each as the text of an
    /// array), $7… values.
    static let insertCanonicalDays = """
        INSERT INTO canonical_days
            (user_id, day, rule_version, final, winner_sources, winner_origins, \(MetricColumns.list))
        SELECT unnest($1::uuid[]), unnest($2::date[]), $3::int4, unnest($4::bool[]), unnest($5::bytea[]),
            unnest($6::text[])::text[], \(MetricColumns.unnests(from: 7))
        """

    /// $1 places, $2 days, $3 rule version, $4 final, $5 winning sources, $6 winning origins, $7 users, $8… values.
    static let updateCanonicalDays = """
        UPDATE canonical_days AS row
        SET rule_version = $3::int4, final = new.final, winner_sources = new.winner_sources,
            winner_origins = new.winner_origins, \(MetricColumns.newAssignments)
        FROM (
            SELECT unnest($1::tid[]) AS place, unnest($2::date[]) AS day, unnest($4::bool[]) AS final,
                unnest($5::bytea[]) AS winner_sources, unnest($6::text[])::text[] AS winner_origins,
                unnest($7::uuid[]) AS user_id, \(MetricColumns.namedUnnests(from: 8))
        ) AS new
        WHERE row.ctid = new.place AND row.day = new.day AND row.user_id = new.user_id
        """

    /// Ranges of days: $1 users, $2 first days, $3 last days, $4 the days whose distance is the place in the arrays by
    /// day, $5 sources, $6 origins, $7 versions, $8 winning sources, $9 winning origins (each as the text of an array).
    /// Arrays by day: $10 closed, $11 how many values are stored, $12 how many come, $13 final, $15… values, NaN for none.
    /// $14 rule version.
    ///
    /// Returns the places of the source rows that were replaced, their number, and that of the canonical days: these are
    /// written whether or not their row was.
    static let replaceDays = """
        WITH replaced AS (
            UPDATE source_days AS row
            SET closed = ($10::int4[])[row.day - range.base], version = range.version,
                \(MetricColumns.elementAssignments(from: 15, at: "row.day - range.base"))
            FROM unnest($1::uuid[], $2::date[], $3::date[], $4::date[], $5::int2[], $6::text[], $7::int8[])
                AS range (user_id, first_day, last_day, base, source, origin, version)
            WHERE row.user_id = range.user_id AND row.day BETWEEN range.first_day AND range.last_day
                AND row.source = range.source AND row.origin = range.origin
                AND row.version < range.version AND row.versions IS NULL
                AND num_nonnulls(\(MetricColumns.rowNames)) = ($11::int4[])[row.day - range.base]
            RETURNING row.day - range.base AS place
        ), canonical AS (
            UPDATE canonical_days AS row
            SET rule_version = $14::int4, final = ($13::bool[])[row.day - range.base],
                winner_sources = substr(range.winners, 1, ($12::int4[])[row.day - range.base]),
                winner_origins = (range.winner_origins::text[])[1:($12::int4[])[row.day - range.base]],
                \(MetricColumns.elementAssignments(from: 15, at: "row.day - range.base"))
            FROM unnest($1::uuid[], $2::date[], $3::date[], $4::date[], $8::bytea[], $9::text[])
                AS range (user_id, first_day, last_day, base, winners, winner_origins)
            WHERE row.user_id = range.user_id AND row.day BETWEEN range.first_day AND range.last_day
            RETURNING 1
        )
        SELECT array_agg(place), count(*)::int4, (SELECT count(*)::int4 FROM canonical) FROM replaced
        """

    /// $1 users, $2 days, $3 sources, $4 origins.
    static let deleteSourceDays = """
        DELETE FROM source_days AS row
        USING unnest($1::uuid[], $2::date[], $3::int2[], $4::text[]) AS gone (user_id, day, source, origin)
        WHERE row.user_id = gone.user_id AND row.day = gone.day AND row.source = gone.source
            AND row.origin = gone.origin
        """

    static let deleteCanonicalDays = """
        DELETE FROM canonical_days AS row USING unnest($1::uuid[], $2::date[]) AS gone (user_id, day)
        WHERE row.user_id = gone.user_id AND row.day = gone.day
        """

    /// $1 users, $2 sources, $3 origins, $4 last push, $5 last data, $6 windows.
    static let insertConnections = """
        INSERT INTO connections (user_id, source, origin, last_push_at, last_data_at, recent_window)
        SELECT unnest($1::uuid[]), unnest($2::int2[]), unnest($3::text[]), unnest($4::int8[]), unnest($5::int8[]),
            unnest($6::bytea[])
        """

    /// $1 places, $2 users, $3 sources, $4 origins, $5 last push, $6 last data, $7 windows. The place alone would do
    /// under the account's lock; a window in another's row would be believed.
    static let updateConnections = """
        UPDATE connections AS row
        SET last_push_at = new.last_push_at, last_data_at = new.last_data_at, recent_window = new.recent_window
        FROM (
            SELECT unnest($1::tid[]) AS place, unnest($2::uuid[]) AS user_id, unnest($3::int2[]) AS source,
                unnest($4::text[]) AS origin, unnest($5::int8[]) AS last_push_at, unnest($6::int8[]) AS last_data_at,
                unnest($7::bytea[]) AS recent_window
        ) AS new
        WHERE row.ctid = new.place AND row.user_id = new.user_id AND row.source = new.source
            AND row.origin = new.origin
        """

    /// $1 users, $2 sources, $3 origins.
    static let deleteConnections = """
        DELETE FROM connections AS row
        USING unnest($1::uuid[], $2::int2[], $3::text[]) AS gone (user_id, source, origin)
        WHERE row.user_id = gone.user_id AND row.source = gone.source AND row.origin = gone.origin
        """

    /// $1 users, $2 sources, $3 deletion watermarks, $4 disconnects.
    static let upsertAccountSources = """
        INSERT INTO account_sources (user_id, source, deleted_version, disconnected_at)
        SELECT unnest($1::uuid[]), unnest($2::int2[]), unnest($3::int8[]), unnest($4::int8[])
        ON CONFLICT (user_id, source) DO UPDATE
        SET deleted_version = excluded.deleted_version, disconnected_at = excluded.disconnected_at
        """

    /// $1 users, $2 when they may be due. A row is only ever brought forward.
    static let upsertWakes = """
        INSERT INTO wake_schedule AS held (user_id, due_at)
        SELECT unnest($1::uuid[]), unnest($2::int8[])
        ON CONFLICT (user_id) DO UPDATE SET due_at = excluded.due_at WHERE excluded.due_at < held.due_at
        """

    /// $1 users.
    static let deleteWakes = "DELETE FROM wake_schedule WHERE user_id = ANY ($1::uuid[])"

    /// $1 users.
    static let deletePushSends = "DELETE FROM push_sends WHERE user_id = ANY ($1::uuid[])"

    /// $1 users, $2 when their accounts were deleted. Wakes of before go; the oldest of after that is open stays so.
    static let clearPushSends = """
        WITH erased AS (
            SELECT unnest($1::uuid[]) AS user_id, unnest($2::int8[]) AS before
        ), gone AS (
            DELETE FROM push_sends USING erased
            WHERE push_sends.user_id = erased.user_id AND push_sends.wake_at < erased.before
        )
        UPDATE accounts SET open_wake_at = coalesce((
                SELECT min(wake_at) FROM push_sends
                WHERE push_sends.user_id = erased.user_id AND wake_at >= erased.before AND answered_at IS NULL
                    AND (outcome IS NULL OR outcome IN ('accepted', 'unknown'))
            ), 0)
        FROM erased
        WHERE accounts.user_id = erased.user_id AND open_wake_at > 0 AND open_wake_at < erased.before
        """

    /// $1 users, $2 deletion watermarks, $3 preferences.
    static let updateAccounts = """
        UPDATE accounts SET deleted_version = new.deleted_version, preferences = new.preferences
        FROM unnest($1::uuid[], $2::int8[], $3::bytea[]) AS new (user_id, deleted_version, preferences)
        WHERE accounts.user_id = new.user_id
        """

    /// $1 token hashes.
    static let readDevices = "SELECT \(DeviceRowReader.columns) FROM device_tokens WHERE token_hash = ANY ($1::bytea[])"

    /// $1 token hashes, $2 users, $3 buckets, $4 registered, $5 withdrawn, $6… the registration. When a token was
    /// deactivated is nobody's but the sender's to write.
    static let upsertDevices = """
        INSERT INTO device_tokens
            (token_hash, user_id, bucket, registered_version, withdrawn_version, \(DeviceRowReader.texts))
        SELECT unnest($1::bytea[]), unnest($2::uuid[]), unnest($3::int2[]), unnest($4::int8[]), unnest($5::int8[]),
            unnest($6::text[]), unnest($7::text[]), unnest($8::text[]), unnest($9::text[]), unnest($10::text[]),
            unnest($11::text[]), unnest($12::text[])
        ON CONFLICT (token_hash, user_id) DO UPDATE
        SET registered_version = excluded.registered_version, withdrawn_version = excluded.withdrawn_version,
            \(DeviceRowReader.textNames.map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
        """

    /// $1 token hashes, $2 users, $3 newer versions. Their users' accounts are not locked, so it is said what has to be
    /// true still.
    static let clearOutdatedDevices = """
        UPDATE device_tokens AS held SET \(DeviceRowReader.cleared)
        FROM unnest($1::bytea[], $2::uuid[], $3::int8[]) AS outdated (token_hash, user_id, version)
        WHERE held.token_hash = outdated.token_hash AND held.user_id = outdated.user_id
            AND held.registered_version <= outdated.version AND held.token IS NOT NULL
        """

    /// $1 users, $2 deletion watermarks. In the order of their keys, as whoever writes tokens of many users does.
    static let clearDeletedDevices = """
        UPDATE device_tokens AS held SET \(DeviceRowReader.cleared)
        FROM (
            SELECT every.token_hash, every.user_id
            FROM unnest($1::uuid[], $2::int8[]) AS deleted (user_id, version)
            JOIN device_tokens AS every ON every.user_id = deleted.user_id
            WHERE every.registered_version < deleted.version AND every.token IS NOT NULL
            ORDER BY every.token_hash, every.user_id
            FOR NO KEY UPDATE OF every
        ) AS gone
        WHERE held.token_hash = gone.token_hash AND held.user_id = gone.user_id
        """
}

internal import Domain
internal import Postgres

/// The arrays behind a batch's statements, kept from batch to batch so that their memory is.
struct BatchArrays {
    private(set) var users = PostgresArray(of: .uuid)
    private(set) var buckets = PostgresArray(of: .int2)
    private var lastDays = PostgresArray(of: .date)
    private var days = PostgresArray(of: .date)
    private var sources = PostgresArray(of: .int2)
    private var origins = PostgresArray(of: .text)
    private var closed = PostgresArray(of: .int4)
    private var longs = PostgresArray(of: .int8)
    private var moreLongs = PostgresArray(of: .int8)
    private var blobs = PostgresArray(of: .bytea)
    private var flags = PostgresArray(of: .bool)
    private var values = (0..<Metric.count).map { _ in PostgresArray(of: .float4) }

    mutating func load(users touched: [TouchedUser]) {
        users.reset()
        buckets.reset()
        for user in touched {
            users.append(uuidHigh: user.user.high, low: user.user.low)
            buckets.append(int2: user.bucket)
        }
    }

    mutating func load(ranges: [DayRange], into parameters: inout PostgresParameters) {
        users.reset()
        days.reset()
        lastDays.reset()
        for range in ranges {
            users.append(uuidHigh: range.user.high, low: range.user.low)
            days.append(date: range.first.daysSinceEpoch)
            lastDays.append(date: range.last.daysSinceEpoch)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(days)
        parameters.append(lastDays)
    }

    mutating func load(source writes: [BatchWrites.SourceWrite], into parameters: inout PostgresParameters) {
        resetKeys()
        closed.reset()
        longs.reset()
        blobs.reset()
        var scratch: [UInt8] = []
        var used: MetricSet = []
        for write in writes { used.formUnion(write.row.state.values.mask) }
        for metric in Metric.allCases { values[metric.index].reset() }
        for write in writes {
            append(write.key)
            append(write.row.provenance)
            let state = write.row.state
            closed.append(int4: Int32(bitPattern: state.closed.rawValue))
            let common = VersionsCodec.common(of: state)
            longs.append(int8: common)
            scratch.removeAll(keepingCapacity: true)
            if VersionsCodec.appendExceptions(of: state, common: common, to: &scratch) {
                blobs.append(bytea: scratch.span)
            } else {
                blobs.appendNull()
            }
            append(state.values, used: used)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(days)
        parameters.append(sources)
        parameters.append(origins)
        parameters.append(closed)
        parameters.append(longs)
        parameters.append(blobs)
        for metric in Metric.allCases { parameters.append(values[metric.index]) }
    }

    mutating func load(
        canonical writes: [BatchWrites.CanonicalWrite],
        rules: Int32,
        into parameters: inout PostgresParameters
    ) {
        resetKeys()
        flags.reset()
        blobs.reset()
        var scratch: [UInt8] = []
        var used: MetricSet = []
        for write in writes { used.formUnion(write.day.values.mask) }
        for metric in Metric.allCases { values[metric.index].reset() }
        for write in writes {
            append(write.key)
            flags.append(bool: write.day.isFinal)
            scratch.removeAll(keepingCapacity: true)
            for winner in write.day.winners { scratch.append(winner.source.rawValue) }
            blobs.append(bytea: scratch.span)
            if write.day.winners.allSatisfy({ $0.origin.isEmpty }) {
                origins.appendNull()
            } else {
                scratch.removeAll(keepingCapacity: true)
                Self.appendArrayText(of: write.day.winners, to: &scratch)
                origins.append(text: scratch.span)
            }
            append(write.day.values, used: used)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(days)
        parameters.append(int4: rules)
        parameters.append(flags)
        parameters.append(blobs)
        parameters.append(origins)
        for metric in Metric.allCases { parameters.append(values[metric.index]) }
    }

    mutating func load(connections writes: [BatchWrites.ConnectionWrite], into parameters: inout PostgresParameters) {
        resetKeys()
        longs.reset()
        moreLongs.reset()
        blobs.reset()
        for write in writes {
            append(write.key)
            longs.append(int8: write.state.lastPushAt)
            moreLongs.append(int8: write.state.lastDataAt)
            if write.state.window.isEmpty { blobs.appendNull() } else { blobs.append(bytea: write.state.window.span) }
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(sources)
        parameters.append(origins)
        parameters.append(longs)
        parameters.append(moreLongs)
        parameters.append(blobs)
    }

    mutating func load(removed keys: [ConnectionKey], into parameters: inout PostgresParameters) {
        resetKeys()
        for key in keys { append(key) }
        parameters.reset()
        parameters.append(users)
        parameters.append(sources)
        parameters.append(origins)
    }

    mutating func load(
        accountSources writes: [(key: UserSource, state: AccountSource)],
        into parameters: inout PostgresParameters
    ) {
        resetKeys()
        longs.reset()
        moreLongs.reset()
        for write in writes {
            users.append(uuidHigh: write.key.user.high, low: write.key.user.low)
            sources.append(int2: Int16(write.key.source.rawValue))
            longs.append(int8: write.state.deleted.rawValue)
            moreLongs.append(int8: write.state.disconnectedAt)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(sources)
        parameters.append(longs)
        parameters.append(moreLongs)
    }

    mutating func load(accounts writes: [BatchWrites.AccountWrite], into parameters: inout PostgresParameters) {
        users.reset()
        longs.reset()
        blobs.reset()
        for write in writes {
            users.append(uuidHigh: write.user.high, low: write.user.low)
            longs.append(int8: write.account.deleted.rawValue)
            if write.account.preferences.pins.isEmpty {
                blobs.appendNull()
            } else {
                let bytes = PreferencesCodec.encode(write.account.preferences)
                blobs.append(bytea: bytes.span)
            }
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(longs)
        parameters.append(blobs)
    }

    mutating func load(
        removed rows: [(key: UserDay, provenance: Provenance)],
        into parameters: inout PostgresParameters
    ) {
        resetKeys()
        for row in rows {
            append(row.key)
            append(row.provenance)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(days)
        parameters.append(sources)
        parameters.append(origins)
    }

    mutating func load(removed keys: [UserDay], into parameters: inout PostgresParameters) {
        resetKeys()
        for key in keys { append(key) }
        parameters.reset()
        parameters.append(users)
        parameters.append(days)
    }

    mutating func load(wakes: [(user: UserID, dueAt: Int64)], into parameters: inout PostgresParameters) {
        users.reset()
        longs.reset()
        for wake in wakes {
            users.append(uuidHigh: wake.user.high, low: wake.user.low)
            longs.append(int8: wake.dueAt)
        }
        parameters.reset()
        parameters.append(users)
        parameters.append(longs)
    }

    mutating func load(removed gone: [UserID], into parameters: inout PostgresParameters) {
        users.reset()
        for user in gone { users.append(uuidHigh: user.high, low: user.low) }
        parameters.reset()
        parameters.append(users)
    }

    // MARK: Pieces

    private mutating func resetKeys() {
        users.reset()
        days.reset()
        sources.reset()
        origins.reset()
    }

    private mutating func append(_ key: UserDay) {
        users.append(uuidHigh: key.user.high, low: key.user.low)
        days.append(date: key.day.daysSinceEpoch)
    }

    private mutating func append(_ key: ConnectionKey) {
        users.append(uuidHigh: key.user.high, low: key.user.low)
        append(key.provenance)
    }

    private mutating func append(_ provenance: Provenance) {
        sources.append(int2: Int16(provenance.source.rawValue))
        origins.append(text: provenance.origin)
    }

    /// Arrays of metrics that no row of the batch has stay empty: `unnest` fills them up with NULL.
    private mutating func append(_ row: MetricValues, used: MetricSet) {
        for metric in used {
            if let tenths = row[metric] {
                values[metric.index].append(float4: MetricColumns.real(tenths: tenths))
            } else {
                values[metric.index].appendNull()
            }
        }
    }

    /// The text form of a `text[]`, every element quoted.
    static func appendArrayText(of winners: [Provenance], to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        for (index, winner) in winners.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes.append(UInt8(ascii: "\""))
            for byte in winner.origin.utf8 {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
                bytes.append(byte)
            }
            bytes.append(UInt8(ascii: "\""))
        }
        bytes.append(UInt8(ascii: "}"))
    }
}

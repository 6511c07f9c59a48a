internal import Domain
internal import Postgres

/// The arrays behind a batch's statements, kept from batch to batch so that their memory is.
struct BatchArrays {
    var users = PostgresArray(of: .uuid)
    var buckets = PostgresArray(of: .int2)
    var lastDays = PostgresArray(of: .date)
    var days = PostgresArray(of: .date)
    var sources = PostgresArray(of: .int2)
    var origins = PostgresArray(of: .text)
    private var places = PostgresArray(of: .tid)
    var closed = PostgresArray(of: .int4)
    var stored = PostgresArray(of: .int4)
    var counts = PostgresArray(of: .int4)
    var bases = PostgresArray(of: .date)
    var winnerOrigins = PostgresArray(of: .text)
    var longs = PostgresArray(of: .int8)
    var moreLongs = PostgresArray(of: .int8)
    var blobs = PostgresArray(of: .bytea)
    var flags = PostgresArray(of: .bool)
    var texts = DeviceRowReader.textNames.map { _ in PostgresArray(of: .text) }
    var values = (0..<Metric.count).map { _ in PostgresArray(of: .float4) }
    /// Indexes of the writes that are loaded.
    private var picked: [Int] = []

    mutating func load(users touched: [TouchedUser]) {
        users.reset()
        buckets.reset()
        for user in touched {
            users.append(uuidHigh: user.user.high, low: user.user.low)
            buckets.append(int2: user.bucket)
        }
    }

    mutating func load(ranges: some Sequence<DayRange>, into parameters: inout PostgresParameters) {
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

    /// Rows of one kind: those that are stored, by their places, or new ones, by their keys. Returns how many there are.
    mutating func load(
        source writes: [BatchWrites.SourceWrite],
        areStored: Bool,
        into parameters: inout PostgresParameters
    ) -> Int {
        resetKeys()
        closed.reset()
        longs.reset()
        blobs.reset()
        var scratch: [UInt8] = []
        var used: MetricSet = []
        picked.removeAll(keepingCapacity: true)
        for index in writes.indices where (writes[index].place != nil) == areStored { picked.append(index) }
        guard !picked.isEmpty else { return 0 }
        for index in picked {
            let state = writes[index].row.state
            if let place = writes[index].place {
                append(place, writes[index].key)
            } else {
                append(writes[index].key)
                append(writes[index].row.provenance)
            }
            used.formUnion(state.values.mask)
            closed.append(int4: Int32(bitPattern: state.closed.rawValue))
            let common = VersionsCodec.common(of: state)
            longs.append(int8: common)
            scratch.removeAll(keepingCapacity: true)
            if VersionsCodec.appendExceptions(of: state, common: common, to: &scratch) {
                blobs.append(bytea: scratch.span)
            } else {
                blobs.appendNull()
            }
        }
        // A column at a time: the arrays of metrics that no row of the batch has stay empty, and `unnest` fills them up
        // with NULL.
        for metric in Metric.allCases { values[metric.index].reset() }
        for metric in used {
            // Taken out, so that the loop appends to a variable of its own.
            var column = PostgresArray(of: .float4)
            swap(&column, &values[metric.index])
            column.append(picked.count, float4: { MetricColumns.real(writes[picked[$0]].row.state.values[metric]) })
            swap(&column, &values[metric.index])
        }
        parameters.reset()
        if areStored {
            parameters.append(places)
            parameters.append(days)
        } else {
            parameters.append(users)
            parameters.append(days)
            parameters.append(sources)
            parameters.append(origins)
        }
        parameters.append(closed)
        parameters.append(longs)
        parameters.append(blobs)
        if areStored { parameters.append(users) }
        for metric in Metric.allCases { parameters.append(values[metric.index]) }
        return days.count
    }

    /// As for source rows.
    mutating func load(
        canonical writes: [BatchWrites.CanonicalWrite],
        areStored: Bool,
        rules: Int32,
        into parameters: inout PostgresParameters
    ) -> Int {
        resetKeys()
        flags.reset()
        blobs.reset()
        var scratch: [UInt8] = []
        var used: MetricSet = []
        picked.removeAll(keepingCapacity: true)
        for index in writes.indices where (writes[index].place != nil) == areStored { picked.append(index) }
        guard !picked.isEmpty else { return 0 }
        for index in picked {
            let winners = writes[index].day.winners
            if let place = writes[index].place {
                append(place, writes[index].key)
            } else {
                append(writes[index].key)
            }
            used.formUnion(writes[index].day.values.mask)
            flags.append(bool: writes[index].day.isFinal)
            scratch.removeAll(keepingCapacity: true)
            var areUnnamed = true
            for winner in winners {
                scratch.append(winner.source.rawValue)
                if !winner.origin.isEmpty { areUnnamed = false }
            }
            blobs.append(bytea: scratch.span)
            if areUnnamed {
                origins.appendNull()
            } else {
                scratch.removeAll(keepingCapacity: true)
                Self.appendArrayText(of: winners, to: &scratch)
                origins.append(text: scratch.span)
            }
        }
        for metric in Metric.allCases { values[metric.index].reset() }
        for metric in used {
            var column = PostgresArray(of: .float4)
            swap(&column, &values[metric.index])
            column.append(picked.count, float4: { MetricColumns.real(writes[picked[$0]].day.values[metric]) })
            swap(&column, &values[metric.index])
        }
        parameters.reset()
        if areStored { parameters.append(places) } else { parameters.append(users) }
        parameters.append(days)
        parameters.append(int4: rules)
        parameters.append(flags)
        parameters.append(blobs)
        parameters.append(origins)
        if areStored { parameters.append(users) }
        for metric in Metric.allCases { parameters.append(values[metric.index]) }
        return days.count
    }

    /// As for source rows.
    mutating func load(
        connections writes: [BatchWrites.ConnectionWrite],
        areStored: Bool,
        into parameters: inout PostgresParameters
    ) -> Int {
        resetKeys()
        longs.reset()
        moreLongs.reset()
        blobs.reset()
        for index in writes.indices where (writes[index].state.place != nil) == areStored {
            let state = writes[index].state
            if let place = state.place { places.append(tidBlock: place.block, offset: place.offset) }
            append(writes[index].key)
            longs.append(int8: state.lastPushAt)
            moreLongs.append(int8: state.lastDataAt)
            if state.window.isEmpty { blobs.appendNull() } else { blobs.append(bytea: state.window.span) }
        }
        guard longs.count > 0 else { return 0 }
        parameters.reset()
        if areStored { parameters.append(places) }
        parameters.append(users)
        parameters.append(sources)
        parameters.append(origins)
        parameters.append(longs)
        parameters.append(moreLongs)
        parameters.append(blobs)
        return longs.count
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

    mutating func load(pairs: some Sequence<(UserID, Int64)>, into parameters: inout PostgresParameters) {
        users.reset()
        longs.reset()
        for (user, long) in pairs {
            users.append(uuidHigh: user.high, low: user.low)
            longs.append(int8: long)
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

    mutating func resetKeys() {
        places.reset()
        users.reset()
        days.reset()
        sources.reset()
        origins.reset()
    }

    private mutating func append(_ place: RowPlace, _ key: UserDay) {
        places.append(tidBlock: place.block, offset: place.offset)
        append(key)
    }

    private mutating func append(_ key: UserDay) {
        users.append(uuidHigh: key.user.high, low: key.user.low)
        days.append(date: key.day.daysSinceEpoch)
    }

    private mutating func append(_ key: ConnectionKey) {
        users.append(uuidHigh: key.user.high, low: key.user.low)
        append(key.provenance)
    }

    mutating func append(_ provenance: Provenance) {
        sources.append(int2: Int16(provenance.source.rawValue))
        origins.append(text: provenance.origin)
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

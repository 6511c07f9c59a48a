public import Domain
public import MessageContract
public import Storage

/// What a batch did, in days and records.
public struct BatchCounts: Hashable, Sendable {
    public var records = 0
    /// Days of which a value or a `closed` bit changed.
    public var changed = 0
    /// Days that a newer reading left as they were.
    public var confirmed = 0
    /// Days for which what is stored is newer.
    public var older = 0
    /// Days that a deletion had outdated before they came.
    public var suppressed = 0
    /// Days that retention has dropped.
    public var belowFloor = 0
    public var canonicalWritten = 0

    public init() {}

    public static func += (left: inout BatchCounts, right: BatchCounts) {
        left.records += right.records
        left.changed += right.changed
        left.confirmed += right.confirmed
        left.older += right.older
        left.suppressed += right.suppressed
        left.belowFloor += right.belowFloor
        left.canonicalWritten += right.canonicalWritten
    }
}

/// The pure middle of a batch: what was read under the locks and what the records say become what is written.
public struct DaysMerge {
    private struct WorkingDay {
        let key: UserDay
        let original: [SourceRow]
        var rows: [SourceRow]
        /// Parallel to `rows`: the row differs from what is stored.
        var isTouched: [Bool]
        var valuesChanged = false
    }

    private let snapshot: BatchSnapshot
    private var days: [WorkingDay] = []
    private var places: [UserDay: Int] = [:]
    private var connections: [ConnectionKey: (push: Int64, data: Int64)] = [:]
    private var counts = BatchCounts()

    private struct ConnectionKey: Hashable {
        let user: UserID
        let provenance: Provenance
    }

    private init(snapshot: BatchSnapshot) {
        self.snapshot = snapshot
    }

    /// The users and days that the records touch, as a batch reads them: a range a user, since a range costs less
    /// than its days one by one.
    public static func needs(of records: [DecodedDays]) -> (users: [TouchedUser], ranges: [DayRange]) {
        var ranges: [UserID: DayRange] = [:]
        var users: Set<UserID> = []
        for record in records {
            users.insert(record.user)
            for reading in record.readings {
                var range = ranges[record.user] ?? DayRange(user: record.user, first: reading.day, last: reading.day)
                range.first = min(range.first, reading.day)
                range.last = max(range.last, reading.day)
                ranges[record.user] = range
            }
        }
        let touched = users.sorted().map { TouchedUser(user: $0, bucket: Int16(Partitioner.bucket(of: $0))) }
        return (touched, ranges.values.sorted { $0.user < $1.user })
    }

    /// Applies the records to the snapshot. Their order does not change what is written (D3), only the counts.
    public static func merge(
        _ records: [DecodedDays],
        into snapshot: BatchSnapshot
    ) -> (writes: BatchWrites, counts: BatchCounts) {
        var merge = DaysMerge(snapshot: snapshot)
        for record in records { merge.apply(record) }
        let writes = merge.writes()
        return (writes, merge.counts)
    }

    /// Removes all that is older than the watermark from every row in the snapshot, which must hold all of the
    /// user's days, and the connections that have pushed nothing since (D7).
    public static func delete(_ user: UserID, below watermark: Version, in snapshot: BatchSnapshot) -> BatchWrites {
        var merge = DaysMerge(snapshot: snapshot)
        let held = snapshot.accounts[user] ?? Account(deleted: Version(rawValue: 0), preferences: Preferences())
        guard watermark > held.deleted else { return BatchWrites() }
        var preferences = held.preferences
        let pinsChanged = preferences.remove(below: watermark)
        for key in snapshot.days.keys.filter({ $0.user == user }).sorted() {
            let place = merge.place(of: key)
            for index in merge.days[place].rows.indices
            where !merge.days[place].rows[index].state.remove(below: watermark).isEmpty {
                merge.days[place].isTouched[index] = true
                merge.days[place].valuesChanged = true
            }
            if pinsChanged { merge.days[place].valuesChanged = true }
        }
        let account = Account(deleted: watermark, preferences: preferences)
        var writes = merge.writes(preferencesAfter: [user: preferences])
        writes.accounts = [.init(user: user, account: account)]
        // What `apply` would not have written had the deletion come first.
        writes.removedConnections = [(user, before: watermark.instant.microseconds)]
        return writes
    }

    // MARK: Steps

    private mutating func apply(_ record: DecodedDays) {
        counts.records += 1
        let account = snapshot.accounts[record.user]
        let key = UserSource(user: record.user, source: record.source)
        let watermark = max(
            account?.deleted ?? Version(rawValue: 0),
            snapshot.deletedSources[key] ?? Version(rawValue: 0)
        )
        var changesData = false
        for reading in record.readings {
            if reading.version < watermark {
                counts.suppressed += 1
            } else if reading.day < snapshot.retentionFloor {
                counts.belowFloor += 1
            } else if apply(reading, of: record) {
                changesData = true
            }
        }
        // A version 0 stands for no deletion, whose instant lies before every record.
        guard record.receivedAt >= watermark.instant else { return }
        let connection = ConnectionKey(user: record.user, provenance: record.provenance)
        let received = record.receivedAt.microseconds
        var times = connections[connection] ?? (push: 0, data: 0)
        times.push = max(times.push, received)
        if changesData { times.data = max(times.data, received) }
        connections[connection] = times
    }

    private mutating func apply(_ reading: Reading, of record: DecodedDays) -> Bool {
        let place = place(of: UserDay(user: record.user, day: reading.day))
        let provenance = record.provenance
        var index = days[place].rows.firstIndex { $0.provenance == provenance }
        if index == nil {
            // A row with no metrics is not stored: there is nothing to put where the reading has none.
            guard !reading.values.isEmpty else {
                counts.older += 1
                return false
            }
            let slot = days[place].rows.firstIndex { provenance < $0.provenance } ?? days[place].rows.endIndex
            days[place].rows.insert(SourceRow(provenance: provenance, state: SourceDay()), at: slot)
            days[place].isTouched.insert(false, at: slot)
            index = slot
        }
        guard let index else { return false }
        let outcome = days[place].rows[index].state.apply(reading)
        if !outcome.changed.isEmpty || !outcome.confirmed.isEmpty { days[place].isTouched[index] = true }
        if !outcome.changed.isEmpty {
            days[place].valuesChanged = true
            counts.changed += 1
            return true
        }
        if outcome.confirmed.isEmpty { counts.older += 1 } else { counts.confirmed += 1 }
        return false
    }

    private mutating func place(of key: UserDay) -> Int {
        if let place = places[key] { return place }
        let rows = snapshot.days[key] ?? []
        let untouched = Array(repeating: false, count: rows.count)
        days.append(WorkingDay(key: key, original: rows, rows: rows, isTouched: untouched))
        places[key] = days.count - 1
        return days.count - 1
    }

    /// Only what differs from what is stored, in the order of the tables' keys.
    private mutating func writes(preferencesAfter changed: [UserID: Preferences] = [:]) -> BatchWrites {
        var writes = BatchWrites()
        writes.ruleVersion = snapshot.ruleVersion
        days.sort { $0.key < $1.key }
        for day in days {
            for index in day.rows.indices where day.isTouched[index] {
                if day.rows[index].state.isEmpty {
                    writes.removedSourceRows.append((day.key, day.rows[index].provenance))
                } else {
                    writes.sourceRows.append(.init(key: day.key, row: day.rows[index]))
                }
            }
            guard day.valuesChanged else { continue }
            let before = snapshot.accounts[day.key.user]?.preferences ?? Preferences()
            let after = changed[day.key.user] ?? before
            let remaining = day.rows.filter { !$0.state.isEmpty }
            let canonical = CanonicalDay(resolving: remaining, preferences: after)
            // The stored day is what its stored rows resolve to (D6), so it need not be read to be compared.
            if canonical == CanonicalDay(resolving: day.original, preferences: before) { continue }
            if canonical.isEmpty {
                writes.removedCanonicalDays.append(day.key)
            } else {
                writes.canonicalDays.append(.init(key: day.key, day: canonical))
            }
        }
        counts.canonicalWritten = writes.canonicalDays.count + writes.removedCanonicalDays.count
        writes.connections = connections.map {
            .init(
                user: $0.key.user,
                provenance: $0.key.provenance,
                lastPushAt: $0.value.push,
                lastDataAt: $0.value.data
            )
        }
        writes.connections.sort { ($0.user, $0.provenance) < ($1.user, $1.provenance) }
        return writes
    }
}

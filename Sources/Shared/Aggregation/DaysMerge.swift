internal import Domain
public import MessageContract
public import Storage

/// The pure middle of a batch of days: what was read under the locks and what the records say become what is
/// written. Two steps, since most days of a re-send need no row: the windows confirm them, and only the days that
/// they leave open are read.
public struct DaysMerge {
    /// Of one source and user; more is abuse (`too_many_origins`).
    public static let maximumOrigins = 32

    private struct Deferred {
        let record: Int
        let reading: Int
        let connection: Int
    }

    private let records: [DecodedDays]
    private let snapshot: BatchSnapshot
    private var connections: [WorkingConnection] = []
    private var places: [ConnectionKey: Int] = [:]
    private var deferred: [Deferred] = []
    private var origins: [UserSource: Int]?
    private var answers: [UserID: WakeAnswer] = [:]
    private var counts = BatchCounts()

    /// Indexes of records whose connection would be one origin too many; with any, nothing may be written.
    public private(set) var tooManyOrigins: [Int] = []

    /// The users that the records touch, sorted, with the bucket that a new account is placed in.
    public static func users(of records: [DecodedDays]) -> [TouchedUser] {
        TouchedUser.sorted(records.map(\.user))
    }

    /// The first step: suppresses what is outdated and confirms what the windows already say.
    ///
    /// - Parameters:
    ///   - records: in any order; their order does not change what the rows mean (D3).
    ///   - snapshot: read under the locks of the records' users.
    /// - Throws: where a window is in a format that this build does not know.
    public init(_ records: [DecodedDays], _ snapshot: BatchSnapshot) throws(StorageError) {
        self.records = records
        self.snapshot = snapshot
        for index in records.indices { try confirm(index) }
    }

    private mutating func confirm(_ index: Int) throws(StorageError) {
        let record = records[index]
        let watermark = snapshot.watermark(record.user, record.source)
        // A version 0 stands for no deletion, whose instant lies before every record.
        let moves = record.receivedAt >= watermark.instant
        guard let place = try place(of: record, mayCreate: moves) else {
            if moves { tooManyOrigins.append(index) } else { counts.suppressed += record.readings.count }
            return
        }
        counts.records += 1
        if moves { connections[place].notePush(record.receivedAt) }
        if moves, !snapshot.openWakes.isEmpty { noteAnswer(record) }
        for (number, reading) in record.readings.enumerated() {
            if reading.version < watermark {
                counts.suppressed += 1
            } else if reading.day < snapshot.retentionFloor {
                counts.belowFloor += 1
            } else if reading.values.isEmpty || confirmed(reading, place) {
                continue
            } else {
                deferred.append(Deferred(record: index, reading: number, connection: place))
                connections[place].deferred.insert(reading.day)
            }
        }
    }

    /// A push of a phone answers the wakes before it; of a batch's pushes the first that does counts.
    private mutating func noteAnswer(_ record: DecodedDays) {
        guard record.source.kind == .onDevice, let openSince = snapshot.openWakes[record.user] else { return }
        let pushedAt = record.receivedAt.microseconds
        guard pushedAt > openSince, pushedAt < answers[record.user]?.pushedAt ?? .max else { return }
        answers[record.user] =
            WakeAnswer(user: record.user, pushedAt: pushedAt, openSince: openSince, broughtData: false)
    }

    private func finishedAnswers() -> [WakeAnswer] {
        answers.values.sorted { $0.user < $1.user }.map { answer in
            var answer = answer
            answer.broughtData = connections.contains {
                $0.key.user == answer.user && $0.key.provenance.source.kind == .onDevice && $0.broughtData
            }
            return answer
        }
    }

    /// Whether the window already says it; then only the entry's version grows.
    private mutating func confirmed(_ reading: Reading, _ place: Int) -> Bool {
        if !connections[place].deferred.isEmpty && connections[place].deferred.contains(reading.day) { return false }
        return bump(reading, place)
    }

    private mutating func bump(_ reading: Reading, _ place: Int) -> Bool {
        guard var entry = connections[place].window[reading.day], entry.isConfirmed(by: reading) else { return false }
        guard entry.version < reading.version else {
            counts.older += 1
            return true
        }
        entry.version = reading.version
        connections[place].set(entry, for: reading.day)
        counts.confirmed += 1
        return true
    }

    /// Nil where the connection is not there and must not be made.
    private mutating func place(of record: DecodedDays, mayCreate: Bool) throws(StorageError) -> Int? {
        let key = ConnectionKey(user: record.user, provenance: record.provenance)
        if let place = places[key] { return place }
        let stored = snapshot.connections[key]
        if stored == nil {
            guard mayCreate, countOrigin(of: record) else { return nil }
        }
        connections.append(try WorkingConnection(key, stored, floor: snapshot.retentionFloor))
        places[key] = connections.count - 1
        return connections.count - 1
    }

    /// Counts one more origin of the record's source; false where that would be too many.
    private mutating func countOrigin(of record: DecodedDays) -> Bool {
        var counted = origins ?? [:]
        if origins == nil {
            for key in snapshot.connections.keys {
                counted[UserSource(user: key.user, source: key.provenance.source), default: 0] += 1
            }
        }
        let key = UserSource(user: record.user, source: record.source)
        let fits = counted[key, default: 0] < Self.maximumOrigins
        if fits { counted[key, default: 0] += 1 }
        origins = counted
        return fits
    }

    /// The days whose rows the second step needs: those that no window confirmed, and those that leave a window.
    public func needs() -> [DayRange] {
        var days: Set<UserDay> = []
        for connection in connections {
            guard let newest = connection.deferred.max() else { continue }
            let user = connection.key.user
            for day in connection.deferred { days.insert(UserDay(user: user, day: day)) }
            for day in connection.window.leaving(for: newest) { days.insert(UserDay(user: user, day: day)) }
        }
        return DayRange.covering(days)
    }

    /// The second step: applies what was put off to the rows.
    public mutating func finish(_ days: StoredDays) -> (writes: BatchWrites, counts: BatchCounts) {
        var table = DayTable(days)
        for item in deferred {
            apply(records[item.record].readings[item.reading], of: records[item.record], item.connection, &table)
        }
        var writes = BatchWrites()
        writes.ruleVersion = snapshot.ruleVersion
        let preferences = { (user: UserID) in snapshot.accounts[user]?.preferences ?? Preferences() }
        table.addWrites(to: &writes, before: preferences, after: preferences)
        writes.connections = connections.compactMap(\.write).sorted { $0.key < $1.key }
        writes.wakes = wakes()
        if !answers.isEmpty { writes.answers = finishedAnswers() }
        counts.sourceRowsWritten = writes.sourceRows.count
        counts.canonicalWritten = writes.canonicalDays.count + writes.removedCanonicalDays.count
        return (writes, counts)
    }

    private func wakes() -> [(user: UserID, dueAt: Int64)] {
        var due: [UserID: Int64] = [:]
        for connection in connections {
            let key = UserSource(user: connection.key.user, source: connection.key.provenance.source)
            let disconnected = snapshot.accountSources[key]?.disconnectedAt ?? 0
            guard let time = connection.dueAt(disconnectedAt: disconnected) else { continue }
            due[key.user] = min(due[key.user] ?? time, time)
        }
        return due.map { (user: $0.key, dueAt: $0.value) }.sorted { $0.user < $1.user }
    }

    private mutating func apply(_ reading: Reading, of record: DecodedDays, _ place: Int, _ table: inout DayTable) {
        // An earlier record of the batch may have said the same.
        if bump(reading, place) { return }
        let provenance = record.provenance
        for day in connections[place].window.leaving(for: reading.day) {
            guard let entry = connections[place].window[day] else { continue }
            table.fold(entry, UserDay(user: record.user, day: day), provenance)
        }
        var entry = connections[place].window[reading.day]
        let keepsEntry = connections[place].window.reaches(reading.day)
        var outcome = SourceDay.Outcome()
        table.update(UserDay(user: record.user, day: reading.day), provenance) { row in
            let result = row.apply(reading, entry: &entry, keepsEntry: keepsEntry)
            outcome = result.outcome
            return (result.isRowChanged, !result.outcome.changed.isEmpty)
        }
        connections[place].set(entry, for: reading.day)
        if !outcome.changed.isEmpty {
            counts.changed += 1
            connections[place].noteData(record.receivedAt)
        } else if !outcome.confirmed.isEmpty {
            counts.confirmed += 1
        } else {
            counts.older += 1
        }
    }
}

extension TouchedUser {
    static func sorted(_ users: some Sequence<UserID>) -> [TouchedUser] {
        Set(users).sorted().map { TouchedUser(user: $0, bucket: Int16(Partitioner.bucket(of: $0))) }
    }
}

extension DayRange {
    /// Ranges that cover the days: one range costs less than its days one by one, unless they lie far apart.
    static func covering(_ days: Set<UserDay>) -> [DayRange] {
        var ranges: [DayRange] = []
        for key in days.sorted() {
            if let last = ranges.last, last.user == key.user, key.day.days(since: last.last) <= 4 {
                ranges[ranges.count - 1].last = key.day
            } else {
                ranges.append(DayRange(user: key.user, first: key.day, last: key.day))
            }
        }
        return ranges
    }
}

public import Domain
public import MessageContract
public import Storage

/// The pure middle of a batch of days: what was read under the locks and what the records say become what is
/// written. Two steps, since most days of a re-send need no row: the windows confirm them, and only the days that
/// they leave open are read.
public struct DaysMerge {
    /// Of one source and user; more is abuse (`too_many_origins`).
    public static let maximumOrigins = 32

    struct Deferred {
        let record: Int
        let reading: Int
        let connection: Int
        /// What the reading makes of the window's entry.
        let says: Window.Entry
        /// It was to be replaced unread and was not as its window says.
        var isMissed = false
    }

    /// A reading that replaces a day unread.
    struct Replacement {
        let record: Int
        let reading: Int
        let connection: Int
        let day: CalendarDay
        /// What the reading makes of the window's entry.
        let says: Window.Entry
        /// What the window said before.
        let before: Window.Entry
        /// Put off after all.
        var isOff = false
    }

    let records: [DecodedDays]
    private let snapshot: BatchSnapshot
    var connections: [WorkingConnection] = []
    private var places: [ConnectionKey: Int] = [:]
    var deferred: [Deferred] = []
    /// How many of those stand in `runs`, or stood there.
    private var planned = 0
    var replacements: [Replacement] = []
    private let replaces: Bool
    /// How many connections each user has stored; counted when it is asked for first.
    private var connectionCounts: [UserID: Int]?
    /// Users who get one more in this batch.
    var crowded: Set<UserID> = []
    /// What the second step has not come to yet.
    private var runs: ArraySlice<Run> = []
    private var origins: [UserSource: Int]?
    private var answers: [UserID: WakeAnswer] = [:]
    var counts = BatchCounts()

    /// Indexes of records whose connection would be one origin too many; with any, nothing may be written.
    public private(set) var tooManyOrigins: [Int] = []

    /// The users that the records touch, sorted, with the bucket that a new account is placed in.
    public static func users(of records: [DecodedDays]) -> [TouchedUser] {
        TouchedUser.sorted(records.map(\.user))
    }

    /// The version of the rules that the canonical days are made with.
    public var rules: Int32 { snapshot.ruleVersion }

    /// The first step: suppresses what is outdated and confirms what the windows already say.
    ///
    /// - Parameters:
    ///   - records: in any order; their order does not change what the rows mean (D3).
    ///   - snapshot: read under the locks of the records' users.
    ///   - replaces: the caller writes `replacements` and concludes them, after all `rows` and before `rest`.
    /// - Throws: where a window is in a format that this build does not know.
    public init(
        _ records: [DecodedDays],
        _ snapshot: BatchSnapshot,
        replaces: Bool = false
    ) throws(StorageError) {
        self.records = records
        self.snapshot = snapshot
        self.replaces = replaces
        connections.reserveCapacity(snapshot.connections.count)
        places.reserveCapacity(snapshot.connections.count)
        for index in records.indices { try confirm(index) }
        if !replacements.isEmpty { settleReplacements() }
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
        for number in record.readings.indices {
            let reading = record.readings[number]
            if reading.version < watermark {
                counts.suppressed += 1
            } else if reading.day < snapshot.retentionFloor {
                counts.belowFloor += 1
            } else if !reading.values.isEmpty {
                let says = Window.Entry(of: reading)
                let item = Deferred(record: index, reading: number, connection: place, says: says)
                if !settled(reading, item) { putOff(item) }
            }
        }
    }

    /// A push of a phone answers the wakes before it; of a batch's pushes the first and the last that do are kept.
    private mutating func noteAnswer(_ record: DecodedDays) {
        guard record.source.kind == .onDevice, let openSince = snapshot.openWakes[record.user] else { return }
        let pushedAt = record.receivedAt.microseconds
        guard WakeRule.answers(before: record.receivedAt).microseconds > openSince else { return }
        var answer =
            answers[record.user]
            ?? WakeAnswer(user: record.user, firstAt: pushedAt, lastAt: pushedAt, openSince: openSince)
        answer.firstAt = min(answer.firstAt, pushedAt)
        answer.lastAt = max(answer.lastAt, pushedAt)
        answers[record.user] = answer
    }

    private mutating func finishedAnswers() -> [WakeAnswer] {
        for connection in connections where connection.broughtData && connection.key.provenance.source.kind == .onDevice
        {
            answers[connection.key.user]?.broughtData = true
        }
        return answers.values.sorted { $0.user < $1.user }
    }

    mutating func putOff(_ item: Deferred) {
        deferred.append(item)
        connections[item.connection].noteDeferred(records[item.record].readings[item.reading].day)
    }

    /// Whether the row need not be read: the window already says what the reading says, so that only the entry's version
    /// grows, or it says enough to replace the row.
    private mutating func settled(_ reading: Reading, _ item: Deferred) -> Bool {
        let place = item.connection
        // Behind one that was put off, in whatever order: together they are applied to the row.
        if connections[place].isDeferred(reading.day) { return false }
        guard let entry = connections[place].window[reading.day] else { return false }
        if let number = connections[place].replacement(of: reading.day) {
            putOff(replacement: number)
            return false
        }
        let new = item.says
        if entry.says(new) {
            confirm(entry, by: reading, place)
            return true
        }
        guard replaces, entry.version < new.version, entry.mask.isSubset(of: new.mask), isAlone(place) else {
            return false
        }
        connections[place].noteReplaced(reading.day, replacements.count)
        connections[place].set(new, for: reading.day)
        replacements.append(
            Replacement(
                record: item.record,
                reading: item.reading,
                connection: place,
                day: reading.day,
                says: new,
                before: entry
            )
        )
        return true
    }

    /// Whether the user has this connection and no other, so that its rows are their days' only ones.
    private mutating func isAlone(_ place: Int) -> Bool {
        if let known = connections[place].isAlone { return known }
        if connectionCounts == nil {
            var counts: [UserID: Int] = Dictionary(minimumCapacity: snapshot.accounts.count)
            for key in snapshot.connections.keys { counts[key.user, default: 0] += 1 }
            connectionCounts = counts
        }
        let isAlone = connections[place].isStored && connectionCounts?[connections[place].key.user] == 1
        connections[place].isAlone = isAlone
        return isAlone
    }

    private mutating func confirm(_ entry: Window.Entry, by reading: Reading, _ place: Int) {
        guard entry.version < reading.version else {
            counts.older += 1
            return
        }
        var entry = entry
        entry.version = reading.version
        connections[place].set(entry, for: reading.day)
        counts.confirmed += 1
    }

    /// Nil where the connection is not there and must not be made.
    private mutating func place(of record: DecodedDays, mayCreate: Bool) throws(StorageError) -> Int? {
        let key = ConnectionKey(user: record.user, provenance: record.provenance)
        if let place = places[key] { return place }
        let stored = snapshot.connections[key]
        if stored == nil {
            guard mayCreate, countOrigin(of: record) else { return nil }
        }
        if replaces && stored == nil { crowded.insert(record.user) }
        connections.append(try WorkingConnection(key, stored, floor: snapshot.retentionFloor))
        places[key] = connections.count - 1
        return connections.count - 1
    }

    /// Counts one more origin of the record's source; false where that would be too many.
    private mutating func countOrigin(of record: DecodedDays) -> Bool {
        var counted = origins ?? [:]
        let isFirst = origins == nil
        // Held once, or each new connection would copy the counts of all.
        origins = nil
        if isFirst {
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
        let open = connections.indices.filter { !connections[$0].deferred.isEmpty }
        var ranges: [DayRange] = []
        var days: [CalendarDay] = []
        var order = open.sorted { connections[$0].key < connections[$1].key }[...]
        while let first = order.first {
            let user = connections[first].key.user
            days.removeAll(keepingCapacity: true)
            while let index = order.first, connections[index].key.user == user {
                order.removeFirst()
                let deferred = connections[index].deferred
                days += deferred
                if let newest = deferred.last { days += connections[index].window.leaving(for: newest) }
            }
            if days.indices.dropFirst().contains(where: { days[$0] < days[$0 - 1] }) { days.sort() }
            for day in days { ranges.cover(user, day) }
        }
        return ranges
    }

    /// The second step: applies what was put off to the rows, all at once.
    public mutating func finish(_ days: StoredDays) -> (writes: BatchWrites, counts: BatchCounts) {
        var writes = rows(days, through: nil)
        let last = rest()
        writes.connections = last.writes.connections
        writes.wakes = last.writes.wakes
        writes.answers = last.writes.answers
        return (writes, last.counts)
    }

    /// A part of the second step: the rows of users that come next in order, up to one of them.
    ///
    /// - Parameters:
    ///   - days: of these users; the same ranges that `needs` gave.
    ///   - last: nil for all users that are left.
    /// - Returns: source rows and canonical days.
    public mutating func rows(_ days: StoredDays, through last: UserID?) -> BatchWrites {
        var writes = BatchWrites()
        writes.ruleVersion = snapshot.ruleVersion
        writes.sourceRows.reserveCapacity(deferred.count)
        writes.canonicalDays.reserveCapacity(deferred.count)
        var table = UserDays(days)
        // A user at a time; among one user's the order stays.
        if runs.isEmpty {
            runs = Self.runs(in: planned..<deferred.count, records) { [deferred] in deferred[$0].record }[...]
            planned = deferred.count
        }
        var left = runs
        runs = []
        while let user = left.first?.user, last.map({ user <= $0 }) ?? true {
            table.begin(user)
            while let run = left.first, run.user == user {
                left.removeFirst()
                let record = records[deferred[run.places.lowerBound].record]
                for place in run.places { apply(deferred[place], of: record, &table) }
            }
            table.addWrites(to: &writes, snapshot.accounts[user]?.preferences ?? Preferences())
        }
        runs = left
        counts.sourceRowsWritten += writes.sourceRows.count
        counts.canonicalWritten += writes.canonicalDays.count + writes.removedCanonicalDays.count
        return writes
    }

    /// What is left when all rows are merged: the connections with their windows, and the wake schedule.
    public mutating func rest() -> (writes: BatchWrites, counts: BatchCounts) {
        var writes = BatchWrites()
        writes.ruleVersion = snapshot.ruleVersion
        writes.connections.reserveCapacity(connections.count)
        for index in connectionsInOrder() {
            guard let write = connections[index].write(format: snapshot.windowFormat) else { continue }
            writes.connections.append(write)
        }
        writes.wakes = wakes()
        if !answers.isEmpty { writes.answers = finishedAnswers() }
        return (writes, counts)
    }

    /// By their keys. Sorting what is small costs a fraction of sorting the connections.
    private func connectionsInOrder() -> [Int] {
        var order = connections.indices.map { (user: connections[$0].key.user, index: $0) }
        order.sort { left, right in
            guard left.user == right.user else { return left.user < right.user }
            return connections[left.index].key < connections[right.index].key
        }
        return order.map(\.index)
    }

    private func wakes() -> [(user: UserID, dueAt: Int64)] {
        var due: [UserID: Int64] = [:]
        // In place: a copy of each would hold all that hangs on it.
        for place in connections.indices {
            var disconnected: Int64 = 0
            if !snapshot.accountSources.isEmpty {
                let key = connections[place].key
                let source = UserSource(user: key.user, source: key.provenance.source)
                disconnected = snapshot.accountSources[source]?.disconnectedAt ?? 0
            }
            guard let time = connections[place].dueAt(disconnectedAt: disconnected) else { continue }
            let user = connections[place].key.user
            due[user] = min(due[user] ?? time, time)
        }
        return due.map { (user: $0.key, dueAt: $0.value) }.sorted { $0.user < $1.user }
    }

    private mutating func apply(_ item: Deferred, of record: DecodedDays, _ table: inout UserDays) {
        let (reading, place) = (record.readings[item.reading], item.connection)
        // An earlier record of the batch may have said the same.
        if let entry = connections[place].window[reading.day], entry.says(item.says) {
            confirm(entry, by: reading, place)
            return
        }
        if item.isMissed, settleMissed(item, of: record, &table) { return }
        let provenance = record.provenance
        for day in connections[place].window.leaving(for: reading.day) {
            guard let entry = connections[place].window[day] else { continue }
            table.fold(entry, day, provenance)
        }
        var entry = connections[place].window[reading.day]
        let keepsEntry = connections[place].window.reaches(reading.day)
        var outcome = SourceDay.Outcome()
        table.update(reading.day, provenance) { row in
            let result = row.apply(reading, says: item.says, entry: &entry, keepsEntry: keepsEntry)
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

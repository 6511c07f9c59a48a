internal import Domain
internal import Storage

/// The rows of one user that a batch of days works on: what is stored, what it becomes, and so what has to be written.
/// Used for one user after another in the order of their ids, so that what it adds comes in the order of the tables.
struct UserDays {
    private struct WorkingRow {
        let day: CalendarDay
        let provenance: Provenance
        var state: SourceDay
        /// Among the stored rows; nil for a new one.
        let stored: Int?
        /// The row has to be written.
        var isTouched = false
        /// A value or a `closed` bit changed, so the canonical day may have.
        var mayDiffer = false
        /// The canonical day is written whatever it was.
        var isForced = false
    }

    private let stored: StoredDays
    private var user = UserID(high: 0, low: 0)
    /// Sorted by day and provenance.
    private var rows: [WorkingRow] = []
    /// Where the row is that is probably asked for next: a record's days come in order.
    private var hint = 0
    /// Of the last day with a single row: most days have one, and share the list of their winners.
    private var lastWinners: [Provenance] = []
    /// Where the last canonical day lay: they are asked for in order.
    private var canonicalHint = 0
    private var after: [SourceRow] = []
    private var before: [SourceRow] = []

    init(_ stored: StoredDays) {
        self.stored = stored
    }

    mutating func begin(_ user: UserID) {
        self.user = user
        hint = 0
        rows.removeAll(keepingCapacity: true)
        for index in stored.range(of: user) {
            let row = stored.rows[index]
            rows.append(
                WorkingRow(day: row.key.day, provenance: row.row.provenance, state: row.row.state, stored: index)
            )
        }
    }

    /// Hands out the row of a source on a day, made if there is none; one that stays without values is not written.
    /// The body says whether the row has to be written and whether its values changed.
    mutating func update(
        _ day: CalendarDay,
        _ provenance: Provenance,
        _ body: (inout SourceDay) -> (write: Bool, valuesChanged: Bool)
    ) {
        let index = place(of: day, provenance)
        let result = body(&rows[index].state)
        if result.write { rows[index].isTouched = true }
        if result.valuesChanged { rows[index].mayDiffer = true }
        hint = index + 1
    }

    /// The canonical day may not be what the stored rows resolve to.
    mutating func force(_ day: CalendarDay, _ provenance: Provenance) {
        rows[place(of: day, provenance)].isForced = true
    }

    /// Whether the row is what it would be with this reading alone.
    func holds(_ reading: Reading, _ provenance: Provenance) -> Bool {
        let closed = reading.closed ? reading.values.mask : []
        let state = SourceDay(values: reading.values, closed: closed, version: reading.version)
        return rows.contains { $0.day == reading.day && $0.provenance == provenance && $0.state == state }
    }

    /// Takes an entry's version over into the stored row. A row that is not there has nothing to take it.
    mutating func fold(_ entry: Window.Entry, _ day: CalendarDay, _ provenance: Provenance) {
        update(day, provenance) { row in
            let before = row
            row.fold(entry)
            return (row != before, false)
        }
    }

    private mutating func place(of day: CalendarDay, _ provenance: Provenance) -> Int {
        if hint < rows.count && rows[hint].day == day && rows[hint].provenance == provenance { return hint }
        var low = 0
        var high = rows.count
        while low < high {
            let middle = (low + high) / 2
            let isBefore = rows[middle].day == day ? rows[middle].provenance < provenance : rows[middle].day < day
            if isBefore { low = middle + 1 } else { high = middle }
        }
        if low < rows.count && rows[low].day == day && rows[low].provenance == provenance { return low }
        rows.insert(WorkingRow(day: day, provenance: provenance, state: SourceDay(), stored: nil), at: low)
        return low
    }

    /// Adds what differs from what is stored.
    ///
    /// The stored canonical day is what the stored rows resolve to (D6), so it need not be read to be compared.
    mutating func addWrites(to writes: inout BatchWrites, _ preferences: Preferences) {
        var start = 0
        while start < rows.count {
            let key = UserDay(user: user, day: rows[start].day)
            var end = start
            var (mayDiffer, isForced) = (false, false)
            while end < rows.count && rows[end].day == key.day {
                if rows[end].mayDiffer { mayDiffer = true }
                if rows[end].isForced { isForced = true }
                // Readings never empty a row, and one that stayed empty is not stored.
                if rows[end].isTouched && !rows[end].state.isEmpty {
                    let row = SourceRow(provenance: rows[end].provenance, state: rows[end].state)
                    let place = rows[end].stored.flatMap { stored.rows[$0].place }
                    writes.sourceRows.append(.init(key: key, row: row, place: place))
                }
                end += 1
            }
            if isForced {
                addCanonical(key, resolved(start..<end, preferences), &writes)
            } else if mayDiffer {
                let day = end - start == 1 ? alone(start) : together(start..<end, preferences)
                addCanonical(key, day, &writes)
            }
            start = end
        }
    }

    private mutating func addCanonical(_ key: UserDay, _ day: CanonicalDay?, _ writes: inout BatchWrites) {
        guard let day, !day.isEmpty else { return }
        let place = stored.canonicalPlace(of: key, near: &canonicalHint)
        writes.canonicalDays.append(.init(key: key, day: day, place: place))
    }

    /// The day of its only row, which wins whatever the rules say; nil where it is what it was.
    private mutating func alone(_ index: Int) -> CanonicalDay? {
        let source = rows[index].provenance.source
        let isFinal = CanonicalDay.isFinal(rows[index].state, of: source)
        if let place = rows[index].stored, stored.rows[place].row.state.values == rows[index].state.values,
            CanonicalDay.isFinal(stored.rows[place].row.state, of: source) == isFinal
        {
            return nil
        }
        let count = rows[index].state.values.mask.count
        if lastWinners.count != count || lastWinners.first != rows[index].provenance {
            lastWinners = Array(repeating: rows[index].provenance, count: count)
        }
        return CanonicalDay(values: rows[index].state.values, winners: lastWinners, isFinal: isFinal)
    }

    private func resolved(_ range: Range<Int>, _ preferences: Preferences) -> CanonicalDay {
        let kept = rows[range].filter { !$0.state.isEmpty }
        let sources = kept.map { SourceRow(provenance: $0.provenance, state: $0.state) }
        return CanonicalDay(resolving: sources, preferences: preferences)
    }

    /// The day of several rows; nil where it is what it was.
    private mutating func together(_ range: Range<Int>, _ preferences: Preferences) -> CanonicalDay? {
        after.removeAll(keepingCapacity: true)
        before.removeAll(keepingCapacity: true)
        for index in range {
            if !rows[index].state.isEmpty {
                after.append(SourceRow(provenance: rows[index].provenance, state: rows[index].state))
            }
            if let place = rows[index].stored { before.append(stored.rows[place].row) }
        }
        return CanonicalDay.changed(
            resolving: after,
            preferences: preferences,
            from: before,
            preferencesBefore: preferences
        )
    }
}

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
    }

    private let stored: StoredDays
    private var user = UserID(high: 0, low: 0)
    /// Sorted by day and provenance.
    private var rows: [WorkingRow] = []
    /// Where the row is that is probably asked for next: a record's days come in order.
    private var hint = 0
    /// Of the last day with a single row: most days have one, and share the list of their winners.
    private var lastWinners: [Provenance] = []

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
            var mayDiffer = false
            while end < rows.count && rows[end].day == key.day {
                if rows[end].mayDiffer { mayDiffer = true }
                // Readings never empty a row, and one that stayed empty is not stored.
                if rows[end].isTouched && !rows[end].state.isEmpty {
                    let row = SourceRow(provenance: rows[end].provenance, state: rows[end].state)
                    let place = rows[end].stored.flatMap { stored.rows[$0].place }
                    writes.sourceRows.append(.init(key: key, row: row, place: place))
                }
                end += 1
            }
            if mayDiffer { addCanonical(key, start..<end, &writes, preferences) }
            start = end
        }
    }

    private mutating func addCanonical(
        _ key: UserDay,
        _ range: Range<Int>,
        _ writes: inout BatchWrites,
        _ preferences: Preferences
    ) {
        let day: CanonicalDay
        if range.count == 1 {
            let row = SourceRow(provenance: rows[range.lowerBound].provenance, state: rows[range.lowerBound].state)
            if let index = rows[range.lowerBound].stored {
                let before = stored.rows[index].row
                if before.state.values == row.state.values
                    && CanonicalDay.isFinal(before) == CanonicalDay.isFinal(row)
                {
                    return
                }
            }
            day = CanonicalDay(of: row, winners: winners(row))
        } else {
            let after = rows[range].filter { !$0.state.isEmpty }.map {
                SourceRow(provenance: $0.provenance, state: $0.state)
            }
            let before = rows[range].compactMap { row in row.stored.map { stored.rows[$0].row } }
            day = CanonicalDay(resolving: after, preferences: preferences)
            if day == CanonicalDay(resolving: before, preferences: preferences) { return }
        }
        guard !day.isEmpty else { return }
        writes.canonicalDays.append(.init(key: key, day: day, place: stored.canonicalPlace(of: key)))
    }

    private mutating func winners(_ row: SourceRow) -> [Provenance] {
        let count = row.state.values.mask.count
        if lastWinners.count != count || lastWinners.first != row.provenance {
            lastWinners = Array(repeating: row.provenance, count: count)
        }
        return lastWinners
    }
}

internal import Domain
internal import Storage

/// The days that a batch of accounts records works on: what is stored, what it becomes, and so what has to be written.
struct DayTable {
    private struct WorkingDay {
        let key: UserDay
        let original: [SourceRow]
        var rows: [SourceRow]
        /// Parallel to `rows`: where the row lies; nil for one that is not stored.
        var places: [RowPlace?]
        /// Parallel to `rows`: the row has to be written.
        var isTouched: [Bool]
        /// A value, a `closed` bit or a pin changed, so the canonical day may have.
        var mayDiffer = false
    }

    private let stored: StoredDays
    private var days: [WorkingDay] = []
    private var places: [UserDay: Int] = [:]

    init(_ stored: StoredDays) {
        self.stored = stored
    }

    /// Hands out the row of a source on a day, made if there is none. The body says whether the row has to be written
    /// and whether its values changed.
    mutating func update(
        _ key: UserDay,
        _ provenance: Provenance,
        _ body: (inout SourceDay) -> (write: Bool, valuesChanged: Bool)
    ) {
        let place = place(of: key)
        var index = days[place].rows.firstIndex { provenance <= $0.provenance } ?? days[place].rows.endIndex
        let exists = index < days[place].rows.endIndex && days[place].rows[index].provenance == provenance
        if !exists {
            days[place].rows.insert(SourceRow(provenance: provenance, state: SourceDay()), at: index)
            days[place].isTouched.insert(false, at: index)
            days[place].places.insert(nil, at: index)
        }
        let result = body(&days[place].rows[index].state)
        if result.write { days[place].isTouched[index] = true }
        if result.valuesChanged { days[place].mayDiffer = true }
        if !exists && days[place].rows[index].state.isEmpty {
            // A row without metrics is not stored.
            days[place].rows.remove(at: index)
            days[place].isTouched.remove(at: index)
            days[place].places.remove(at: index)
            index = 0
        }
    }

    /// Takes an entry's version over into the stored row. A row that is not there has nothing to take it.
    mutating func fold(_ entry: Window.Entry, _ key: UserDay, _ provenance: Provenance) {
        update(key, provenance) { row in
            let before = row
            row.fold(entry)
            return (row != before, false)
        }
    }

    /// Removes what is older than the watermark from one source's row of a day.
    mutating func remove(below watermark: Version, _ key: UserDay, _ provenance: Provenance) {
        update(key, provenance) { row in
            let removed = row.remove(below: watermark)
            return (!removed.isEmpty, !removed.isEmpty)
        }
    }

    /// The canonical day of these may differ although no row does: a pin changed.
    mutating func markForRecompute(_ key: UserDay) {
        let place = place(of: key)
        days[place].mayDiffer = true
    }

    private mutating func place(of key: UserDay) -> Int {
        if let place = places[key] { return place }
        let slice = stored[key]
        let rows = slice.map(\.row)
        let untouched = Array(repeating: false, count: rows.count)
        let new = WorkingDay(key: key, original: rows, rows: rows, places: slice.map(\.place), isTouched: untouched)
        days.append(new)
        places[key] = days.count - 1
        return days.count - 1
    }

    /// Adds what differs from what is stored, in the order of the tables' keys.
    ///
    /// The stored canonical day is what the stored rows resolve to (D6), so it need not be read to be compared.
    mutating func addWrites(
        to writes: inout BatchWrites,
        before: (UserID) -> Preferences,
        after: (UserID) -> Preferences
    ) {
        days.sort { $0.key < $1.key }
        for (place, day) in days.enumerated() { places[day.key] = place }
        for day in days {
            for index in day.rows.indices where day.isTouched[index] {
                if day.rows[index].state.isEmpty {
                    writes.removedSourceRows.append((day.key, day.rows[index].provenance))
                } else {
                    writes.sourceRows.append(.init(key: day.key, row: day.rows[index], place: day.places[index]))
                }
            }
            guard day.mayDiffer else { continue }
            let remaining = day.rows.filter { !$0.state.isEmpty }
            let changed = CanonicalDay.changed(
                resolving: remaining,
                preferences: after(day.key.user),
                from: day.original,
                preferencesBefore: before(day.key.user)
            )
            guard let canonical = changed else { continue }
            if canonical.isEmpty {
                writes.removedCanonicalDays.append(day.key)
            } else {
                let place = stored.canonicalPlace(of: day.key)
                writes.canonicalDays.append(.init(key: day.key, day: canonical, place: place))
            }
        }
    }
}

extension Provenance {
    static func <= (left: Provenance, right: Provenance) -> Bool { !(right < left) }
}

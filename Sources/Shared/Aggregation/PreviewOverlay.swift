internal import Domain
internal import Storage

/// What earlier batches would have written, laid over what a snapshot says. Pure. Grows with what would change, not
/// with what is read.
struct PreviewOverlay {
    private struct Person {
        var account: Account?
        var sources: [Source: AccountSource] = [:]
        /// Nil for a connection that would be removed.
        var connections: [Provenance: StoredConnection?] = [:]
        /// Nil for a row that would be removed.
        var rows: [CalendarDay: [Provenance: SourceRow?]] = [:]
    }

    private var people: [UserID: Person] = [:]

    /// Rows and connections that were taken, those that were taken again among them.
    private(set) var size = 0

    mutating func take(_ writes: BatchWrites) {
        size += writes.sourceRows.count + writes.removedSourceRows.count + writes.connections.count
        for write in writes.accounts { people[write.user, default: Person()].account = write.account }
        for (key, state) in writes.accountSources { people[key.user, default: Person()].sources[key.source] = state }
        for key in writes.removedConnections {
            people[key.user, default: Person()].connections[key.provenance] = .some(nil)
        }
        for write in writes.connections {
            people[write.key.user, default: Person()].connections[write.key.provenance] = write.state
        }
        for (key, provenance) in writes.removedSourceRows {
            people[key.user, default: Person()].rows[key.day, default: [:]][provenance] = .some(nil)
        }
        for write in writes.sourceRows {
            let provenance = write.row.provenance
            people[write.key.user, default: Person()].rows[write.key.day, default: [:]][provenance] = write.row
        }
    }

    func lay(over snapshot: inout BatchSnapshot, of users: [TouchedUser]) {
        guard !people.isEmpty else { return }
        for touched in users {
            let user = touched.user
            guard let person = people[user] else { continue }
            if let account = person.account { snapshot.accounts[user] = account }
            for (source, state) in person.sources {
                snapshot.accountSources[UserSource(user: user, source: source)] = state
            }
            for (provenance, state) in person.connections {
                snapshot.connections[ConnectionKey(user: user, provenance: provenance)] = state
            }
        }
    }

    func laid(over days: StoredDays, _ ranges: [DayRange]) -> StoredDays {
        var written: [UserDay: [Provenance: SourceRow?]] = [:]
        for range in ranges {
            guard let person = people[range.user] else { continue }
            for (day, rows) in person.rows where day >= range.first && day <= range.last {
                written[UserDay(user: range.user, day: day)] = rows
            }
        }
        guard !written.isEmpty else { return days }
        var rows: [StoredDays.Row] = []
        rows.reserveCapacity(days.rows.count)
        for stored in days.rows where written[stored.key]?[stored.row.provenance] == nil { rows.append(stored) }
        for (key, day) in written {
            for row in day.values {
                if let row { rows.append(.init(key: key, row: row, place: nil)) }
            }
        }
        return StoredDays(rows, canonical: [])
    }
}

internal import Domain
internal import MessageContract
internal import Postgres
internal import Storage

/// Makes the monthly partitions that a batch needs before it begins, on a connection of its own: made inside the
/// batch's transaction they would wait for every other batch.
final class MonthKeeper {
    private let connect: () throws(PostgresError) -> PostgresConnection
    private var connection: PostgresConnection?
    private var known: Set<CalendarDay> = []
    /// The month that was asked for last: most days lie in it.
    private var last: (first: CalendarDay, next: CalendarDay)?

    init(connect: @escaping () throws(PostgresError) -> PostgresConnection) {
        self.connect = connect
    }

    func prepare(for records: [DecodedDays]) throws(PostgresError) {
        for record in records.indices {
            for reading in records[record].readings.indices {
                // The day alone: the whole reading is a hundred bytes.
                let day = records[record].readings[reading].day
                if let last, day >= last.first, day < last.next { continue }
                let month = day.firstOfMonth
                if !known.contains(month) { try ensure(month) }
                last = (month, month.advanced(by: 31).firstOfMonth)
            }
        }
    }

    /// What was known may be wrong, since a row found no partition.
    func forget() {
        known.removeAll()
        last = nil
    }

    /// Also lets go of the connection; it is opened again by need.
    func close() {
        connection?.close()
        connection = nil
    }

    private func ensure(_ month: CalendarDay) throws(PostgresError) {
        let open: PostgresConnection
        if let connection, !connection.isBroken { open = connection } else { open = try connect() }
        connection = open
        // Months below the retention floor are not made; the batch suppresses their days.
        try MonthPartitions(open).ensure(containing: month)
        known.insert(month)
    }
}

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

    init(connect: @escaping () throws(PostgresError) -> PostgresConnection) {
        self.connect = connect
    }

    func prepare(for records: [DecodedDays]) throws(PostgresError) {
        for record in records {
            for reading in record.readings {
                let month = reading.day.firstOfMonth
                if known.contains(month) { continue }
                try ensure(month)
            }
        }
    }

    /// What was known may be wrong, since a row found no partition.
    func forget() {
        known.removeAll()
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

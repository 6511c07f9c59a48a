public import Domain
public import Postgres

/// The monthly partitions of `push_sends`: made ahead, dropped once their wakes are old.
public struct WakeMonths {
    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// This month's and the next one's.
    public func ensureAhead(of today: CalendarDay) throws(PostgresError) {
        for month in [today.firstOfMonth, today.firstOfMonth.advanced(by: 32).firstOfMonth] {
            var parameters = PostgresParameters()
            parameters.append(date: month.daysSinceEpoch)
            try connection.executeUnprepared("SELECT ensure_wake_month($1::date)", parameters)
        }
    }

    /// Drops the months all of whose wakes are older than so many days; one that ended less than a month ago stays.
    /// Returns how many were dropped.
    public func drop(olderThan days: Int, today: CalendarDay) throws(PostgresError) -> Int {
        let result = try connection.executeUnprepared(
            """
            SELECT substring(child.relname FROM 'y([0-9]{4})m')::int4, substring(child.relname FROM 'm([0-9]{2})$')::int4
            FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
            WHERE inhparent = to_regclass('push_sends') ORDER BY child.relname
            """
        )
        var dropped = 0
        for row in 0..<result.rowCount {
            guard try !result.isNull(row, 0), try !result.isNull(row, 1) else { continue }
            let (year, month) = (Int(try result.int4(row, 0)), Int(try result.int4(row, 1)))
            guard let first = CalendarDay(year: year, month: month, day: 1) else { continue }
            // The first of the next month is when its youngest wake ends.
            guard first.advanced(by: 32).firstOfMonth <= today.advanced(by: -days) else { continue }
            var parameters = PostgresParameters()
            parameters.append(date: first.daysSinceEpoch)
            let gone = try connection.executeUnprepared("SELECT drop_wake_month($1::date)", parameters)
            if try gone.bool(0, 0) { dropped += 1 }
        }
        return dropped
    }
}

public import Domain
public import Postgres

/// Makes the monthly partitions of both day tables, by need; never inside a batch's transaction.
public struct MonthPartitions {
    private let connection: PostgresConnection

    public init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Makes the partitions of the day's month if they are missing. Returns false for a month below the retention
    /// floor, which is not made.
    @discardableResult
    public func ensure(containing day: CalendarDay) throws(PostgresError) -> Bool {
        var parameters = PostgresParameters()
        parameters.append(date: day.daysSinceEpoch)
        return try connection.executeUnprepared("SELECT ensure_month($1::date)", parameters).bool(0, 0)
    }

    /// From the live lane's oldest day to the end of next month, so that no batch waits for a partition.
    public func ensureAhead(of today: CalendarDay) throws(PostgresError) {
        for month in Self.months(aheadOf: today) { try ensure(containing: month) }
    }

    /// Those months of `ensureAhead` that have not both partitions, or one that is being detached; first days.
    public func missingAhead(of today: CalendarDay) throws(PostgresError) -> [CalendarDay] {
        var missing: [CalendarDay] = []
        for month in Self.months(aheadOf: today) {
            var parameters = PostgresParameters()
            parameters.append(date: month.daysSinceEpoch)
            let result = try connection.executeUnprepared(
                """
                SELECT count(*) = 2 OR $1::date < (SELECT retention_floor FROM control)
                FROM unnest(ARRAY['source_days', 'canonical_days']) AS parent
                JOIN pg_inherits ON inhparent = to_regclass(parent) AND NOT inhdetachpending
                    AND inhrelid = to_regclass(parent || to_char($1::date, '"_y"YYYY"m"MM'))
                """,
                parameters
            )
            if try !result.bool(0, 0) { missing.append(month) }
        }
        return missing
    }

    private static func months(aheadOf today: CalendarDay) -> [CalendarDay] {
        var months = [today.advanced(by: -35).firstOfMonth]
        let last = today.firstOfMonth.advanced(by: 32).firstOfMonth
        while let month = months.last, month < last { months.append(month.advanced(by: 32).firstOfMonth) }
        return months
    }
}

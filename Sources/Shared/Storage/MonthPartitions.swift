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
        var month = today.advanced(by: -35).firstOfMonth
        let last = today.firstOfMonth.advanced(by: 32).firstOfMonth
        while month <= last {
            try ensure(containing: month)
            month = month.advanced(by: 32).firstOfMonth
        }
    }
}

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
}

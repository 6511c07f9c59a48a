import Postgres

extension PostgresConnection {
    /// Runs what may be run twice; where the connection turns out to have been lost, once more on a new one.
    func reconnecting<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as PostgresError where error.disposition == .unavailable {
            try reconnect()
            return try body()
        }
    }
}

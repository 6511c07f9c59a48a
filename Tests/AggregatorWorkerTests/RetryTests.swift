import Postgres
import Testing

@testable import AggregatorWorker

@Suite struct `Why a batch is tried again` {
    @Test(arguments: [
        ("40001", "serialization"), ("40P01", "deadlock"), ("55P03", "lock_timeout"), ("57014", "statement_timeout"),
        ("25P03", "idle_timeout"),
    ])
    func `every state that is tried again has a label of its own`(sqlState: String, label: String) {
        let error = PostgresError(sqlState: sqlState, message: "")
        #expect(error.disposition == .retry)
        #expect(BatchProcessor.Retry(error).rawValue == label)
    }
}

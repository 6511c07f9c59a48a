import DevelopmentStack
import Domain
import Foundation
import Postgres
import Storage
import TestSupport

/// A database behind a proxy that cuts, holds or falsifies what a worker says to it.
struct ProxiedDatabase {
    let proxy: DatabaseProxy
    /// For the worker.
    let url: String

    init(_ pipeline: PipelineUnderTest) throws {
        let cluster = try PrivatePostgres.cluster()
        guard case .running(_, let port) = cluster.status,
            let name = pipeline.databaseURL.firstMatch(of: /@\/([^?]+)\?/)?.1
        else { throw Eventually.TimedOut(what: "a running PostgreSQL") }
        let proxy = try DatabaseProxy { UInt16(exactly: port) }
        self.proxy = proxy
        let direct = try cluster.tcpURL(database: name.removingPercentEncoding ?? String(name))
        url = direct.replacing(":\(port)/", with: ":\(proxy.port)/") + "?sslmode=disable&gssencmode=disable"
    }

    var environment: [String: String] { ["DAYBOOK_DATABASE_URL": url] }

    func waitUntilFired(_ fault: DatabaseProxy.Fault, seconds: Int = 60) throws {
        try Eventually.holds("a COMMIT meets \(fault.rawValue)", seconds: seconds) { proxy.fired(fault) > 0 }
    }
}

extension PipelineUnderTest {
    /// A batch of records, one a user, with so many days each.
    func publish(_ users: Range<Int>, days: Int = 1, steps: Int32 = 1000, over publisher: RecordPublisher) throws {
        for number in users {
            let list = (0..<days).map { (Self.today.advanced(by: -$0), [.steps: steps * 10] as MetricValues) }
            try publisher.publish(
                UserID(high: 5, low: UInt64(number)),
                .appleHealth,
                receivedAt: Self.now,
                localDate: Self.today,
                list
            )
        }
        try publisher.flush()
    }

    /// Sessions of this database that hold a transaction open and do nothing in it.
    func idleTransactions() throws -> Int64 {
        try connection.executeUnprepared(
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND state LIKE 'idle in transaction%'
            """
        ).int8(0, 0)
    }

    /// As an operator does it, while workers run.
    func rewind() throws {
        try connection.simpleQuery(
            "UPDATE consumer_offsets SET next_offset = 0, last_record = NULL, epoch = epoch + 1"
        )
    }

    func positions() throws -> [PartitionName: Int64] {
        Dictionary(uniqueKeysWithValues: try OffsetsStore(connection).all().map { ($0.name, $0.state.nextOffset) })
    }
}

import DevelopmentStack
import Glibc
import Postgres
import Synchronization
import TestSupport
import Testing

/// A connection to a database of its own.
func connectedToFreshDatabase(_ settings: [(String, String)] = []) throws -> PostgresConnection {
    try PostgresConnection(
        url: PrivatePostgres.freshDatabase(),
        applicationName: "conformance",
        settings: PostgresConnection.recommendedSettings + settings
    )
}

@Suite struct PostgresConnectionTests {
    @Test func `session settings are in force from the start`() throws {
        let connection = try connectedToFreshDatabase([("search_path", "a, b"), ("application_name", "x\\y z")])
        let values = try connection.simpleQuery(
            "SHOW lock_timeout; SHOW plan_cache_mode; SHOW search_path; SHOW TimeZone"
        )
        #expect(try values.map { try $0.text(0, 0) } == ["10s", "force_generic_plan", "a, b", "UTC"])
        #expect(connection.serverVersion >= 150_000)
        #expect(connection.backendPID > 0)
    }

    @Test func `a statement runs prepared and unprepared`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery(
            "CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, NULL)"
        )
        let prepared = try connection.prepare(
            "read",
            "SELECT k, v FROM t WHERE k >= $1 ORDER BY k",
            parameterTypes: [.int4]
        )
        var parameters = PostgresParameters()
        parameters.append(int4: 1)
        for result in [
            try connection.execute(prepared, parameters),
            try connection.executeUnprepared("SELECT k, v FROM t WHERE k >= $1 ORDER BY k", parameters),
        ] {
            #expect(result.rowCount == 2)
            #expect(result.commandTag == "SELECT 2")
            #expect(result.columnName(1) == "v")
            #expect(try result.int4(1, 0) == 2)
            #expect(try result.text(0, 1) == "a")
            #expect(try result.isNull(1, 1))
        }
        #expect(try connection.executeUnprepared("UPDATE t SET v = 'b'").affectedRows == 2)
    }

    @Test func `a getter throws instead of trapping`() throws {
        let connection = try connectedToFreshDatabase()
        let result = try connection.executeUnprepared("SELECT 1::int4, NULL::int4, ARRAY[[1,2],[3,4]]")
        #expect(throws: PostgresError.self) { try result.int8(0, 0) }
        #expect(throws: PostgresError.self) { try result.text(0, 0) }
        #expect(throws: PostgresError.self) { try result.int4(0, 1) }
        #expect(throws: PostgresError.self) { try result.int4(1, 0) }
        #expect(throws: PostgresError.self) { try result.int4(0, 3) }
        #expect(throws: PostgresError.self) { try result.int4(-1, 0) }
        #expect(throws: PostgresError.self) { try result.isNull(0, .max) }
        #expect(throws: PostgresError.self) { try result.int4Array(0, 2) }
        #expect(throws: PostgresError.self) { try result.int2Array(0, 2) }
        let text = try connection.simpleQuery("SELECT 1::int4")[0]
        #expect(throws: PostgresError.self) { try text.int4(0, 0) }
        #expect(try text.text(0, 0) == "1")
    }

    @Test func `COMMIT of a failed transaction shows as ROLLBACK`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("BEGIN")
        #expect(connection.transactionStatus == .inTransaction)
        #expect(throws: PostgresError.self) { try connection.simpleQuery("SELECT 1/0") }
        #expect(connection.transactionStatus == .failed)
        let answer = try connection.executeUnprepared("COMMIT")
        #expect(answer.commandTag == "ROLLBACK")
        #expect(!answer.isCommitted)
        #expect(connection.transactionStatus == .idle)
    }

    @Test func `server errors have their disposition and no values`() throws {
        let connection = try connectedToFreshDatabase([("lock_timeout", "50ms")])
        try connection.simpleQuery(
            """
            CREATE TABLE u (k int PRIMARY KEY, v int CONSTRAINT positive CHECK (v > 0));
            INSERT INTO u VALUES (4711, 1);
            CREATE TABLE p (d date) PARTITION BY RANGE (d)
            """
        )
        func failure(_ sql: String) -> PostgresError? {
            #expect(throws: PostgresError.self) { try connection.executeUnprepared(sql) }
        }
        let unique = failure("INSERT INTO u VALUES (4711, 2)")
        #expect(unique?.sqlState == "23505")
        #expect(unique?.disposition == .poison)
        #expect(unique?.constraint == "u_pkey")
        #expect(unique?.table == "u")
        #expect(unique?.description.contains("4711") == false)
        let check = failure("INSERT INTO u VALUES (5, -4711)")
        #expect(check?.disposition == .poison)
        #expect(check?.constraint == "positive")
        #expect(check?.description.contains("4711") == false)
        let partition = failure("INSERT INTO p VALUES ('2026-09-02')")
        #expect(partition?.sqlState == "23514")
        #expect(partition?.disposition == .missingPartition)
        #expect(partition?.table == "p")
        #expect(partition?.description.contains("2026") == false)
        let syntax = failure("SELECT '4711x'::int")
        #expect(syntax?.disposition == .poison)
        #expect(syntax?.description.contains("4711") == false)
        let unknown = failure("SELECT * FROM nowhere")
        #expect(unknown?.disposition == .stop)
        #expect(unknown?.message.contains("nowhere") == true)
        #expect(!connection.isBroken)
    }

    @Test func `time-outs of statements and locks are to be retried`() throws {
        let url = try PrivatePostgres.freshDatabase()
        let first = try PostgresConnection(url: url, applicationName: "first")
        let second = try PostgresConnection(
            url: url,
            applicationName: "second",
            settings: [("lock_timeout", "50ms"), ("statement_timeout", "1s")]
        )
        try first.simpleQuery("CREATE TABLE t (k int); INSERT INTO t VALUES (1)")
        try first.simpleQuery("BEGIN; SELECT * FROM t FOR UPDATE")
        let lock = #expect(throws: PostgresError.self) { try second.simpleQuery("SELECT * FROM t FOR UPDATE") }
        #expect(lock?.sqlState == "55P03")
        #expect(lock?.disposition == .retry)
        try second.simpleQuery("SET statement_timeout = '50ms'")
        let statement = #expect(throws: PostgresError.self) { try second.simpleQuery("SELECT pg_sleep(10)") }
        #expect(statement?.sqlState == "57014")
        #expect(statement?.disposition == .retry)
        #expect(!second.isBroken)
    }

    @Test func `a terminated session is a lost connection until it is made anew`() throws {
        let url = try PrivatePostgres.freshDatabase()
        let connection = try PostgresConnection(url: url, applicationName: "victim")
        let killer = try PostgresConnection(url: url, applicationName: "killer")
        let before = connection.backendPID
        try killer.simpleQuery("SELECT pg_terminate_backend(\(before), 5000)")
        let error = #expect(throws: PostgresError.self) { try connection.simpleQuery("SELECT 1") }
        #expect(error?.connectionLost == true)
        #expect(error?.disposition == .unavailable)
        #expect(connection.isBroken)
        #expect(connection.transactionStatus == .unknown)
        let again = #expect(throws: PostgresError.self) { try connection.simpleQuery("SELECT 1") }
        #expect(again?.connectionLost == true)
        try connection.reconnect()
        #expect(!connection.isBroken)
        #expect(connection.backendPID != before)
        #expect(try connection.simpleQuery("SELECT 1")[0].text(0, 0) == "1")
    }

    @Test func `an idle transaction is ended by the server, to be retried`() throws {
        let connection = try connectedToFreshDatabase([("idle_in_transaction_session_timeout", "20ms")])
        let observer = try connectedToFreshDatabase()
        let pid = connection.backendPID
        try connection.simpleQuery("BEGIN")
        // Waits until the session is gone, with a limit.
        try observer.simpleQuery(
            """
            DO $$ BEGIN
                FOR round IN 1..500 LOOP
                    PERFORM pg_stat_clear_snapshot();
                    EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = \(pid));
                    PERFORM pg_sleep(0.01);
                END LOOP;
            END $$
            """
        )
        let error = #expect(throws: PostgresError.self) { try connection.simpleQuery("SELECT 1") }
        #expect(error?.sqlState == "25P03")
        #expect(error?.disposition == .retry)
        #expect(error?.connectionLost == true)
        #expect(connection.isBroken)
    }

    @Test func `a running statement can be cancelled from another thread`() throws {
        let connection = try connectedToFreshDatabase()
        let canceller = try #require(connection.makeCanceller())
        // Cancelling before the statement runs does nothing, so the helper repeats it until the statement is gone.
        let isDone = Atomic(false)
        try withThread({
            while !isDone.load(ordering: .acquiring) {
                canceller.cancel()
                sched_yield()
            }
        }) {
            let error = #expect(throws: PostgresError.self) { try connection.simpleQuery("SELECT pg_sleep(20)") }
            isDone.store(true, ordering: .releasing)
            #expect(error?.sqlState == "57014")
        }
    }

    @Test func `a silent server is given up`() throws {
        let connection = try connectedToFreshDatabase()
        connection.silenceLimit = .milliseconds(50)
        let error = #expect(throws: PostgresError.self) { try connection.simpleQuery("SELECT pg_sleep(20)") }
        #expect(error?.connectionLost == true)
        #expect(error?.disposition == .unavailable)
        #expect(connection.isBroken)
    }

    @Test func `notices reach the hook`() throws {
        let connection = try connectedToFreshDatabase()
        var notices: [PostgresNotice] = []
        connection.noticeHandler = { notices.append($0) }
        try connection.simpleQuery("DROP TABLE IF EXISTS nothing")
        #expect(notices.map(\.severity) == ["NOTICE"])
        connection.noticeHandler = nil
        try connection.simpleQuery("DROP TABLE IF EXISTS nothing")
        #expect(notices.count == 1)
    }

    @Test func `a refused log-in stops, and an unknown database too`() throws {
        let cluster = try PrivatePostgres.cluster()
        let good = try cluster.tcpURL(database: "postgres")
        _ = try PostgresConnection(url: good, applicationName: "tcp")
        let marker = "wrong-secret"
        let start = try #require(good.range(of: "daybook:"))
        let end = try #require(good.firstIndex(of: "@"))
        let bad = good.replacingCharacters(start.upperBound..<end, with: marker)
        let refused = #expect(throws: PostgresError.self) { _ = try PostgresConnection(url: bad, applicationName: "t") }
        #expect(refused?.sqlState == "28P01")
        #expect(refused?.disposition == .stop)
        #expect(refused?.description.contains(marker) == false)
        let missing = #expect(throws: PostgresError.self) {
            _ = try PostgresConnection(url: cluster.socketURL(database: "missing"), applicationName: "test")
        }
        #expect(missing?.sqlState == "3D000")
        #expect(missing?.disposition == .stop)
    }
}

extension String {
    fileprivate func range(of text: String) -> Range<Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }

    fileprivate func replacingCharacters(_ range: Range<Index>, with text: String) -> String {
        self[..<range.lowerBound] + text + self[range.upperBound...]
    }
}

/// Runs `helper` on a thread of its own while `body` runs here, and waits for it.
func withThread(_ helper: @escaping @Sendable () -> Void, _ body: () throws -> Void) throws {
    final class Work: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
    var thread = pthread_t()
    let work = Unmanaged.passRetained(Work(helper))
    let status = pthread_create(
        &thread,
        nil,
        { context in
            guard let context else { return nil }
            Unmanaged<Work>.fromOpaque(context).takeRetainedValue().run()
            return nil
        },
        work.toOpaque()
    )
    try #require(status == 0)
    defer { pthread_join(thread, nil) }
    try body()
}

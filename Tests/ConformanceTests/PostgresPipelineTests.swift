import Postgres
import TestSupport
import Testing

@Suite struct PostgresPipelineTests {
    @Test func `statements of a pipeline answer in order`() throws {
        let connection = try connectedToFreshDatabase()
        var parameters = PostgresParameters()
        let results = try connection.pipeline { pipeline in
            pipeline.begin()
            pipeline.executeUnprepared("CREATE TABLE t (k int PRIMARY KEY)")
            let insert = pipeline.prepare("insert", "INSERT INTO t VALUES ($1)", parameterTypes: [.int4])
            for key in 0..<3 as Range<Int32> {
                parameters.reset()
                parameters.append(int4: key)
                pipeline.execute(insert, parameters)
            }
            pipeline.executeUnprepared("SELECT sum(k) FROM t")
            pipeline.commit()
        }
        #expect(results.count == 8)
        #expect(try results[6].int8(0, 0) == 3)
        #expect(results[7].isCommitted)
        #expect(connection.transactionStatus == .idle)
        #expect(try connection.simpleQuery("SELECT count(*) FROM t")[0].text(0, 0) == "3")
    }

    @Test func `with syncs inside, answers keep their order, and an error still fails the transaction`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("CREATE TABLE t (k int PRIMARY KEY)")
        try connection.simpleQuery("BEGIN")
        let results = try connection.pipeline { pipeline in
            for key in 0..<3 {
                pipeline.executeUnprepared("INSERT INTO t VALUES (\(key))")
                pipeline.sync()
            }
            pipeline.commit()
        }
        #expect(results.map(\.commandTag) == ["INSERT 0 1", "INSERT 0 1", "INSERT 0 1", "COMMIT"])
        try connection.simpleQuery("BEGIN")
        var thrown: PostgresError?
        do {
            try connection.pipeline { pipeline in
                pipeline.executeUnprepared("INSERT INTO t VALUES (2)")
                pipeline.sync()
                pipeline.executeUnprepared("INSERT INTO t VALUES (3)")
                pipeline.sync()
                pipeline.commit()
            }
        } catch {
            thrown = error
        }
        #expect(thrown?.sqlState == "23505" && thrown?.statementIndex == 0)
        #expect(connection.transactionStatus == .idle)
        #expect(try connection.simpleQuery("SELECT count(*) FROM t")[0].text(0, 0) == "3")
    }

    @Test func `what came back decides what is sent next, in one conversation`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("CREATE TABLE t (k int PRIMARY KEY)")
        try connection.simpleQuery("BEGIN")
        let outcomes = try connection.conversation { pipeline in
            pipeline.executeUnprepared("SELECT 4::int4")
            pipeline.executeUnprepared("SELECT 5::int4")
            for index in 0..<2 {
                let key = try pipeline.result(of: index).int4(0, 0)
                pipeline.executeUnprepared("INSERT INTO t VALUES (\(key))")
                pipeline.sync()
            }
            pipeline.executeUnprepared("SELECT sum(k)::int4 FROM t")
            let sum = try pipeline.result(of: 4).int4(0, 0)
            let again = try pipeline.result(of: 0).int4(0, 0)
            #expect(sum == 9 && again == 4)
        }
        let tags = try outcomes.map { try $0.result().commandTag }
        #expect(tags == ["SELECT 1", "SELECT 1", "INSERT 0 1", "INSERT 0 1", "SELECT 1"])
        try connection.simpleQuery("COMMIT")
        #expect(try connection.simpleQuery("SELECT count(*) FROM t")[0].text(0, 0) == "2")
    }

    @Test func `a conversation that ends early leaves a connection that goes on`() throws {
        struct Enough: Error {}
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("BEGIN")
        #expect(throws: Enough.self) {
            _ = try connection.conversation { pipeline in
                pipeline.executeUnprepared("SELECT 1::int4")
                pipeline.executeUnprepared("SELECT 2::int4")
                _ = try pipeline.result(of: 0)
                throw Enough()
            }
        }
        #expect(connection.transactionStatus == .inTransaction)
        let error = #expect(throws: PostgresError.self) {
            _ = try connection.conversation { pipeline in
                pipeline.executeUnprepared("SELECT 1::int4")
                pipeline.sync()
                pipeline.executeUnprepared("SELECT 1 / 0")
                pipeline.executeUnprepared("SELECT 3::int4")
                let first = try pipeline.result(of: 0).int4(0, 0)
                #expect(first == 1)
                _ = try pipeline.result(of: 2)
            }
        }
        #expect(error?.sqlState == "22012" && error?.statementIndex == 1)
        #expect(connection.transactionStatus == .failed)
        try connection.simpleQuery("ROLLBACK")
        #expect(try connection.simpleQuery("SELECT 1").count == 1)
    }

    @Test func `a conversation ends with the connection`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("BEGIN")
        let error = #expect(throws: PostgresError.self) {
            _ = try connection.conversation { pipeline in
                pipeline.executeUnprepared("SELECT pg_terminate_backend(pg_backend_pid())")
                pipeline.sync()
                pipeline.executeUnprepared("SELECT 1")
                _ = try pipeline.result(of: 1)
            }
        }
        #expect(error?.disposition == .unavailable && connection.isBroken)
        try connection.reconnect()
        #expect(try connection.simpleQuery("SELECT 1").count == 1)
    }

    @Test func `an empty pipeline is harmless`() throws {
        let connection = try connectedToFreshDatabase()
        #expect(try connection.pipeline { _ in }.isEmpty)
        #expect(try connection.simpleQuery("SELECT 1").count == 1)
    }

    @Test func `after an error the rest is skipped and the connection goes on`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("CREATE TABLE t (k int PRIMARY KEY)")
        let outcomes = try connection.pipelineOutcomes { pipeline in
            pipeline.begin()
            pipeline.executeUnprepared("INSERT INTO t VALUES (1)")
            pipeline.executeUnprepared("INSERT INTO t VALUES (1)")
            pipeline.executeUnprepared("INSERT INTO t VALUES (2)")
            pipeline.commit()
        }
        #expect(outcomes.count == 5)
        var kinds = ""
        for outcome in outcomes {
            switch outcome {
            case .finished: kinds += "f"
            case .failed(let error):
                kinds += "e"
                #expect(error.sqlState == "23505")
                #expect(error.statementIndex == 2)
            case .skipped: kinds += "s"
            }
        }
        #expect(kinds == "ffess")
        #expect(connection.transactionStatus == .failed)
        try connection.simpleQuery("ROLLBACK")
        #expect(try connection.simpleQuery("SELECT count(*) FROM t")[0].text(0, 0) == "0")
        let error = #expect(throws: PostgresError.self) {
            try connection.pipeline { $0.executeUnprepared("SELECT 1/0") }
        }
        #expect(error?.sqlState == "22012")
        #expect(try connection.pipeline { $0.executeUnprepared("SELECT 1") }.count == 1)
    }

    @Test func `a pipeline of 5,000 statements with large answers does not block itself`() throws {
        let connection = try connectedToFreshDatabase()
        let echo = try connection.prepare("echo", "SELECT $1, $2", parameterTypes: [.int4, .text])
        let filler = String(repeating: "x", count: 4000)
        var parameters = PostgresParameters()
        let results = try connection.pipeline { pipeline in
            for number in 0..<5000 as Range<Int32> {
                parameters.reset()
                parameters.append(int4: number)
                parameters.append(text: filler)
                pipeline.execute(echo, parameters)
            }
        }
        #expect(results.count == 5000)
        for (index, result) in results.enumerated() where try result.int4(0, 0) != Int32(index) {
            Issue.record("answer \(index) is out of order")
        }
    }

    @Test func `5,000 rows go in as binary arrays`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("CREATE TABLE d (u uuid, day date, v real, PRIMARY KEY (u, day))")
        let upsert = try connection.prepare(
            "upsert",
            """
            INSERT INTO d SELECT * FROM unnest($1, $2, $3)
            ON CONFLICT (u, day) DO UPDATE SET v = excluded.v WHERE d.v IS DISTINCT FROM excluded.v
            """,
            parameterTypes: [.uuidArray, .dateArray, .float4Array]
        )
        var users = PostgresArray(of: .uuid, minimumCapacity: 5000)
        var days = PostgresArray(of: .date, minimumCapacity: 5000)
        var values = PostgresArray(of: .float4, minimumCapacity: 5000)
        var parameters = PostgresParameters()
        for expected in [5000, 0] {
            users.reset()
            days.reset()
            values.reset()
            parameters.reset()
            for number in 0..<5000 {
                users.append(uuidHigh: UInt64(number / 100), low: 1)
                days.append(date: Int32(20_000 + number % 100))
                if number % 7 == 0 { values.appendNull() } else { values.append(float4: Float(number)) }
            }
            parameters.append(users)
            parameters.append(days)
            parameters.append(values)
            #expect(try connection.execute(upsert, parameters).affectedRows == expected)
        }
        let sum = try connection.executeUnprepared("SELECT count(*), sum(v)::float8 FROM d")
        #expect(try sum.int8(0, 0) == 5000)
        #expect(try sum.float8(0, 1) == Double((0..<5000).filter { $0 % 7 != 0 }.reduce(0, +)))
    }

    @Test func `a session that ends inside a pipeline fails what was not answered`() throws {
        let connection = try connectedToFreshDatabase()
        let outcomes = try connection.pipelineOutcomes { pipeline in
            pipeline.executeUnprepared("SELECT 1")
            pipeline.executeUnprepared("SELECT pg_terminate_backend(pg_backend_pid())")
            pipeline.executeUnprepared("SELECT 3")
            pipeline.commit()
        }
        #expect(outcomes.count == 4)
        for outcome in outcomes.suffix(3) {
            guard case .failed(let error) = outcome else {
                Issue.record("answered by a dead session")
                continue
            }
            #expect(error.connectionLost)
            #expect(error.disposition == .unavailable)
        }
        #expect(connection.isBroken)
        try connection.reconnect()
        #expect(try connection.pipeline { $0.executeUnprepared("SELECT 1") }.count == 1)
    }

    @Test func `faulty parameters inside a pipeline apply nothing`() throws {
        let connection = try connectedToFreshDatabase()
        try connection.simpleQuery("CREATE TABLE t (k int)")
        var array = PostgresArray(of: .int4)
        array.append(text: "x")
        var parameters = PostgresParameters()
        parameters.append(array)
        let error = #expect(throws: PostgresError.self) {
            try connection.pipeline { pipeline in
                pipeline.executeUnprepared("INSERT INTO t VALUES (1)")
                pipeline.executeUnprepared("SELECT $1", parameters)
            }
        }
        #expect(error?.statementIndex == 1)
        try connection.reconnect()
        #expect(try connection.simpleQuery("SELECT count(*) FROM t")[0].text(0, 0) == "0")
    }
}

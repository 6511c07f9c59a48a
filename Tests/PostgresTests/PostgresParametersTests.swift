import Testing

@testable import Postgres

@Suite struct PostgresParametersTests {
    @Test func `an array has PostgreSQL's binary form`() {
        var array = PostgresArray(of: .int2)
        array.append(int2: 258)
        array.appendNull()
        var parameters = PostgresParameters()
        parameters.append(array)
        #expect(
            parameters.bytes == [
                0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 1,
                0, 0, 0, 2, 1, 2, 255, 255, 255, 255,
            ]
        )
        #expect(parameters.entries.first?.type == .int2Array)
    }

    @Test func `an empty array has no dimension`() {
        var parameters = PostgresParameters()
        parameters.append(PostgresArray(of: .uuid))
        #expect(parameters.bytes == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0b, 0x86])
    }

    @Test func `an element of another type is a fault, until the reset`() {
        var array = PostgresArray(of: .int2)
        array.append(int4: 1)
        var parameters = PostgresParameters()
        parameters.append(array)
        #expect(parameters.fault != nil)
        parameters.reset()
        array.reset()
        array.append(int2: 1)
        parameters.append(array)
        #expect(parameters.fault == nil)
        #expect(parameters.count == 1)
    }

    @Test func `dates and times saturate at the ends of the range`() {
        #expect(PostgresEpoch.toServer(days: .min) == .min)
        #expect(PostgresEpoch.toServer(days: 10_957) == 0)
        #expect(PostgresEpoch.fromServer(days: .max) == .max)
        #expect(PostgresEpoch.fromServer(days: .max - 1) == .max)
        #expect(PostgresEpoch.toServer(microseconds: .min) == .min)
        #expect(PostgresEpoch.fromServer(microseconds: 0) == 946_684_800_000_000)
    }

    @Test func `the SQLSTATE of a refused connection is found in libpq's text`() {
        let text =
            "connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  28P01: password authentication "
            + "failed for user \"x\"\nLOCATION:  auth_failed, auth.c:326\n"
        let report = ConnectFailure.serverReport(in: text)
        #expect(report?.sqlState == "28P01")
        #expect(report?.message == "password authentication failed for user \"x\"")
        #expect(ConnectFailure.serverReport(in: "FATAL:  ") == nil)
        #expect(ConnectFailure.serverReport(in: "") == nil)
        #expect(ConnectFailure.serverReport(in: "FATAL:  28P01") == nil)
    }
}

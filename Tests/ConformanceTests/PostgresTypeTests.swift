import Postgres
import TestSupport
import Testing

@Suite struct PostgresTypeTests {
    @Test func `each type comes back as it was sent`() throws {
        let connection = try connectedToFreshDatabase()
        let bytes: [UInt8] = [0, 1, 255]
        let text = Array("Zürich 🌙".utf8)
        var parameters = PostgresParameters()
        parameters.append(int2: -2)
        parameters.append(int4: .min)
        parameters.append(int8: .max)
        parameters.append(float4: 83.5)
        parameters.append(float8: -0.1)
        parameters.append(bool: true)
        parameters.append(text: "Zürich 🌙")
        parameters.append(text: text.span)
        parameters.append(bytea: bytes.span)
        parameters.append(uuidHigh: 0x0123_4567_89ab_cdef, low: .max)
        parameters.append(date: 20_698)
        parameters.append(timestamptz: 1_788_383_645_123_456)
        parameters.appendNull(.int4)
        parameters.append(text: "")
        parameters.append(bytea: [UInt8]().span)
        let sql =
            "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $10::text, $11::text, $12::text"
        let result = try connection.executeUnprepared(sql, parameters)
        #expect(try result.int2(0, 0) == -2)
        #expect(try result.int4(0, 1) == .min)
        #expect(try result.int8(0, 2) == .max)
        #expect(try result.float4(0, 3) == 83.5)
        #expect(try result.float8(0, 4) == -0.1)
        #expect(try result.bool(0, 5))
        #expect(try result.text(0, 6) == "Zürich 🌙")
        #expect(try result.withTextBytes(0, 7) { $0.count } == text.count)
        #expect(try result.bytea(0, 8) == bytes)
        #expect(try result.withBytea(0, 8) { $0[2] } == 255)
        #expect(try result.uuid(0, 9) == (0x0123_4567_89ab_cdef, .max))
        #expect(try result.date(0, 10) == 20_698)
        #expect(try result.timestamptz(0, 11) == 1_788_383_645_123_456)
        #expect(try result.isNull(0, 12))
        #expect(try result.text(0, 13) == "")
        #expect(try result.bytea(0, 14).isEmpty)
        #expect(try result.withBytea(0, 14) { $0.count } == 0)
        #expect(try result.text(0, 15) == "01234567-89ab-cdef-ffff-ffffffffffff")
        #expect(try result.text(0, 16) == "2026-09-02")
        #expect(try result.text(0, 17) == "2026-09-02 21:14:05.123456+00")
    }

    @Test func `infinite dates and times are the ends of the range`() throws {
        let connection = try connectedToFreshDatabase()
        let result = try connection.executeUnprepared(
            "SELECT 'infinity'::date, '-infinity'::date, 'infinity'::timestamptz, '-infinity'::timestamptz"
        )
        #expect(try result.date(0, 0) == .max)
        #expect(try result.date(0, 1) == .min)
        #expect(try result.timestamptz(0, 2) == .max)
        #expect(try result.timestamptz(0, 3) == .min)
    }

    @Test func `arrays of each type can be unnested, with NULLs`() throws {
        let connection = try connectedToFreshDatabase()
        var arrays = [
            PostgresType.int2, .int4, .int8, .float4, .float8, .bool, .text, .bytea, .uuid, .date, .timestamptz,
        ].map { PostgresArray(of: $0, minimumCapacity: 2) }
        let bytes: [UInt8] = [7]
        arrays[0].append(int2: 1)
        arrays[1].append(int4: 2)
        arrays[2].append(int8: 3)
        arrays[3].append(float4: 4.5)
        arrays[4].append(float8: 5.5)
        arrays[5].append(bool: true)
        arrays[6].append(text: "six")
        arrays[7].append(bytea: bytes.span)
        arrays[8].append(uuidHigh: 8, low: 9)
        arrays[9].append(date: -1)
        arrays[10].append(timestamptz: -1)
        for index in arrays.indices { arrays[index].appendNull() }
        var parameters = PostgresParameters()
        for array in arrays { parameters.append(array) }
        let list = (1...arrays.count).map { "$\($0)" }.joined(separator: ", ")
        let result = try connection.executeUnprepared("SELECT * FROM unnest(\(list))", parameters)
        #expect(result.rowCount == 2)
        for column in arrays.indices { #expect(try result.isNull(1, column)) }
        #expect(try result.int2(0, 0) == 1)
        #expect(try result.int4(0, 1) == 2)
        #expect(try result.int8(0, 2) == 3)
        #expect(try result.float4(0, 3) == 4.5)
        #expect(try result.float8(0, 4) == 5.5)
        #expect(try result.bool(0, 5))
        #expect(try result.text(0, 6) == "six")
        #expect(try result.bytea(0, 7) == bytes)
        #expect(try result.uuid(0, 8) == (8, 9))
        #expect(try result.date(0, 9) == -1)
        #expect(try result.timestamptz(0, 10) == -1)
        let back = try connection.executeUnprepared("SELECT $1, $2, $3, $4, $7, $10", parameters)
        #expect(try back.int2Array(0, 0) == [1, nil])
        #expect(try back.int4Array(0, 1) == [2, nil])
        #expect(try back.int8Array(0, 2) == [3, nil])
        #expect(try back.float4Array(0, 3) == [4.5, nil])
        #expect(try back.textArray(0, 4) == ["six", nil])
        #expect(try back.dateArray(0, 5) == [-1, nil])
    }

    @Test func `an empty array has no element, and is not NULL`() throws {
        let connection = try connectedToFreshDatabase()
        var parameters = PostgresParameters()
        parameters.append(PostgresArray(of: .uuid))
        parameters.append(PostgresArray(of: .text))
        let result = try connection.executeUnprepared(
            "SELECT cardinality($1), $1 IS NULL, $2, (SELECT count(*) FROM unnest($1))",
            parameters
        )
        #expect(try result.int4(0, 0) == 0)
        #expect(try !result.bool(0, 1))
        #expect(try result.textArray(0, 2) == [])
        #expect(try result.int8(0, 3) == 0)
    }

    @Test func `an array with a wrong element never reaches the server`() throws {
        let connection = try connectedToFreshDatabase()
        var array = PostgresArray(of: .int4)
        array.append(int8: 1)
        var parameters = PostgresParameters()
        parameters.append(array)
        let error = #expect(throws: PostgresError.self) { try connection.executeUnprepared("SELECT $1", parameters) }
        #expect(error?.disposition == .stop)
        #expect(!connection.isBroken)
        #expect(try connection.simpleQuery("SELECT 1").count == 1)
    }
}

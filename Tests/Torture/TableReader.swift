import Foundation
import Postgres
import TestSupport

/// What PostgreSQL holds, read with SQL and decoders of the suite's own, from the documented formats.
struct TableReader {
    let connection: PostgresConnection

    init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    private struct Unreadable: Error, CustomStringConvertible {
        let description: String
    }

    private struct Entry {
        let version: Int64
        let mask: UInt32
    }

    /// Everything, in one snapshot.
    func read() throws -> TableState {
        try connection.simpleQuery("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        defer { _ = try? connection.simpleQuery("ROLLBACK") }
        var state = TableState()
        try readAccounts(into: &state)
        let windows = try readConnections(into: &state)
        try readDevices(into: &state)
        try readSourceDays(windows, into: &state)
        try readCanonicalDays(into: &state)
        return state
    }

    /// The retention floor in days since 1970.
    func floor() throws -> Int {
        Int(try connection.executeUnprepared("SELECT retention_floor FROM control").date(0, 0))
    }

    struct Position {
        let topic: String
        let partition: Int32
        let next: Int64
        let epoch: Int64
        let isBraked: Bool
    }

    func positions() throws -> [Position] {
        let result = try connection.executeUnprepared(
            "SELECT topic, partition, next_offset, epoch, braked_at IS NOT NULL FROM consumer_offsets"
        )
        return try (0..<result.rowCount).map { row in
            Position(
                topic: try result.text(row, 0),
                partition: try result.int4(row, 1),
                next: try result.int8(row, 2),
                epoch: try result.int8(row, 3),
                isBraked: try result.bool(row, 4)
            )
        }
    }

    private func readAccounts(into state: inout TableState) throws {
        let accounts = try connection.executeUnprepared(
            "SELECT user_id::text, deleted_version, coalesce(preferences, ''::bytea) FROM accounts"
        )
        for row in 0..<accounts.rowCount {
            var columns = ["deleted": "\(try accounts.int8(row, 1))"]
            let pins = try accounts.bytea(row, 2)
            for start in stride(from: 0, to: pins.count, by: 10) {
                guard pins.count >= start + 10, ModelMetric.all.indices.contains(Int(pins[start])) else {
                    throw Unreadable(description: "preferences of a length that is no multiple of 10")
                }
                let metric = ModelMetric.all[Int(pins[start])].name
                columns["pin.\(metric)"] = "\(pins[start + 1])/\(Self.word(pins, start + 2, 8))"
            }
            state.set(.accounts, try accounts.text(row, 0), columns)
        }
        let sources = try connection.executeUnprepared(
            "SELECT user_id::text, source, deleted_version, disconnected_at FROM account_sources"
        )
        for row in 0..<sources.rowCount {
            state.set(
                .accountSources,
                "\(try sources.text(row, 0)) \(ModelSource.names[Int(try sources.int2(row, 1))])",
                ["deleted": "\(try sources.int8(row, 2))", "disconnected_at": "\(try sources.int8(row, 3))"]
            )
        }
    }

    /// Returns the windows' entries by the key of the source row that they belong to.
    private func readConnections(into state: inout TableState) throws -> [String: Entry] {
        let result = try connection.executeUnprepared(
            """
            SELECT user_id::text, source, origin, last_push_at, coalesce(recent_window, ''::bytea) FROM connections
            """
        )
        var entries: [String: Entry] = [:]
        for row in 0..<result.rowCount {
            let user = try result.text(row, 0)
            let source = ModelSource.names[Int(try result.int2(row, 1))]
            let origin = try result.text(row, 2)
            state.set(
                .connections,
                "\(user) \(source) '\(origin)'",
                ["last_push_at": "\(try result.int8(row, 3))"]
            )
            let bytes = try result.bytea(row, 4)
            if bytes.isEmpty { continue }
            for (day, entry) in try Self.entries(ofWindow: bytes) {
                entries["\(user) \(ModelDecoder.text(ofDay: day)) \(source) '\(origin)'"] = entry
            }
        }
        return entries
    }

    /// Both formats, by days since 1970: the first has 20 bytes an entry; the second a version for all entries, and one of
    /// their own for some.
    private static func entries(ofWindow bytes: [UInt8]) throws -> [(day: Int, entry: Entry)] {
        guard bytes.count >= 10, [1, 2].contains(bytes[0]) else {
            throw Unreadable(description: "a window of another format")
        }
        let isSecond = bytes[0] == 2
        guard !isSecond || bytes.count >= 23 else { throw Unreadable(description: "a window that is cut short") }
        let newest = Int(Int32(truncatingIfNeeded: word(bytes, 1, 4)))
        let present = word(bytes, 5, 5)
        let own = isSecond ? word(bytes, 10, 5) : present
        let common = isSecond ? word(bytes, 15, 8) : 0
        let places = (0..<35).filter { present >> Int64($0) & 1 == 1 }
        let owners = places.filter { own >> Int64($0) & 1 == 1 }
        let (first, length) = isSecond ? (23 + 8 * owners.count, 12) : (10, 20)
        guard bytes.count == first + length * places.count else {
            throw Unreadable(description: "a window of another length")
        }
        return places.enumerated().map { number, place in
            let start = first + length * number
            var version = isSecond ? common : word(bytes, start, 8)
            if isSecond, let order = owners.firstIndex(of: place) { version = word(bytes, 23 + 8 * order, 8) }
            let mask = word(bytes, isSecond ? start : start + 8, 4)
            return (newest - place, Entry(version: version, mask: UInt32(truncatingIfNeeded: mask)))
        }
    }

    private func readDevices(into state: inout TableState) throws {
        let result = try connection.executeUnprepared(
            """
            SELECT user_id::text, encode(token_hash, 'hex'), registered_version, withdrawn_version,
                concat_ws('/', token, platform, environment, app_id, app_version, os_version, time_zone)
            FROM device_tokens
            """
        )
        for row in 0..<result.rowCount {
            state.set(
                .devices,
                "\(try result.text(row, 0)) \(try result.text(row, 1))",
                [
                    "registered": "\(try result.int8(row, 2))", "withdrawn": "\(try result.int8(row, 3))",
                    "details": try result.text(row, 4),
                ]
            )
        }
    }

    private static let values = ModelMetric.all.map { "round(\($0.name)::float8 * 10)::int8" }.joined(separator: ", ")

    private func readSourceDays(_ windows: [String: Entry], into state: inout TableState) throws {
        let result = try connection.executeUnprepared(
            """
            SELECT user_id::text, day::text, source, origin, closed, version, coalesce(versions, ''::bytea),
                \(Self.values)
            FROM source_days
            """
        )
        for row in 0..<result.rowCount {
            let source = ModelSource.names[Int(try result.int2(row, 2))]
            let key = "\(try result.text(row, 0)) \(try result.text(row, 1)) \(source) '\(try result.text(row, 3))'"
            let closed = try result.int4(row, 4)
            let common = try result.int8(row, 5)
            let exceptions = try result.bytea(row, 6)
            var versions: [Int: Int64] = [:]
            for start in stride(from: 0, to: exceptions.count, by: 9) {
                versions[Int(exceptions[start])] = Self.word(exceptions, start + 1, 8)
            }
            let entry = windows[key]
            var columns: [String: String] = [:]
            for (number, metric) in ModelMetric.all.enumerated() where try !result.isNull(row, 7 + number) {
                var version = versions[number] ?? common
                if let entry, entry.mask >> UInt32(number) & 1 == 1 { version = max(version, entry.version) }
                columns[metric.name] = "\(try result.int8(row, 7 + number))/\(version)/\(closed >> Int32(number) & 1)"
            }
            state.set(.sourceDays, key, columns)
        }
    }

    private func readCanonicalDays(into state: inout TableState) throws {
        let result = try connection.executeUnprepared(
            """
            SELECT user_id::text, day::text, final, winner_sources, winner_origins IS NULL,
                coalesce(winner_origins, '{}'), \(Self.values)
            FROM canonical_days
            """
        )
        for row in 0..<result.rowCount {
            var columns = ["final": try result.bool(row, 2) ? "1" : "0"]
            let sources = try result.bytea(row, 3)
            let hasOrigins = try !result.bool(row, 4)
            let origins = try result.textArray(row, 5)
            var place = 0
            for (number, metric) in ModelMetric.all.enumerated() where try !result.isNull(row, 6 + number) {
                guard sources.indices.contains(place), !hasOrigins || origins.indices.contains(place) else {
                    throw Unreadable(description: "a canonical day with fewer winners than values")
                }
                let origin = hasOrigins ? origins[place] ?? "" : ""
                columns[metric.name] = "\(try result.int8(row, 6 + number))/\(sources[place])/\(origin)"
                place += 1
            }
            state.set(.canonicalDays, "\(try result.text(row, 0)) \(try result.text(row, 1))", columns)
        }
    }

    private static func word(_ bytes: [UInt8], _ start: Int, _ count: Int) -> Int64 {
        var word: UInt64 = 0
        for index in start..<(start + count) where bytes.indices.contains(index) {
            word = word << 8 | UInt64(bytes[index])
        }
        return Int64(bitPattern: word)
    }
}

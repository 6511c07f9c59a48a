/// What one statement answered. It lives on its own: neither the next statement nor a lost connection touches it.
///
/// Getters take the row and the column from 0, and throw where the cell does not exist, is NULL, or has another type.
public final class PostgresResult {
    private let handle: ResultHandle
    public let rowCount: Int
    public let columnCount: Int

    init(_ handle: ResultHandle) {
        self.handle = handle
        rowCount = handle.rowCount
        columnCount = handle.columnCount
    }

    /// `INSERT 0 5`, `COMMIT`, … A COMMIT of a failed transaction succeeds with the tag `ROLLBACK`.
    public var commandTag: String { handle.commandTag }

    /// Whether this answers a COMMIT that really committed.
    public var isCommitted: Bool { commandTag == "COMMIT" }

    /// Rows inserted, updated, deleted or selected; 0 for other commands.
    public var affectedRows: Int { handle.affectedRows }

    public func columnName(_ column: Int) -> String? { handle.columnName(column) }

    public func isNull(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        try cell(row, column) == nil
    }

    public func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        try fixed(row, column, .bool, as: UInt8.self) != 0
    }

    public func int2(_ row: Int, _ column: Int) throws(PostgresError) -> Int16 {
        try fixed(row, column, .int2, as: Int16.self)
    }

    public func int4(_ row: Int, _ column: Int) throws(PostgresError) -> Int32 {
        try fixed(row, column, .int4, as: Int32.self)
    }

    public func int8(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        try fixed(row, column, .int8, as: Int64.self)
    }

    public func float4(_ row: Int, _ column: Int) throws(PostgresError) -> Float {
        Float(bitPattern: try fixed(row, column, .float4, as: UInt32.self))
    }

    public func float8(_ row: Int, _ column: Int) throws(PostgresError) -> Double {
        Double(bitPattern: try fixed(row, column, .float8, as: UInt64.self))
    }

    public func uuid(_ row: Int, _ column: Int) throws(PostgresError) -> (high: UInt64, low: UInt64) {
        let bytes = try value(row, column, .uuid)
        guard bytes.count == 16 else { throw mismatch(row, column) }
        return (bytes.bigEndian(0, as: UInt64.self), bytes.bigEndian(8, as: UInt64.self))
    }

    /// Days since 1970-01-01; ±infinity are the ends of the range.
    public func date(_ row: Int, _ column: Int) throws(PostgresError) -> Int32 {
        PostgresEpoch.fromServer(days: try fixed(row, column, .date, as: Int32.self))
    }

    /// Microseconds since 1970-01-01T00:00:00Z; ±infinity are the ends of the range.
    public func timestamptz(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        PostgresEpoch.fromServer(microseconds: try fixed(row, column, .timestamptz, as: Int64.self))
    }

    /// Any textual type; of a simple query, whose results are text, any type at all.
    public func text(_ row: Int, _ column: Int) throws(PostgresError) -> String {
        String(decoding: try textual(row, column), as: UTF8.self)
    }

    /// As `text`, without making a String.
    public func withTextBytes<R>(_ row: Int, _ column: Int, _ body: (Span<UInt8>) throws -> R) throws -> R {
        try withExtendedLifetime(self) {
            try body(try textual(row, column).assumingMemoryBound(to: UInt8.self).span)
        }
    }

    public func bytea(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8] {
        [UInt8](try value(row, column, .bytea))
    }

    public func withBytea<R>(_ row: Int, _ column: Int, _ body: (Span<UInt8>) throws -> R) throws -> R {
        try withExtendedLifetime(self) {
            try body(try value(row, column, .bytea).assumingMemoryBound(to: UInt8.self).span)
        }
    }

    // MARK: Inside

    /// Of a column that exists.
    func isBinary(_ column: Int, _ type: PostgresType) -> Bool {
        handle.isBinary(column) && handle.type(column) == type
    }

    /// Of a cell that exists; no bytes for NULL. Valid while `self` lives.
    func rawBytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer { handle.rawBytes(row, column) }

    /// The bytes of a cell that exists, nil for NULL; valid while `self` lives.
    private func cell(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard row >= 0, row < rowCount, column >= 0, column < columnCount else {
            throw PostgresError(
                message:
                    "row \(row), column \(column) read from a result of \(rowCount) rows and \(columnCount) columns"
            )
        }
        return handle.bytes(row, column)
    }

    /// The bytes of a binary cell of exactly this type that is not NULL.
    func value(_ row: Int, _ column: Int, _ type: PostgresType) throws(PostgresError) -> UnsafeRawBufferPointer {
        guard let bytes = try cell(row, column) else {
            throw PostgresError(message: "column \(name(column)) is NULL where the program expects a value")
        }
        guard handle.isBinary(column), handle.type(column) == type else { throw mismatch(row, column) }
        return bytes
    }

    private func textual(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer {
        guard let bytes = try cell(row, column) else {
            throw PostgresError(message: "column \(name(column)) is NULL where the program expects text")
        }
        guard !handle.isBinary(column) || PostgresType.textual.contains(handle.type(column)) else {
            throw mismatch(row, column)
        }
        return bytes
    }

    private func fixed<T: FixedWidthInteger>(
        _ row: Int,
        _ column: Int,
        _ type: PostgresType,
        as _: T.Type
    ) throws(PostgresError) -> T {
        let bytes = try value(row, column, type)
        guard bytes.count == MemoryLayout<T>.size else { throw mismatch(row, column) }
        return bytes.bigEndian(0, as: T.self)
    }

    func mismatch(_ row: Int, _ column: Int) -> PostgresError {
        PostgresError(
            message:
                "column \(name(column)) has type \(handle.type(column).rawValue) or a form that the program does not "
                + "expect; program and schema do not fit, run the migrations of this build"
        )
    }

    private func name(_ column: Int) -> String {
        columnName(column) ?? String(column)
    }
}

extension UnsafeRawBufferPointer {
    /// The caller has checked that the bytes are there.
    func bigEndian<T: FixedWidthInteger>(_ offset: Int, as _: T.Type) -> T {
        T(bigEndian: loadUnaligned(fromByteOffset: offset, as: T.self))
    }
}

/// Reading many rows: columns are checked once a result, and cells cost a call or two of libpq's.
extension PostgresResult {
    /// Makes sure that the first columns have exactly these types, in binary form.
    ///
    /// The getters below rely on it; they must be given rows and columns that exist.
    public func require(_ types: [PostgresType]) throws(PostgresError) {
        guard columnCount >= types.count else { throw mismatch(0, columnCount - 1) }
        for column in types.indices where !isBinary(column, types[column]) { throw mismatch(0, column) }
    }

    /// Nil for NULL.
    public func word16(_ row: Int, _ column: Int) throws(PostgresError) -> UInt16? {
        try word(row, column, as: UInt16.self)
    }

    /// Nil for NULL.
    public func word32(_ row: Int, _ column: Int) throws(PostgresError) -> UInt32? {
        try word(row, column, as: UInt32.self)
    }

    /// Nil for NULL.
    public func word64(_ row: Int, _ column: Int) throws(PostgresError) -> UInt64? {
        try word(row, column, as: UInt64.self)
    }

    /// Nil for NULL. Of a type with sixteen bytes.
    public func words128(_ row: Int, _ column: Int) throws(PostgresError) -> (high: UInt64, low: UInt64)? {
        let bytes = rawBytes(row, column)
        if bytes.count == 0 { return nil }
        guard bytes.count == 16 else { throw mismatch(row, column) }
        return (bytes.bigEndian(0, as: UInt64.self), bytes.bigEndian(8, as: UInt64.self))
    }

    /// Where a row lies in its table; nil for NULL.
    public func tid(_ row: Int, _ column: Int) throws(PostgresError) -> (block: UInt32, offset: UInt16)? {
        let bytes = rawBytes(row, column)
        if bytes.count == 0 { return nil }
        guard bytes.count == 6 else { throw mismatch(row, column) }
        return (bytes.bigEndian(0, as: UInt32.self), bytes.bigEndian(4, as: UInt16.self))
    }

    /// Empty for NULL.
    public func plainText(_ row: Int, _ column: Int) -> String {
        let bytes = rawBytes(row, column)
        return bytes.count == 0 ? "" : String(decoding: bytes, as: UTF8.self)
    }

    /// No bytes for NULL.
    public func plainBytes(_ row: Int, _ column: Int) -> [UInt8] { [UInt8](rawBytes(row, column)) }

    /// Whether the cell is NULL or has no bytes.
    public func isEmpty(_ row: Int, _ column: Int) -> Bool { rawBytes(row, column).count == 0 }

    /// Hands out the elements of a one-dimensional array of a type with four bytes, by their place from 0; NULL elements
    /// are passed over. One call of libpq's a row, where as many columns would cost two each.
    public func forEachWord32(_ row: Int, _ column: Int, _ body: (Int, UInt32) throws -> Void) throws {
        let bytes = rawBytes(row, column)
        // NULL, or an array without elements: dimensions, flag, element type.
        if bytes.count == 0 || (bytes.count == 12 && bytes.bigEndian(0, as: Int32.self) == 0) { return }
        guard bytes.count >= 20, bytes.bigEndian(0, as: Int32.self) == 1 else { throw mismatch(row, column) }
        var offset = 20
        for place in 0..<Int(max(0, bytes.bigEndian(12, as: Int32.self))) {
            guard bytes.count - offset >= 4 else { throw mismatch(row, column) }
            let length = bytes.bigEndian(offset, as: Int32.self)
            offset += 4
            if length == -1 { continue }
            guard length == 4, bytes.count - offset >= 4 else { throw mismatch(row, column) }
            try body(place, bytes.bigEndian(offset, as: UInt32.self))
            offset += 4
        }
        guard offset == bytes.count else { throw mismatch(row, column) }
    }

    private func word<T: FixedWidthInteger>(_ row: Int, _ column: Int, as _: T.Type) throws(PostgresError) -> T? {
        let bytes = rawBytes(row, column)
        if bytes.count == 0 { return nil }
        guard bytes.count == MemoryLayout<T>.size else { throw mismatch(row, column) }
        return bytes.bigEndian(0, as: T.self)
    }
}

/// Dates as `word32` gives them.
public enum PostgresDate {
    /// ±infinity are the ends of the range.
    public static func daysSince1970(_ word: Int32) -> Int32 { PostgresEpoch.fromServer(days: word) }
}

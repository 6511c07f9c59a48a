/// One-dimensional arrays; NULL elements are nil.
extension PostgresResult {
    public func int2Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Int16?] {
        try fixedArray(row, column, .int2)
    }

    public func int4Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Int32?] {
        try fixedArray(row, column, .int4)
    }

    public func int8Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Int64?] {
        try fixedArray(row, column, .int8)
    }

    /// Days since 1970-01-01.
    public func dateArray(_ row: Int, _ column: Int) throws(PostgresError) -> [Int32?] {
        let days: [Int32?] = try fixedArray(row, column, .date)
        return days.map { $0.map(PostgresEpoch.fromServer(days:)) }
    }

    public func float4Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Float?] {
        let patterns: [UInt32?] = try fixedArray(row, column, .float4)
        return patterns.map { $0.map(Float.init(bitPattern:)) }
    }

    public func textArray(_ row: Int, _ column: Int) throws(PostgresError) -> [String?] {
        var elements: [String?] = []
        try readArray(row, column, .text) { (bytes) throws(PostgresError) in
            elements.append(bytes.map { String(decoding: $0, as: UTF8.self) })
        }
        return elements
    }

    private func fixedArray<T: FixedWidthInteger>(
        _ row: Int,
        _ column: Int,
        _ element: PostgresType
    ) throws(PostgresError) -> [T?] {
        var elements: [T?] = []
        try readArray(row, column, element) { (bytes) throws(PostgresError) in
            guard let bytes else {
                elements.append(nil)
                return
            }
            guard bytes.count == MemoryLayout<T>.size else { throw self.mismatch(row, column) }
            elements.append(bytes.bigEndian(0, as: T.self))
        }
        return elements
    }

    /// Walks the binary form: dimensions, flag, element type, then per dimension its length and lower bound, then the
    /// elements with a length each, −1 for NULL.
    private func readArray(
        _ row: Int,
        _ column: Int,
        _ element: PostgresType,
        _ read: (UnsafeRawBufferPointer?) throws(PostgresError) -> Void
    ) throws(PostgresError) {
        let bytes = try value(row, column, element.array)
        guard bytes.count >= 12, bytes.bigEndian(8, as: UInt32.self) == element.rawValue else {
            throw mismatch(row, column)
        }
        let dimensions = bytes.bigEndian(0, as: Int32.self)
        if dimensions == 0 { return }
        guard dimensions == 1, bytes.count >= 20 else { throw mismatch(row, column) }
        var remaining = bytes.bigEndian(12, as: Int32.self)
        var offset = 20
        while remaining > 0 {
            guard bytes.count - offset >= 4 else { throw mismatch(row, column) }
            let length = Int(bytes.bigEndian(offset, as: Int32.self))
            offset += 4
            if length < 0 {
                try read(nil)
            } else {
                guard bytes.count - offset >= length else { throw mismatch(row, column) }
                try read(UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + length)]))
                offset += length
            }
            remaining -= 1
        }
        guard offset == bytes.count else { throw mismatch(row, column) }
    }
}

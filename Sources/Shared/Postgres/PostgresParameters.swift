/// The parameters of one execution in binary form, `$1` first. Keep it and `reset()` it: its memory stays, and libpq has
/// copied everything by the time an execution or `PostgresPipeline.execute` returns.
public struct PostgresParameters {
    struct Entry {
        var type: PostgresType
        var start: Int
        /// −1 is NULL.
        var length: Int
    }

    private(set) var bytes: [UInt8] = []
    private(set) var entries: [Entry] = []
    private(set) var fault: String?

    public init() {}

    public var count: Int { entries.count }

    public mutating func reset() {
        bytes.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
        fault = nil
    }

    /// - Parameter type: needed only where the statement is not prepared and the server cannot infer it.
    public mutating func appendNull(_ type: PostgresType = .unspecified) {
        entries.append(Entry(type: type, start: bytes.count, length: -1))
    }

    public mutating func append(int2 value: Int16) {
        add(.int2) { $0.appendBigEndian(value) }
    }

    public mutating func append(int4 value: Int32) {
        add(.int4) { $0.appendBigEndian(value) }
    }

    public mutating func append(int8 value: Int64) {
        add(.int8) { $0.appendBigEndian(value) }
    }

    public mutating func append(float4 value: Float) {
        add(.float4) { $0.appendBigEndian(value.bitPattern) }
    }

    public mutating func append(float8 value: Double) {
        add(.float8) { $0.appendBigEndian(value.bitPattern) }
    }

    public mutating func append(bool value: Bool) {
        add(.bool) { $0.append(value ? 1 : 0) }
    }

    public mutating func append(uuidHigh high: UInt64, low: UInt64) {
        add(.uuid) {
            $0.appendBigEndian(high)
            $0.appendBigEndian(low)
        }
    }

    /// - Parameter daysSince1970: the day.
    public mutating func append(date daysSince1970: Int32) {
        add(.date) { $0.appendBigEndian(PostgresEpoch.toServer(days: daysSince1970)) }
    }

    /// - Parameter microsecondsSince1970: the time.
    public mutating func append(timestamptz microsecondsSince1970: Int64) {
        add(.timestamptz) { $0.appendBigEndian(PostgresEpoch.toServer(microseconds: microsecondsSince1970)) }
    }

    public mutating func append(text value: String) {
        add(.text) { $0.append(contentsOf: value.utf8) }
    }

    /// - Parameter utf8: UTF-8 without NUL; the server refuses anything else (22021).
    public mutating func append(text utf8: Span<UInt8>) {
        let start = bytes.count
        bytes.append(copying: utf8)
        close(.text, from: start)
    }

    public mutating func append(bytea value: Span<UInt8>) {
        let start = bytes.count
        bytes.append(copying: value)
        close(.bytea, from: start)
    }

    /// Copies the array as it is now; it may be reset and refilled afterwards.
    public mutating func append(_ array: borrowing PostgresArray) {
        let type = array.element.array
        if array.isMistyped || type == .unspecified {
            fault = "parameter $\(entries.count + 1) is an array with elements of another type than it was made for"
        }
        let start = bytes.count
        // Dimensions, a flag for NULLs, the element type; then length and lower bound of the one dimension, which an
        // empty array does not have.
        bytes.appendBigEndian(Int32(array.count == 0 ? 0 : 1))
        bytes.appendBigEndian(Int32(array.hasNulls ? 1 : 0))
        bytes.appendBigEndian(array.element.rawValue)
        if array.count > 0 {
            bytes.appendBigEndian(Int32(clamping: array.count))
            bytes.appendBigEndian(Int32(1))
            bytes.append(contentsOf: array.bytes)
        }
        close(type, from: start)
    }

    private mutating func add(_ type: PostgresType, _ write: (inout [UInt8]) -> Void) {
        let start = bytes.count
        write(&bytes)
        close(type, from: start)
    }

    private mutating func close(_ type: PostgresType, from start: Int) {
        entries.append(Entry(type: type, start: start, length: bytes.count - start))
        if bytes.count - start > Int(Int32.max) / 2 {
            fault = "parameter $\(entries.count) is larger than 1 GB; send smaller batches"
        }
    }
}

/// One column of `unnest($1::uuid[], $2::date[], …)`, built element by element in PostgreSQL's binary form.
///
/// Keep it between batches: `reset()` keeps its memory, and no element allocates. An element of another type than the
/// array's makes the statement that uses it fail before anything is sent.
public struct PostgresArray {
    public let element: PostgresType
    public private(set) var count = 0
    private(set) var hasNulls = false
    private(set) var isMistyped = false
    private(set) var bytes: [UInt8] = []

    public init(of element: PostgresType, minimumCapacity: Int = 0) {
        self.element = element
        bytes.reserveCapacity(max(0, min(minimumCapacity, 1 << 20)) * 12)
    }

    public mutating func reset() {
        count = 0
        hasNulls = false
        isMistyped = false
        bytes.removeAll(keepingCapacity: true)
    }

    public mutating func appendNull() {
        count += 1
        hasNulls = true
        bytes.appendBigEndian(Int32(-1))
    }

    public mutating func append(int2 value: Int16) {
        begin(.int2, length: 2)
        bytes.appendBigEndian(value)
    }

    public mutating func append(int4 value: Int32) {
        begin(.int4, length: 4)
        bytes.appendBigEndian(value)
    }

    public mutating func append(int8 value: Int64) {
        begin(.int8, length: 8)
        bytes.appendBigEndian(value)
    }

    public mutating func append(float4 value: Float) {
        begin(.float4, length: 4)
        bytes.appendBigEndian(value.bitPattern)
    }

    public mutating func append(float8 value: Double) {
        begin(.float8, length: 8)
        bytes.appendBigEndian(value.bitPattern)
    }

    public mutating func append(bool value: Bool) {
        begin(.bool, length: 1)
        bytes.append(value ? 1 : 0)
    }

    public mutating func append(uuidHigh high: UInt64, low: UInt64) {
        begin(.uuid, length: 16)
        bytes.appendBigEndian(high)
        bytes.appendBigEndian(low)
    }

    /// - Parameter daysSince1970: the day.
    public mutating func append(date daysSince1970: Int32) {
        begin(.date, length: 4)
        bytes.appendBigEndian(PostgresEpoch.toServer(days: daysSince1970))
    }

    /// - Parameter microsecondsSince1970: the time.
    public mutating func append(timestamptz microsecondsSince1970: Int64) {
        begin(.timestamptz, length: 8)
        bytes.appendBigEndian(PostgresEpoch.toServer(microseconds: microsecondsSince1970))
    }

    public mutating func append(text value: String) {
        begin(.text, length: value.utf8.count)
        bytes.append(contentsOf: value.utf8)
    }

    /// - Parameter utf8: UTF-8 without NUL; the server refuses anything else (22021).
    public mutating func append(text utf8: Span<UInt8>) {
        begin(.text, length: utf8.count)
        bytes.append(copying: utf8)
    }

    public mutating func append(bytea value: Span<UInt8>) {
        begin(.bytea, length: value.count)
        bytes.append(copying: value)
    }

    private mutating func begin(_ type: PostgresType, length: Int) {
        if type != element { isMistyped = true }
        count += 1
        bytes.appendBigEndian(Int32(clamping: length))
    }
}

extension [UInt8] {
    mutating func appendBigEndian(_ value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }

    mutating func append(copying span: Span<UInt8>) {
        span.withUnsafeBufferPointer { append(contentsOf: $0) }
    }
}

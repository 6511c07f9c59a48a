/// One column of `unnest($1::uuid[], $2::date[], …)`, built element by element in PostgreSQL's binary form.
///
/// Keep it between batches: `reset()` keeps its memory, and no element allocates. An element of another type than the
/// array's makes the statement that uses it fail before anything is sent.
public struct PostgresArray {
    public let element: PostgresType
    public private(set) var count = 0
    private(set) var hasNulls = false
    private(set) var isMistyped = false
    /// Longer than what is used: elements are stored into it, which costs a fraction of appending them.
    private var storage: [UInt8]
    private var used = 0

    public init(of element: PostgresType, minimumCapacity: Int = 0) {
        self.element = element
        storage = Array(repeating: 0, count: max(0, min(minimumCapacity, 1 << 20)) * 12)
    }

    var bytes: ArraySlice<UInt8> { storage[..<used] }

    public mutating func reset() {
        count = 0
        hasNulls = false
        isMistyped = false
        used = 0
    }

    public mutating func appendNull() {
        count += 1
        hasNulls = true
        reserve(4)
        store(Int32(-1))
    }

    public mutating func append(int2 value: Int16) {
        begin(.int2, length: 2)
        store(value)
    }

    public mutating func append(int4 value: Int32) {
        append(.int4, word: UInt32(bitPattern: value))
    }

    public mutating func append(int8 value: Int64) {
        begin(.int8, length: 8)
        store(value)
    }

    public mutating func append(float4 value: Float) {
        append(.float4, word: value.bitPattern)
    }

    /// Appends as many elements at once, NULL for nil: a fraction of what they cost one by one.
    public mutating func append(_ more: Int, float4 element: (Int) -> Float?) {
        if self.element != .float4 { isMistyped = true }
        guard more > 0 else { return }
        reserve(8 * more)
        count += more
        var (place, nulls) = (used, false)
        storage.withUnsafeMutableBytes { bytes in
            for index in 0..<more {
                guard let value = element(index) else {
                    nulls = true
                    bytes.storeBytes(of: Int32(-1).bigEndian, toByteOffset: place, as: Int32.self)
                    place += 4
                    continue
                }
                let word = 4 << 32 | UInt64(value.bitPattern)
                bytes.storeBytes(of: word.bigEndian, toByteOffset: place, as: UInt64.self)
                place += 8
            }
        }
        used = place
        if nulls { hasNulls = true }
    }

    /// As many elements of an array of `int4` at once.
    public mutating func append(_ more: Int, int4 element: (Int) -> Int32) {
        if self.element != .int4 { isMistyped = true }
        guard more > 0 else { return }
        reserve(8 * more)
        let start = used
        storage.withUnsafeMutableBytes { bytes in
            for index in 0..<more {
                let word = 4 << 32 | UInt64(UInt32(bitPattern: element(index)))
                bytes.storeBytes(of: word.bigEndian, toByteOffset: start + 8 * index, as: UInt64.self)
            }
        }
        count += more
        used = start + 8 * more
    }

    public mutating func append(float8 value: Double) {
        begin(.float8, length: 8)
        store(value.bitPattern)
    }

    public mutating func append(bool value: Bool) {
        begin(.bool, length: 1)
        store(value ? UInt8(1) : 0)
    }

    public mutating func append(uuidHigh high: UInt64, low: UInt64) {
        begin(.uuid, length: 16)
        store(high)
        store(low)
    }

    public mutating func append(tidBlock block: UInt32, offset: UInt16) {
        begin(.tid, length: 6)
        store(block)
        store(offset)
    }

    /// - Parameter daysSince1970: the day.
    public mutating func append(date daysSince1970: Int32) {
        append(.date, word: UInt32(bitPattern: PostgresEpoch.toServer(days: daysSince1970)))
    }

    /// - Parameter microsecondsSince1970: the time.
    public mutating func append(timestamptz microsecondsSince1970: Int64) {
        begin(.timestamptz, length: 8)
        store(PostgresEpoch.toServer(microseconds: microsecondsSince1970))
    }

    public mutating func append(text value: String) {
        begin(.text, length: value.utf8.count)
        for byte in value.utf8 { store(byte) }
    }

    /// - Parameter utf8: UTF-8 without NUL; the server refuses anything else (22021).
    public mutating func append(text utf8: Span<UInt8>) {
        begin(.text, length: utf8.count)
        store(utf8)
    }

    public mutating func append(bytea value: Span<UInt8>) {
        begin(.bytea, length: value.count)
        store(value)
    }

    // MARK: Inside

    /// Length and element of four bytes at once: the most frequent kind.
    private mutating func append(_ type: PostgresType, word: UInt32) {
        if type != element { isMistyped = true }
        count += 1
        reserve(8)
        store(4 << 32 | UInt64(word))
    }

    /// Also makes room for the element.
    private mutating func begin(_ type: PostgresType, length: Int) {
        if type != element { isMistyped = true }
        count += 1
        reserve(4 + length)
        store(Int32(clamping: length))
    }

    private mutating func reserve(_ more: Int) {
        guard storage.count - used < more else { return }
        storage.append(contentsOf: repeatElement(0, count: max(more, storage.count, 256)))
    }

    /// Into what was reserved.
    private mutating func store<T: FixedWidthInteger>(_ value: T) {
        let start = used
        storage.withUnsafeMutableBytes { $0.storeBytes(of: value.bigEndian, toByteOffset: start, as: T.self) }
        used += MemoryLayout<T>.size
    }

    private mutating func store(_ span: Span<UInt8>) {
        let start = used
        storage.withUnsafeMutableBytes { bytes in
            span.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: bytes[start...]).copyMemory(from: $0) }
        }
        used += span.count
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

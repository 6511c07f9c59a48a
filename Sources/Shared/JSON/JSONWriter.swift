/// Appends JSON to a byte array; commas come by themselves.
public struct JSONWriter {
    public private(set) var bytes: [UInt8]
    private var needsComma = false

    public init(reserving capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    /// Empties the writer and keeps its memory.
    public mutating func reset() {
        bytes.removeAll(keepingCapacity: true)
        needsComma = false
    }

    public mutating func beginObject() {
        separate()
        bytes.append(UInt8(ascii: "{"))
        needsComma = false
    }

    public mutating func endObject() {
        bytes.append(UInt8(ascii: "}"))
        needsComma = true
    }

    public mutating func beginArray() {
        separate()
        bytes.append(UInt8(ascii: "["))
        needsComma = false
    }

    public mutating func endArray() {
        bytes.append(UInt8(ascii: "]"))
        needsComma = true
    }

    /// A key that needs no escaping.
    public mutating func key(_ name: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    public mutating func string(_ text: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 { escape(byte) }
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    /// UTF-8 as it is, but for what JSON wants escaped.
    public mutating func string(_ text: some Sequence<UInt8>) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        for byte in text { escape(byte) }
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    /// A literal that needs no escaping.
    public mutating func string(_ text: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    /// Lets `body` append the inside of a string that needs no escaping.
    public mutating func string(appending body: (inout [UInt8]) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        body(&bytes)
        bytes.append(UInt8(ascii: "\""))
        needsComma = true
    }

    public mutating func integer(_ value: some FixedWidthInteger) {
        separate()
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        append(magnitude: UInt64(truncatingIfNeeded: value.magnitude))
        needsComma = true
    }

    /// A number given in tenths: `84_210` is written `8421`, `88_075` is written `8807.5`.
    public mutating func tenths(_ value: Int32) {
        separate()
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        let magnitude = UInt64(value.magnitude)
        append(magnitude: magnitude / 10)
        let tenth = UInt8(truncatingIfNeeded: magnitude % 10)
        if tenth != 0 {
            bytes.append(UInt8(ascii: "."))
            bytes.append(48 + tenth)
        }
        needsComma = true
    }

    public mutating func bool(_ value: Bool) {
        literal(value ? "true" : "false")
    }

    public mutating func null() {
        literal("null")
    }

    /// JSON that is already written.
    public mutating func raw(_ json: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    private mutating func literal(_ text: StaticString) {
        separate()
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        needsComma = true
    }

    @inline(__always)
    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
    }

    private mutating func append(magnitude: UInt64) {
        guard magnitude >= 10 else {
            bytes.append(48 + UInt8(truncatingIfNeeded: magnitude))
            return
        }
        var divisor: UInt64 = 10
        while magnitude / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            bytes.append(48 + UInt8(truncatingIfNeeded: magnitude / divisor % 10))
            divisor /= 10
        }
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case 0..<0x20, 0x7f:
            let digits: StaticString = "0123456789abcdef"
            for character in "\\u00".utf8 { bytes.append(character) }
            bytes.append(digits.utf8Start[Int(byte >> 4)])
            bytes.append(digits.utf8Start[Int(byte & 15)])
        default: bytes.append(byte)
        }
    }
}

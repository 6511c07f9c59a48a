/// Builds one line of JSON. Every line ends up in a single `write(2)`, so lines of several threads never mix.
struct LogLine {
    /// What a text may hold before it is cut: a line must stay small enough for a pipe to take it whole.
    static let longestText = 1024

    private(set) var bytes: [UInt8]

    init(reservingCapacity capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    mutating func open() {
        bytes.append(UInt8(ascii: "{"))
    }

    /// Closes the object and the line.
    mutating func close() {
        bytes.append(UInt8(ascii: "}"))
        bytes.append(UInt8(ascii: "\n"))
    }

    mutating func append(fields: [UInt8]) {
        guard !fields.isEmpty else { return }
        separate()
        bytes.append(contentsOf: fields)
    }

    mutating func append(_ key: StaticString, _ value: LogValue) {
        append(key.description, value)
    }

    mutating func append(_ key: String, _ value: LogValue) {
        separate()
        string(key)
        bytes.append(UInt8(ascii: ":"))
        switch value {
        case .integer(let number): bytes.append(contentsOf: String(number).utf8)
        // JSON knows neither infinity nor NaN.
        case .double(let number): bytes.append(contentsOf: (number.isFinite ? String(number) : "null").utf8)
        case .flag(let flag): bytes.append(contentsOf: (flag ? "true" : "false").utf8)
        case .constant(let text): string(text.description)
        case .text(let text): string(text)
        }
    }

    mutating func append(_ key: StaticString, time microseconds: Int64) {
        separate()
        string(key.description)
        bytes.append(UInt8(ascii: ":"))
        bytes.append(UInt8(ascii: "\""))
        Timestamp.append(microseconds: microseconds, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func separate() {
        guard let last = bytes.last, last != UInt8(ascii: "{") else { return }
        bytes.append(UInt8(ascii: ","))
    }

    private mutating func string(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        let utf8 = text.utf8
        if utf8.count <= Self.longestText {
            for byte in utf8 { escaped(byte) }
        } else {
            // Cut between scalars, so that what is left is valid UTF-8.
            var room = Self.longestText
            for scalar in text.unicodeScalars {
                let encoded = UTF8.encode(scalar)
                guard let encoded, encoded.count <= room else { break }
                room -= encoded.count
                for byte in encoded { escaped(byte) }
            }
            for byte in "…".utf8 { bytes.append(byte) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escaped(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case UInt8(ascii: "\n"): bytes.append(contentsOf: "\\n".utf8)
        case UInt8(ascii: "\r"): bytes.append(contentsOf: "\\r".utf8)
        case UInt8(ascii: "\t"): bytes.append(contentsOf: "\\t".utf8)
        case 0..<0x20, 0x7f:
            bytes.append(contentsOf: "\\u00".utf8)
            bytes.append(Self.hexadecimal(byte >> 4))
            bytes.append(Self.hexadecimal(byte & 15))
        default: bytes.append(byte)
        }
    }

    private static func hexadecimal(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10
    }
}

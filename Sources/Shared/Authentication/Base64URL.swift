/// Base64url without padding (RFC 7515), strict: no padding, no white space, no stray bits at the end.
public enum Base64URL {
    public static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: (bytes.count * 4 + 2) / 3) { text, count in
            var accumulator: UInt32 = 0
            var bits = 0
            for byte in bytes {
                accumulator = accumulator << 8 | UInt32(byte)
                bits += 8
                while bits >= 6 {
                    bits -= 6
                    text.initializeElement(at: count, to: character(accumulator >> UInt32(bits) & 63))
                    count += 1
                }
            }
            guard bits > 0 else { return }
            text.initializeElement(at: count, to: character(accumulator << UInt32(6 - bits) & 63))
            count += 1
        }
    }

    /// Appends the decoded bytes; false leaves `bytes` with a part of them.
    static func decode(_ text: UnsafeBufferPointer<UInt8>, into bytes: inout [UInt8]) -> Bool {
        guard text.count % 4 != 1 else { return false }
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: text.count * 3 / 4))
        // One look at the table for all characters, through a pointer: an inline array is copied for each.
        return values.span.withUnsafeBufferPointer { values in
            bytes.withUnsafeMutableBufferPointer {
                decode(text, values, UnsafeMutableBufferPointer(rebasing: $0[start...]))
            }
        }
    }

    /// `bytes` has room for three quarters of the text.
    private static func decode(
        _ text: UnsafeBufferPointer<UInt8>,
        _ values: UnsafeBufferPointer<UInt8>,
        _ bytes: UnsafeMutableBufferPointer<UInt8>
    ) -> Bool {
        var end = 0
        var accumulator: UInt32 = 0
        var bits = 0
        for character in text {
            let value = values[Int(character)]
            guard value < 64 else { return false }
            accumulator = accumulator << 6 | UInt32(value)
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes[end] = UInt8(truncatingIfNeeded: accumulator >> UInt32(bits))
                end += 1
            }
        }
        return accumulator & (1 << UInt32(bits) - 1) == 0
    }

    private static func character(_ value: UInt32) -> UInt8 {
        switch UInt8(truncatingIfNeeded: value) {
        case let value where value < 26: 65 + value
        case let value where value < 52: 71 + value
        case let value where value < 62: value - 4
        case 62: UInt8(ascii: "-")
        default: UInt8(ascii: "_")
        }
    }

    private static let values: InlineArray<256, UInt8> = {
        var table: InlineArray<256, UInt8> = InlineArray(repeating: 255)
        for value in UInt32(0)..<64 { table[Int(character(value))] = UInt8(value) }
        return table
    }()
}

/// Base64url without padding (RFC 7515), strict: no padding, no white space, no stray bits at the end.
public enum Base64URL {
    public static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let done = bytes.withContiguousStorageIfAvailable { encode(contiguous: UnsafeRawBufferPointer($0)) }
        return done ?? Array(bytes).withUnsafeBytes { encode(contiguous: $0) }
    }

    private static func encode(contiguous bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: length(of: bytes.count)) { text, count in
            if let place = UnsafeMutableRawPointer(text.baseAddress) { count = encode(bytes, to: place) }
        }
    }

    /// How many characters so many bytes become.
    public static func length(of count: Int) -> Int { (count * 4 + 2) / 3 }

    /// Writes `length(of: bytes.count)` characters to a place that has them, and gives their number.
    public static func encode(_ bytes: UnsafeRawBufferPointer, to place: UnsafeMutableRawPointer) -> Int {
        let text = place.assumingMemoryBound(to: UInt8.self)
        // Each number is below 64, the table's length.
        let characters = alphabet.utf8Start
        var index = 0
        var count = 0
        while index + 3 <= bytes.count {
            let group = Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
            text[count] = characters[group >> 18]
            text[count + 1] = characters[group >> 12 & 63]
            text[count + 2] = characters[group >> 6 & 63]
            text[count + 3] = characters[group & 63]
            index += 3
            count += 4
        }
        guard index < bytes.count else { return count }
        let first = Int(bytes[index])
        text[count] = characters[first >> 2]
        guard index + 1 < bytes.count else {
            text[count + 1] = characters[first << 4 & 63]
            return count + 2
        }
        let second = Int(bytes[index + 1])
        text[count + 1] = characters[(first << 4 | second >> 4) & 63]
        text[count + 2] = characters[second << 2 & 63]
        return count + 3
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

    private static let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

    private static let values: InlineArray<256, UInt8> = {
        var table: InlineArray<256, UInt8> = InlineArray(repeating: 255)
        for value in 0..<64 { table[Int(alphabet.utf8Start[value])] = UInt8(value) }
        return table
    }()
}

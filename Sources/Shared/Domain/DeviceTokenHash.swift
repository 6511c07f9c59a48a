/// What a device token is known by: its SHA-256. The key of its records, in lower-case hex.
public struct DeviceTokenHash: Hashable, Comparable, Sendable {
    private let words: InlineArray<4, UInt64>

    public init(_ digest: InlineArray<32, UInt8>) {
        words = InlineArray { word in
            var value: UInt64 = 0
            for byte in 0..<8 { value = value << 8 | UInt64(digest[word * 8 + byte]) }
            return value
        }
    }

    /// Reads 64 digits, in either case.
    public init?(ascii: Span<UInt8>) {
        guard ascii.count == 64 else { return nil }
        var digest = InlineArray<32, UInt8>(repeating: 0)
        for index in 0..<64 {
            guard let digit = hexDigit(ascii[index]) else { return nil }
            digest[index / 2] = digest[index / 2] << 4 | digit
        }
        self.init(digest)
    }

    public var bytes: [UInt8] {
        (0..<32).map { UInt8(truncatingIfNeeded: words[$0 / 8] >> UInt64(56 - $0 % 8 * 8)) }
    }

    /// The record's key.
    public var hex: [UInt8] {
        bytes.flatMap { byte in
            [byte >> 4, byte & 15].map { $0 < 10 ? 48 + $0 : 87 + $0 }
        }
    }

    public static func == (left: DeviceTokenHash, right: DeviceTokenHash) -> Bool {
        for index in 0..<4 where left.words[index] != right.words[index] { return false }
        return true
    }

    public func hash(into hasher: inout Hasher) {
        for index in 0..<4 { hasher.combine(words[index]) }
    }

    public static func < (left: DeviceTokenHash, right: DeviceTokenHash) -> Bool {
        for index in 0..<4 where left.words[index] != right.words[index] {
            return left.words[index] < right.words[index]
        }
        return false
    }
}

/// A UUID as two words, compared in the order of its text; without Foundation, whose UUID costs ten times as much to
/// read.
public struct UUID128: Hashable, Comparable, Sendable {
    public let high: UInt64
    public let low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Reads the 36-byte text form, in either case.
    public init?(ascii: Span<UInt8>) {
        guard ascii.count == 36 else { return nil }
        let dash = UInt8(ascii: "-")
        guard ascii[8] == dash, ascii[13] == dash, ascii[18] == dash, ascii[23] == dash else { return nil }
        // What is no digit is only noticed at the end: whether one is a letter nobody can guess, and a wrong guess costs
        // more than a digit.
        var isBad: UInt8 = 0
        func digits(_ range: Range<Int>, behind word: UInt64) -> UInt64 {
            var word = word
            for index in range {
                let digit = ascii[index] &- 48
                let letter = (ascii[index] | 32) &- 97
                let isDigit: UInt8 = digit < 10 ? 1 : 0
                let isLetter: UInt8 = letter < 6 ? 1 : 0
                isBad |= 1 &- (isDigit | isLetter)
                word = word << 4 | UInt64(isDigit &* digit | isLetter &* (letter &+ 10))
            }
            return word
        }
        let high = digits(14..<18, behind: digits(9..<13, behind: digits(0..<8, behind: 0)))
        let low = digits(24..<36, behind: digits(19..<23, behind: 0))
        guard isBad == 0 else { return nil }
        self.init(high: high, low: low)
    }

    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(ascii: bytes.span)
    }

    /// A UUID of version 7: 48 bits of Unix milliseconds, then random bits.
    public static func version7(at instant: Instant, random: (UInt64, UInt64)) -> UUID128 {
        let milliseconds = UInt64(clamping: instant.microseconds / 1000)
        return UUID128(
            high: milliseconds << 16 | 0x7000 | random.0 & 0x0fff,
            low: 0x8000_0000_0000_0000 | random.1 & 0x3fff_ffff_ffff_ffff
        )
    }

    /// Appends the lower-case text form, 36 bytes of ASCII.
    public func append(to bytes: inout [UInt8]) {
        let text = ascii
        bytes.reserveCapacity(bytes.count + 36)
        for index in 0..<36 { bytes.append(text[index]) }
    }

    /// The lower-case text form.
    public var ascii: InlineArray<36, UInt8> {
        let (first, second, third, fourth) = digits
        var text = InlineArray<36, UInt8>(repeating: UInt8(ascii: "-"))
        for index in 0..<4 {
            let (lower, upper) = (UInt64(index * 8), UInt64(index * 8 + 32))
            text[index] = UInt8(truncatingIfNeeded: first >> lower)
            text[index + 4] = UInt8(truncatingIfNeeded: first >> upper)
            text[index + 9] = UInt8(truncatingIfNeeded: second >> lower)
            text[index + 14] = UInt8(truncatingIfNeeded: second >> upper)
            text[index + 19] = UInt8(truncatingIfNeeded: third >> lower)
            text[index + 24] = UInt8(truncatingIfNeeded: third >> upper)
            text[index + 28] = UInt8(truncatingIfNeeded: fourth >> lower)
            text[index + 32] = UInt8(truncatingIfNeeded: fourth >> upper)
        }
        return text
    }

    /// The 32 digits of the text form without its dashes, eight in a word, the first in the lowest byte.
    public var digits: (UInt64, UInt64, UInt64, UInt64) {
        (Self.digits(high >> 32), Self.digits(high), Self.digits(low >> 32), Self.digits(low))
    }

    /// The eight digits of the lower 32 bits, the first in the lowest byte: all at once.
    private static func digits(_ word: UInt64) -> UInt64 {
        var spread = word & 0xffff_ffff
        spread = (spread & 0xffff) << 32 | spread >> 16
        spread = (spread & 0x0000_00ff_0000_00ff) << 16 | (spread & 0x0000_ff00_0000_ff00) >> 8
        spread = (spread & 0x000f_000f_000f_000f) << 8 | (spread & 0x00f0_00f0_00f0_00f0) >> 4
        // One for each digit from ten on: those are letters.
        let letters = (spread &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return spread &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
    }

    public static func < (left: UUID128, right: UUID128) -> Bool {
        left.high == right.high ? left.low < right.low : left.high < right.high
    }
}

extension UUID128: CustomStringConvertible {
    public var description: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(36)
        append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// The person whose days these are; the key of every record.
public typealias UserID = UUID128
/// Names one accepted request; UUIDv7.
public typealias EventID = UUID128

/// What a hexadecimal digit stands for, in either case; nil if it is none.
func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 48...57: byte - 48
    case 65...70: byte - 55
    case 97...102: byte - 87
    default: nil
    }
}

/// Decimal numbers as text, eight digits at once and without a branch for how many there are.
public enum DecimalText {
    /// How many bytes `writeTenths` may store, whatever the number.
    public static let tenthsRoom = 24

    /// Writes a number given in tenths, as `JSONWriter.tenths` does, and gives its length; `tenthsRoom` bytes are there.
    @inlinable
    @inline(__always)
    public static func writeTenths(_ value: Int32, to place: UnsafeMutableRawPointer) -> Int {
        // Nearly all numbers are of this kind.
        guard value >= 0, value < 1_000_000_000 else { return writeRareTenths(value, to: place) }
        return writeTenths(below: UInt64(UInt32(bitPattern: value)), to: place)
    }

    /// Of a number below 10^9.
    @inlinable
    @inline(__always)
    static func writeTenths(below value: UInt64, to place: UnsafeMutableRawPointer) -> Int {
        let whole = (value &* 3_435_973_837) &>> 35
        let tenth = value &- whole &* 10
        let digits = write(whole, to: place)
        place.storeBytes(
            of: (UInt16(truncatingIfNeeded: tenth) &+ 0x30) &<< 8 | 0x2e,
            toByteOffset: digits,
            as: UInt16.self
        )
        return digits &+ (tenth == 0 ? 0 : 2)
    }

    /// Writes a number below 10^8: eight bytes are stored, its digits first.
    @inlinable
    @inline(__always)
    static func write(_ number: UInt64, to place: UnsafeMutableRawPointer) -> Int {
        // Fours, pairs, digits: each step cuts all parts in two, the first ones lowest.
        let high = (number &* 3_518_437_209) &>> 45
        let fours = high | (number &- high &* 10_000) &<< 32
        let hundreds = (fours &* 10_486) &>> 20 & 0x0000_007f_0000_007f
        let pairs = hundreds | (fours &- hundreds &* 100) &<< 16
        let tens = (pairs &* 103) &>> 10 & 0x000f_000f_000f_000f
        let digits = tens | (pairs &- tens &* 10) &<< 8
        // The zeros in front, seven at most.
        let leading = min(digits.trailingZeroBitCount &>> 3, 7)
        let text = (digits | 0x3030_3030_3030_3030) &>> UInt64(truncatingIfNeeded: leading &* 8)
        place.storeBytes(of: text.littleEndian, as: UInt64.self)
        return 8 &- leading
    }

    @usableFromInline
    @inline(never)
    static func writeRareTenths(_ value: Int32, to place: UnsafeMutableRawPointer) -> Int {
        var start = 0
        if value < 0 {
            place.storeBytes(of: UInt8(ascii: "-"), as: UInt8.self)
            start = 1
        }
        let magnitude = UInt64(value.magnitude)
        if magnitude >= 1_000_000_000 {
            // Nine or ten digits before the point: the first one or two apart.
            let front = magnitude / 1_000_000_000
            start += write(front, to: place + start)
            let rest = magnitude % 1_000_000_000
            return start + writeTenthsWithZeros(rest, to: place + start)
        }
        return start + writeTenths(below: magnitude, to: place + start)
    }

    /// Eight digits before the point, zeros in front included.
    private static func writeTenthsWithZeros(_ value: UInt64, to place: UnsafeMutableRawPointer) -> Int {
        var whole = value / 10
        for offset in stride(from: 7, through: 0, by: -1) {
            place.storeBytes(of: 48 + UInt8(truncatingIfNeeded: whole % 10), toByteOffset: offset, as: UInt8.self)
            whole /= 10
        }
        guard value % 10 != 0 else { return 8 }
        place.storeBytes(of: UInt8(ascii: "."), toByteOffset: 8, as: UInt8.self)
        place.storeBytes(of: 48 + UInt8(truncatingIfNeeded: value % 10), toByteOffset: 9, as: UInt8.self)
        return 10
    }
}

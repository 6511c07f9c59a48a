/// A key of an object as it is written, quotes and colon included; made once, where it is written again and again.
public struct JSONKey: Sendable {
    /// What a writer makes room for: the whole of `bytes` is stored, whatever the key's length.
    static let room = 32

    let bytes: SIMD32<UInt8>
    let length: Int

    /// A name of at most 29 ASCII bytes that needs no escaping; of a longer one nothing but `""` is left.
    public init(_ name: StaticString) {
        var bytes = SIMD32<UInt8>(repeating: 0)
        let count = name.utf8CodeUnitCount <= Self.room - 3 ? name.utf8CodeUnitCount : 0
        bytes[0] = UInt8(ascii: "\"")
        for index in 0..<count { bytes[index + 1] = name.utf8Start[index] }
        bytes[count + 1] = UInt8(ascii: "\"")
        bytes[count + 2] = UInt8(ascii: ":")
        self.bytes = bytes
        length = count + 3
    }
}

/// Decimal digits, two at a time.
enum DigitPairs {
    private static let text: StaticString = """
        00010203040506070809101112131415161718192021222324252627282930313233343536373839\
        40414243444546474849505152535455565758596061626364656667686970717273747576777879\
        8081828384858687888990919293949596979899
        """

    /// The two digits of a number below 100, in the order of memory.
    @inline(__always)
    static func pair(_ number: UInt32) -> UInt16 {
        // Beyond 99 the digits would be wrong, but still inside the text.
        UnsafeRawPointer(text.utf8Start).loadUnaligned(fromByteOffset: Int(min(number, 99)) * 2, as: UInt16.self)
    }

    /// Writes a number's digits and gives how many there are; ten bytes have room there.
    @inline(__always)
    static func write(_ number: UInt32, to place: UnsafeMutableRawPointer) -> Int {
        if number < 10_000 { return writeSmall(number, to: place) }
        if number >= 100_000_000 { return writeLarge(number, to: place) }
        let high = number / 10_000
        let digits = writeSmall(high, to: place)
        writeFour(number - high * 10_000, to: place + digits)
        return digits + 4
    }

    /// From 10^8 on.
    @inline(never)
    private static func writeLarge(_ number: UInt32, to place: UnsafeMutableRawPointer) -> Int {
        let high = number / 100_000_000
        let rest = number - high * 100_000_000
        let digits = writePair(high, to: place)
        writeFour(rest / 10_000, to: place + digits)
        writeFour(rest % 10_000, to: place + digits + 4)
        return digits + 8
    }

    /// Below 10,000, without leading zeros.
    @inline(__always)
    private static func writeSmall(_ number: UInt32, to place: UnsafeMutableRawPointer) -> Int {
        let high = number / 100
        let low = number - high * 100
        if high == 0 { return writePair(low, to: place) }
        let digits = writePair(high, to: place)
        place.storeBytes(of: pair(low), toByteOffset: digits, as: UInt16.self)
        return digits + 2
    }

    /// Below 10,000, with leading zeros.
    @inline(__always)
    private static func writeFour(_ number: UInt32, to place: UnsafeMutableRawPointer) {
        place.storeBytes(of: pair(number / 100), as: UInt16.self)
        place.storeBytes(of: pair(number % 100), toByteOffset: 2, as: UInt16.self)
    }

    /// One digit or two.
    @inline(__always)
    private static func writePair(_ number: UInt32, to place: UnsafeMutableRawPointer) -> Int {
        if number < 10 {
            place.storeBytes(of: 48 + UInt8(truncatingIfNeeded: number), as: UInt8.self)
            return 1
        }
        place.storeBytes(of: pair(number), as: UInt16.self)
        return 2
    }
}

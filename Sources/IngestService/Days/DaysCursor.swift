import Domain
import JSON
import MessageContract

/// A place in a body. It may pass the body's end by some bytes of padding: `PlainDays` says by how many.
struct DaysCursor {
    var place: UnsafeRawPointer
    let end: UnsafeRawPointer
    /// What was read of the days is written as a record would have it.
    var isRecordText = true

    @inline(__always)
    init(place: UnsafeRawPointer, end: UnsafeRawPointer) {
        self.place = place
        self.end = end
    }

    @inline(__always)
    var isInside: Bool { place < end }

    @inline(__always)
    private var byte: UInt8 { place.load(as: UInt8.self) }

    @inline(__always)
    private func word(_ offset: Int) -> UInt64 {
        UInt64(littleEndian: place.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    @inline(__always)
    mutating func skipSpace() {
        guard byte <= 0x20 else { return }
        isRecordText = false
        while place < end, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { place += 1 }
    }

    @inline(__always)
    mutating func take(_ wanted: UInt8) -> Bool {
        guard byte == wanted else { return false }
        place += 1
        return true
    }

    @inline(__always)
    func isAt(_ wanted: UInt8) -> Bool { byte == wanted }

    @inline(__always)
    mutating func takeNull() -> Bool {
        guard word(0) & 0xffff_ffff == 0x6c6c_756e else { return false }
        place += 4
        return true
    }

    /// ASCII without escapes.
    @inline(__always)
    mutating func takeText() -> JSONText? {
        guard take(UInt8(ascii: "\"")) else { return nil }
        let start = place
        while place < end {
            let word = word(0)
            // The lowest byte that is marked is exact; those above may be marked for a carry.
            let quotes = Self.zeroBytes(word ^ 0x2222_2222_2222_2222)
            let escapes = Self.zeroBytes(word ^ 0x5c5c_5c5c_5c5c_5c5c)
            let controls = (word &- 0x2020_2020_2020_2020) & ~word
            let marked = (quotes | escapes | controls | word) & 0x8080_8080_8080_8080
            guard marked != 0 else {
                place += 8
                continue
            }
            place += marked.trailingZeroBitCount >> 3
            guard place < end, byte == UInt8(ascii: "\"") else { return nil }
            let text = JSONText(start: start.assumingMemoryBound(to: UInt8.self), count: place - start)
            place += 1
            return text
        }
        return nil
    }

    @inline(__always)
    private static func zeroBytes(_ word: UInt64) -> UInt64 {
        (word &- 0x0101_0101_0101_0101) & ~word
    }

    /// `"YYYY-MM-DD"`.
    @inline(__always)
    mutating func takeDate(_ month: inout MonthMemo) -> CalendarDay? {
        let quote = UInt8(ascii: "\"")
        guard byte == quote, place.load(fromByteOffset: 11, as: UInt8.self) == quote else { return nil }
        let text = JSONText(start: (place + 1).assumingMemoryBound(to: UInt8.self), count: 10)
        guard let date = month.read(text) else { return nil }
        place += 12
        return date
    }

    /// A number inside its range, of at most seven digits before the point, and none or one that is not zero behind it;
    /// 0, without moving on, for whatever else there is. What stands behind it has to be looked at: the number might go
    /// on there.
    @inline(__always)
    mutating func takeShortNumber(_ range: PlainRange) -> Int32 {
        let first = word(0)
        let digits = Self.digitCount(first)
        // Eight digits might be more. Zeros in front are no JSON.
        guard digits >= 1, digits <= 7, digits == 1 || first & 0xff != 0x30 else { return 0 }
        let whole = Int32(truncatingIfNeeded: Self.number(first, digits)) &* 10
        guard place.load(fromByteOffset: digits, as: UInt8.self) == UInt8(ascii: ".") else {
            guard range.contains(whole) else { return 0 }
            place += digits
            return whole
        }
        let tenth = place.load(fromByteOffset: digits &+ 1, as: UInt8.self) &- 0x30
        let next = place.load(fromByteOffset: digits &+ 2, as: UInt8.self) &- 0x30
        let tenths = whole &+ Int32(tenth)
        guard tenth &- 1 < 9, next > 9, !range.isWhole, range.contains(tenths) else { return 0 }
        place += digits &+ 2
        return tenths
    }

    /// A number as `MetricNumber.read` takes it, in tenths; -1, without moving on, for whatever is not plain. What
    /// stands behind it has to be looked at: the number might go on there.
    @inline(__always)
    mutating func takeNumber(_ bounds: MetricBounds) -> Int32 {
        let first = word(0)
        let digits = Self.digitCount(first)
        // Eight digits might be more. Zeros in front are no JSON.
        guard digits >= 1, digits <= 7, digits == 1 || first & 0xff != 0x30 else { return -1 }
        let whole = Self.number(first, digits)
        guard place.load(fromByteOffset: digits, as: UInt8.self) == UInt8(ascii: ".") else {
            guard whole <= 1_000_000 else { return -1 }
            let tenths = Int32(truncatingIfNeeded: whole) &* 10
            guard tenths == 0 || (tenths >= bounds.lowest && tenths <= bounds.highest) else { return -1 }
            place += digits
            return tenths
        }
        let second = word(digits + 1)
        guard Self.digitCount(second) == 1, !bounds.isWhole else { return takeLong(whole, digits, bounds) }
        let tenths = Int32(truncatingIfNeeded: whole &* 10 &+ (second & 0xff &- 0x30))
        guard whole < 1_000_000, tenths == 0 || (tenths >= bounds.lowest && tenths <= bounds.highest) else { return -1 }
        place += digits + 2
        return tenths
    }

    /// A number with a longer fraction, of fifteen digits at most: these and the power of ten are exact as doubles, so
    /// that their quotient is the double next to the number, as simdjson gives it.
    @inline(never)
    private mutating func takeLong(_ whole: UInt64, _ digits: Int, _ bounds: MetricBounds) -> Int32 {
        let second = word(digits + 1)
        var fractionDigits = Self.digitCount(second)
        guard fractionDigits >= 1 else { return -1 }
        var fraction = Self.number(second, fractionDigits)
        if fractionDigits == 8 {
            let third = word(digits + 9)
            let more = Self.digitCount(third)
            guard more <= 6 else { return -1 }
            if more > 0 { fraction = fraction &* Self.power(more) &+ Self.number(third, more) }
            fractionDigits += more
        }
        guard digits + fractionDigits <= 15 else { return -1 }
        let power = Self.power(fractionDigits)
        let double = Double(whole &* power &+ fraction) / Double(power)
        guard case .tenths(let tenths) = MetricNumber.check(double, bounds: bounds), tenths >= 0 else { return -1 }
        place += digits + 1 + fractionDigits
        return tenths
    }

    private static func power(_ exponent: Int) -> UInt64 {
        var power: UInt64 = 1
        for _ in 0..<exponent { power &*= 10 }
        return power
    }

    /// How many of a word's bytes, from the lowest on, are digits.
    @inline(__always)
    private static func digitCount(_ word: UInt64) -> Int {
        let values = word ^ 0x3030_3030_3030_3030
        // Marks each byte above nine; those behind the first one may be marked for a carry.
        let others = ((values &+ 0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080
        return others.trailingZeroBitCount >> 3
    }

    /// The number that a word's lowest bytes spell: one to eight digits.
    @inline(__always)
    private static func number(_ word: UInt64, _ digits: Int) -> UInt64 {
        // Leading zeros come in below; then neighbours are joined: digits, pairs, fours.
        var value = (word ^ 0x3030_3030_3030_3030) &<< UInt64(truncatingIfNeeded: 64 &- digits &* 8)
        value = (value &* 2561) &>> 8 & 0x00ff_00ff_00ff_00ff
        value = (value &* 6_553_601) &>> 16 & 0x0000_ffff_0000_ffff
        return (value &* 42_949_672_960_001) &>> 32
    }
}

/// A metric's range for numbers of the kind that nearly all are: see `takeShortNumber`.
struct PlainRange {
    let lowest: Int32
    /// How far above it the highest is.
    let span: UInt32
    let isWhole: Bool

    init(_ bounds: MetricBounds) {
        lowest = max(1, bounds.lowest)
        // No metric's number is above a million.
        span = UInt32(clamping: min(bounds.highest, 10_000_000) - lowest)
        isWhole = bounds.isWhole
    }

    /// Zero is in none.
    @inline(__always)
    func contains(_ tenths: Int32) -> Bool { UInt32(bitPattern: tenths &- lowest) <= span }
}

import Domain
import JSON
import MessageContract

/// Reads bodies of `POST /v1/days` as phones write them, in one pass over the bytes: known keys, each once, ASCII
/// without escapes, plain decimal numbers inside their range. Of anything else it says no, and the body is read the
/// general way, through simdjson. So it decides nothing: what it accepts, both ways give the same for
/// (`PlainDaysTests`, and the fuzzer `days`). Belongs to one thread.
struct PlainDays: ~Copyable {
    /// A zero of a metric, in the order of the body: whether it counts is not decided here.
    struct Zero {
        var day: Int
        var metric: Metric
    }

    /// The days as they were sent, without their zeros; `count` of them.
    let days: UnsafeMutablePointer<DaysRecord.Day>
    private(set) var count = 0
    private(set) var zeros: [Zero] = []
    /// All members but `days`.
    private(set) var fields = RequestFields()
    /// Each day has a value, no value is zero, and the dates only rise or only fall.
    private(set) var isRegular = false

    private let topKeys = KeyPatterns(RequestFields.textNames + ["days"])
    private static let daysKey = RequestFields.textNames.count
    private let dayKeys = KeyPatterns(MetricLedger.definitions.map(\.name) + ["date"])
    private static let dateKey = Metric.count
    /// By the metrics' numbers.
    private let bounds: UnsafeMutablePointer<MetricBounds>
    /// A day without values.
    private let empty = DaysRecord.Day(date: CalendarDay(daysSinceEpoch: 0), values: MetricValues())
    private let maskAt = DaysRecord.Day.offsetOfValues
    private let tenthsAt = DaysRecord.Day.offsetOfTenths

    // How far a read goes behind the place it begins at: between two looks at the body's end at most a key, white space
    // up to the end, and a number of 7 digits, point and 16 digits are passed, and the last word's eight bytes read:
    // fewer than `JSONParser.padding`. Whoever passes the end that way is found by the next look, and refused.

    init() {
        days = .allocate(capacity: DaysRules.mostDays)
        bounds = .allocate(capacity: Metric.count)
        let all = MetricBounds.all()
        for index in 0..<Metric.count { (bounds + index).initialize(to: all[index]) }
    }

    deinit {
        days.deallocate()
        bounds.deallocate()
    }

    /// Whether the body, behind which `JSONParser.padding` more bytes may be read, is a plain one; only then is there
    /// anything to be had here, until the next call and as long as the body lives.
    mutating func read(_ body: UnsafeRawBufferPointer, _ month: inout MonthMemo) -> Bool {
        guard let start = body.baseAddress else { return false }
        var cursor = Cursor(place: start, end: start + body.count)
        count = 0
        zeros.removeAll(keepingCapacity: true)
        fields = RequestFields()
        cursor.skipSpace()
        guard cursor.take(UInt8(ascii: "{")) else { return false }
        var seen: UInt32 = 0
        var key = topKeys.count
        repeat {
            cursor.skipSpace()
            guard cursor.isInside else { return false }
            key = topKeys.find(cursor.place, after: key)
            guard key >= 0, seen & 1 << UInt32(key) == 0 else { return false }
            seen |= 1 << UInt32(key)
            cursor.place += topKeys.length(key)
            cursor.skipSpace()
            if key == Self.daysKey {
                guard readDays(&cursor, &month) else { return false }
            } else if cursor.takeNull() {
                // The same as leaving it out.
            } else {
                guard let text = cursor.takeText() else { return false }
                fields.set(key, text)
            }
            cursor.skipSpace()
        } while cursor.take(UInt8(ascii: ","))
        guard cursor.take(UInt8(ascii: "}")) else { return false }
        cursor.skipSpace()
        return cursor.place == cursor.end && seen & 1 << UInt32(Self.daysKey) != 0
    }

    private mutating func readDays(_ outer: inout Cursor, _ month: inout MonthMemo) -> Bool {
        var cursor = outer
        guard cursor.take(UInt8(ascii: "[")) else { return false }
        var number = 0
        var last = Int32.min
        var (rises, falls, isFull) = (true, true, true)
        repeat {
            cursor.skipSpace()
            // There is memory for so many.
            guard cursor.isInside, number < DaysRules.mostDays, cursor.take(UInt8(ascii: "{")) else { return false }
            let day = days + number
            day.initialize(to: empty)
            guard let (date, present) = readDay(&cursor, number, &month) else { return false }
            // Trivial memory, and bits of known metrics alone.
            day.pointee.date = date
            UnsafeMutableRawPointer(day)
                .storeBytes(of: MetricSet(rawValue: present), toByteOffset: maskAt, as: MetricSet.self)
            if number > 0 {
                rises = rises && date.daysSinceEpoch > last
                falls = falls && date.daysSinceEpoch < last
            }
            last = date.daysSinceEpoch
            isFull = isFull && present != 0
            number += 1
            cursor.skipSpace()
        } while cursor.take(UInt8(ascii: ","))
        guard cursor.take(UInt8(ascii: "]")) else { return false }
        count = number
        isRegular = (rises || falls) && isFull && zeros.isEmpty
        outer = cursor
        return true
    }

    /// What stands behind the brace of a day: its date, and the bits of the metrics whose values were set.
    @inline(__always)
    private mutating func readDay(
        _ outer: inout Cursor,
        _ number: Int,
        _ month: inout MonthMemo
    ) -> (CalendarDay, UInt32)? {
        var cursor = outer
        let values = UnsafeMutableRawPointer(days + number) + tenthsAt
        var date = CalendarDay(daysSinceEpoch: 0)
        var (seen, present): (UInt32, UInt32) = (0, 0)
        var previous = dayKeys.count
        repeat {
            guard cursor.isInside else { return nil }
            var key = dayKeys.expected(cursor.place, after: previous)
            if key < 0 {
                cursor.skipSpace()
                guard cursor.isInside else { return nil }
                key = dayKeys.find(cursor.place, after: previous)
                guard key >= 0 else { return nil }
            }
            previous = key
            let bit: UInt32 = 1 &<< UInt32(truncatingIfNeeded: key)
            guard seen & bit == 0 else { return nil }
            seen |= bit
            cursor.place += dayKeys.length(key)
            if key == Self.dateKey {
                cursor.skipSpace()
                guard let read = cursor.takeDate(&month) else { return nil }
                date = read
            } else {
                var tenths = cursor.takeNumber(bounds[key])
                if tenths < 0 {
                    cursor.skipSpace()
                    tenths = cursor.takeNumber(bounds[key])
                }
                if tenths > 0 {
                    // The keys below `dateKey` are the metrics' numbers, and a day has room for each.
                    values.storeBytes(of: tenths, toByteOffset: key &* 4, as: Int32.self)
                    present |= bit
                } else if tenths == 0 {
                    noteZero(number, key)
                } else {
                    guard cursor.takeNull() else { return nil }
                }
            }
            if !cursor.isAt(UInt8(ascii: ",")) { cursor.skipSpace() }
        } while cursor.take(UInt8(ascii: ","))
        guard cursor.take(UInt8(ascii: "}")), seen & 1 << UInt32(Self.dateKey) != 0 else { return nil }
        outer = cursor
        return (date, present)
    }

    @inline(never)
    private mutating func noteZero(_ day: Int, _ key: Int) {
        if let metric = Metric(rawValue: UInt8(truncatingIfNeeded: key)) {
            zeros.append(Zero(day: day, metric: metric))
        }
    }
}

/// A place in a body. It may pass the body's end by some bytes of padding: `PlainDays` says by how many.
private struct Cursor {
    var place: UnsafeRawPointer
    let end: UnsafeRawPointer

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

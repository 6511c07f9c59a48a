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
    /// The array of days of a body that is regular, if a record has them just so but for some numbers: no white space, the
    /// date first and the metrics in the ledger's order. Then nobody has to write it.
    private(set) var recordText: DaysRecordText?
    /// Where the days' array begins, and the numbers in it that a record has in another form.
    private var arrayStart = UnsafeRawPointer(("" as StaticString).utf8Start)
    private var numbers: [DaysRecordText.Number] = []

    private let topKeys = KeyPatterns(RequestFields.textNames + ["days"])
    private static let daysKey = RequestFields.textNames.count
    /// The date's comes first, then the metrics' in their order: each number is one above the metric's.
    private let dayKeys = KeyPatterns(["date"] + MetricLedger.definitions.map(\.name))
    private static let dateKey = 0
    /// By the keys' numbers; nothing for the date's.
    private let ranges: UnsafeMutablePointer<PlainRange>
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
        ranges = .allocate(capacity: Metric.count + 1)
        ranges.initialize(to: PlainRange(all[0]))
        for index in 0..<Metric.count { (ranges + index + 1).initialize(to: PlainRange(all[index])) }
    }

    deinit {
        days.deallocate()
        ranges.deallocate()
        bounds.deallocate()
    }

    /// Whether the body, behind which `JSONParser.padding` more bytes may be read, is a plain one; only then is there
    /// anything to be had here, until the next call and as long as the body lives.
    mutating func read(_ body: UnsafeRawBufferPointer, _ month: inout MonthMemo) -> Bool {
        guard let start = body.baseAddress else { return false }
        var cursor = DaysCursor(place: start, end: start + body.count)
        count = 0
        zeros.removeAll(keepingCapacity: true)
        fields = RequestFields()
        recordText = nil
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

    private mutating func readDays(_ outer: inout DaysCursor, _ month: inout MonthMemo) -> Bool {
        var cursor = outer
        cursor.isRecordText = true
        arrayStart = cursor.place
        if !numbers.isEmpty { numbers.removeAll(keepingCapacity: true) }
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
            rises = rises && date.daysSinceEpoch > last
            falls = falls && (date.daysSinceEpoch < last || number == 0)
            last = date.daysSinceEpoch
            isFull = isFull && present != 0
            number += 1
            cursor.skipSpace()
        } while cursor.take(UInt8(ascii: ","))
        guard cursor.take(UInt8(ascii: "]")) else { return false }
        count = number
        isRegular = (rises || falls) && isFull && zeros.isEmpty
        if isRegular, cursor.isRecordText {
            let text = UnsafeRawBufferPointer(start: arrayStart, count: cursor.place - arrayStart)
            recordText = DaysRecordText(text, numbers)
        }
        outer = cursor
        return true
    }

    /// What stands behind the brace of a day: its date, and the bits of the metrics whose values were set.
    @inline(__always)
    private mutating func readDay(
        _ outer: inout DaysCursor,
        _ number: Int,
        _ month: inout MonthMemo
    ) -> (CalendarDay, UInt32)? {
        var cursor = outer
        // The first metric's key has the number 1.
        let values = UnsafeMutableRawPointer(days + number) + (tenthsAt - 4)
        var date = CalendarDay(daysSinceEpoch: 0)
        var (seen, present): (UInt32, UInt32) = (0, 0)
        var key = dayKeys.count
        repeat {
            guard cursor.isInside else { return nil }
            let expected = dayKeys.expected(cursor.place, after: key)
            if expected >= 0 {
                key = expected
            } else {
                cursor.skipSpace()
                guard cursor.isInside else { return nil }
                key = dayKeys.find(cursor.place, after: key)
                guard key >= 0 else { return nil }
            }
            let bit: UInt32 = 1 &<< UInt32(truncatingIfNeeded: key)
            if seen >= bit {
                guard seen & bit == 0 else { return nil }
                cursor.isRecordText = false
            }
            seen |= bit
            cursor.place += dayKeys.length(key)
            if key == Self.dateKey {
                cursor.skipSpace()
                guard let read = cursor.takeDate(&month) else { return nil }
                date = read
            } else {
                var tenths = cursor.takeShortNumber(ranges[key])
                if tenths == 0 {
                    guard let (behind, rare) = readRareValue(cursor, number, key) else { return nil }
                    (cursor, tenths) = (behind, rare)
                }
                if tenths > 0 {
                    // A day has room for each metric.
                    values.storeBytes(of: tenths, toByteOffset: key &* 4, as: Int32.self)
                    present |= bit
                }
            }
            if !cursor.isAt(UInt8(ascii: ",")) { cursor.skipSpace() }
        } while cursor.take(UInt8(ascii: ","))
        guard cursor.take(UInt8(ascii: "}")), seen & 1 << UInt32(Self.dateKey) != 0 else { return nil }
        outer = cursor
        return (date, present >> 1)
    }

    /// A value that is not what most are: with space before it, longer, not in its shortest form, zero or null. Gives zero
    /// for these two, of which the first is noted.
    @inline(never)
    private mutating func readRareValue(_ from: DaysCursor, _ day: Int, _ key: Int) -> (DaysCursor, tenths: Int32)? {
        var cursor = from
        cursor.skipSpace()
        let tenths = cursor.takeNumber(bounds[key - 1])
        cursor.isRecordText = from.isRecordText && tenths > 0
        if tenths > 0 {
            numbers.append(.init(from: from.place - arrayStart, to: cursor.place - arrayStart, tenths: tenths))
            return (cursor, tenths)
        }
        if tenths == 0 { noteZero(day, key - 1) }
        guard tenths == 0 || cursor.takeNull() else { return nil }
        return (cursor, 0)
    }

    @inline(never)
    private mutating func noteZero(_ day: Int, _ number: Int) {
        if let metric = Metric(rawValue: UInt8(truncatingIfNeeded: number)) {
            zeros.append(Zero(day: day, metric: metric))
        }
    }
}

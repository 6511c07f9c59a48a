public import Domain
public import JSON

/// Reads and writes dates of one month after another at the price of two digits each: the days of a request follow
/// each other, so the calendar is asked once a month. Two months are known at a time, for requests around the first.
public struct MonthMemo {
    /// `YYYY-MM-` as it stands in memory.
    @usableFromInline var prefix: UInt64 = 0
    /// The last day of the month before.
    @usableFromInline var dayZero: Int32 = 0
    /// 0: no month is known yet.
    @usableFromInline var length: Int32 = 0
    /// The same of the month that was met before.
    private var other: (prefix: UInt64, dayZero: Int32, length: Int32) = (0, 0, 0)

    public init() {}

    /// The same as `CalendarDay(ascii:)`.
    @inlinable
    @inline(__always)
    public mutating func read(_ text: JSONText) -> CalendarDay? {
        guard text.count == 10, let start = UnsafeRawPointer(text.baseAddress) else { return nil }
        let (tens, ones) = (Int32(text[8]) - 48, Int32(text[9]) - 48)
        let day = tens * 10 + ones
        if start.loadUnaligned(as: UInt64.self) == prefix, tens >= 0, ones >= 0, ones <= 9, day >= 1, day <= length {
            return CalendarDay(daysSinceEpoch: dayZero + day)
        }
        return learn(text)
    }

    @usableFromInline
    @inline(never)
    mutating func learn(_ text: JSONText) -> CalendarDay? {
        guard let start = UnsafeRawPointer(text.baseAddress) else { return nil }
        let prefix = start.loadUnaligned(as: UInt64.self)
        if prefix == other.prefix, other.length > 0 {
            exchange()
            let (tens, ones) = (Int32(text[8]) - 48, Int32(text[9]) - 48)
            let day = tens * 10 + ones
            let isDay = tens >= 0 && ones >= 0 && ones <= 9 && day >= 1 && day <= length
            return isDay ? CalendarDay(daysSinceEpoch: dayZero + day) : nil
        }
        guard let day = CalendarDay(ascii: text.span) else { return nil }
        note(day, day.civil, prefix)
        return day
    }

    /// `YYYY-MM-` and the day of the month.
    @inlinable
    @inline(__always)
    public mutating func write(_ day: CalendarDay) -> (prefix: UInt64, day: UInt32) {
        let offset = day.daysSinceEpoch &- dayZero
        if offset >= 1, offset <= length { return (prefix, UInt32(bitPattern: offset)) }
        return learn(day)
    }

    @usableFromInline
    @inline(never)
    mutating func learn(_ day: CalendarDay) -> (prefix: UInt64, day: UInt32) {
        let offset = day.daysSinceEpoch &- other.dayZero
        if offset >= 1, offset <= other.length {
            exchange()
            return (prefix, UInt32(bitPattern: offset))
        }
        let text = day.ascii
        var word: UInt64 = 0
        for index in 0..<8 { word |= UInt64(text[index]) << UInt64(index * 8) }
        let civil = day.civil
        note(day, civil, UInt64(littleEndian: word))
        return (prefix, UInt32(truncatingIfNeeded: civil.day))
    }

    private mutating func exchange() {
        let known = (prefix, dayZero, length)
        (prefix, dayZero, length) = other
        other = known
    }

    private mutating func note(_ day: CalendarDay, _ civil: (year: Int, month: Int, day: Int), _ prefix: UInt64) {
        exchange()
        self.prefix = prefix
        dayZero = day.advanced(by: -civil.day).daysSinceEpoch
        length = Int32(truncatingIfNeeded: CalendarDay.length(ofMonth: civil.month, year: civil.year))
    }
}

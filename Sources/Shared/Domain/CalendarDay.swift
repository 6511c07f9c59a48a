/// A day of the proleptic Gregorian calendar, without a time zone: what a phone calls "today".
///
/// Stored as days since 1970-01-01, which is also what PostgreSQL's `date` is but for a constant.
public struct CalendarDay: Hashable, Comparable, Sendable {
    public let daysSinceEpoch: Int32

    @inlinable
    public init(daysSinceEpoch: Int32) {
        self.daysSinceEpoch = daysSinceEpoch
    }

    /// Fails for a day that the calendar does not have, such as 2026-02-30, and for years outside 0…9999.
    public init?(year: Int, month: Int, day: Int) {
        guard (0...9999).contains(year), (1...12).contains(month), day >= 1 else { return nil }
        guard day <= Self.length(ofMonth: month, year: year) else { return nil }
        // Howard Hinnant's days_from_civil, valid for every year here.
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        daysSinceEpoch = Int32(era * 146_097 + dayOfEra - 719_468)
    }

    /// Reads exactly `YYYY-MM-DD` in ASCII: no sign, no space, no missing zero.
    public init?(ascii: Span<UInt8>) {
        guard ascii.count == 10, ascii[4] == UInt8(ascii: "-"), ascii[7] == UInt8(ascii: "-") else { return nil }
        var digits = (0, 0, 0)
        for index in 0..<10 where index != 4 && index != 7 {
            let digit = Int(ascii[index]) - 48
            guard (0...9).contains(digit) else { return nil }
            if index < 4 {
                digits.0 = digits.0 * 10 + digit
            } else if index < 7 {
                digits.1 = digits.1 * 10 + digit
            } else {
                digits.2 = digits.2 * 10 + digit
            }
        }
        self.init(year: digits.0, month: digits.1, day: digits.2)
    }

    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(ascii: bytes.span)
    }

    public var civil: (year: Int, month: Int, day: Int) {
        let shifted = Int(daysSinceEpoch) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    public var firstOfMonth: CalendarDay {
        advanced(by: 1 - civil.day)
    }

    /// Saturates at the ends of the 32-bit range, which are thousands of millennia away.
    public func advanced(by days: Int) -> CalendarDay {
        CalendarDay(daysSinceEpoch: Int32(clamping: Int(daysSinceEpoch) + days))
    }

    @inlinable
    public func days(since other: CalendarDay) -> Int {
        Int(daysSinceEpoch) - Int(other.daysSinceEpoch)
    }

    public static func < (left: CalendarDay, right: CalendarDay) -> Bool {
        left.daysSinceEpoch < right.daysSinceEpoch
    }

    /// How many days a month has; `month` is 1 to 12.
    public static func length(ofMonth month: Int, year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

extension CalendarDay: CustomStringConvertible {
    /// `YYYY-MM-DD`.
    public var description: String {
        let (year, month, day) = civil
        func padded(_ number: Int, to width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        return "\(padded(year, to: 4))-\(padded(month, to: 2))-\(padded(day, to: 2))"
    }
}

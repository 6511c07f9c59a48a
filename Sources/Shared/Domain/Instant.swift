/// A point in time, in microseconds since 1970-01-01T00:00:00Z: the resolution of every clock in the records.
public struct Instant: Hashable, Comparable, Sendable {
    public let microseconds: Int64

    public init(microseconds: Int64) {
        self.microseconds = microseconds
    }

    /// 2020-01-01T00:00:00Z: nothing that Daybook handles was observed before (versions count from here).
    public static let earliest = Instant(microseconds: 1_577_836_800_000_000)

    /// Whole seconds from here to the other one, negative where it is earlier; clamped where there is no such number.
    public func seconds(until other: Instant) -> Int {
        let (difference, overflow) = other.microseconds.subtractingReportingOverflow(microseconds)
        guard overflow else { return Int(difference / 1_000_000) }
        return other.microseconds > microseconds ? Int(Int64.max / 1_000_000) : Int(Int64.min / 1_000_000)
    }

    /// Saturates instead of overflowing.
    public func advanced(bySeconds seconds: Int) -> Instant {
        let (offset, overflow) = Int64(seconds).multipliedReportingOverflow(by: 1_000_000)
        guard !overflow else { return Instant(microseconds: seconds < 0 ? .min : .max) }
        let (sum, sumOverflow) = microseconds.addingReportingOverflow(offset)
        return Instant(microseconds: sumOverflow ? (seconds < 0 ? .min : .max) : sum)
    }

    /// The calendar day in a zone that is `offset` seconds east of UTC.
    public func day(secondsFromUTC offset: Int) -> CalendarDay {
        let seconds = advanced(bySeconds: offset).microseconds.flooredQuotient(1_000_000)
        return CalendarDay(daysSinceEpoch: Int32(clamping: seconds.flooredQuotient(86_400)))
    }

    public static func < (left: Instant, right: Instant) -> Bool {
        left.microseconds < right.microseconds
    }
}

extension Instant: CustomStringConvertible {
    /// RFC 3339 in UTC with six digits, as in the `received-at` header.
    public var description: String {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Appends what `description` shows, as ASCII.
    public func append(to bytes: inout [UInt8]) {
        let text = ascii
        bytes.reserveCapacity(bytes.count + 27)
        for index in 0..<27 { bytes.append(text[index]) }
    }

    /// What `description` shows.
    public var ascii: InlineArray<27, UInt8> {
        let seconds = microseconds.flooredQuotient(1_000_000)
        // Wrapping: the floor of the smallest instants is below what fits, the difference is not.
        let fraction = microseconds &- seconds &* 1_000_000
        let day = seconds.flooredQuotient(86_400)
        let secondOfDay = Int(seconds - day * 86_400)
        let (year, month, dayOfMonth) = CalendarDay(daysSinceEpoch: Int32(clamping: day)).civil
        var text = InlineArray<27, UInt8>(repeating: UInt8(ascii: "-"))
        func put(_ number: Int, at place: Int) {
            text[place] = UInt8(truncatingIfNeeded: 48 + number / 10 % 10)
            text[place + 1] = UInt8(truncatingIfNeeded: 48 + number % 10)
        }
        put(year / 100, at: 0)
        put(year, at: 2)
        put(month, at: 5)
        put(dayOfMonth, at: 8)
        text[10] = UInt8(ascii: "T")
        put(secondOfDay / 3600, at: 11)
        text[13] = UInt8(ascii: ":")
        put(secondOfDay / 60 % 60, at: 14)
        text[16] = UInt8(ascii: ":")
        put(secondOfDay % 60, at: 17)
        text[19] = UInt8(ascii: ".")
        let micros = Int(fraction)
        put(micros / 10_000, at: 20)
        put(micros / 100, at: 22)
        put(micros, at: 24)
        text[26] = UInt8(ascii: "Z")
        return text
    }
}

extension Instant {
    /// Reads RFC 3339 (`2026-09-02T21:14:05Z`, `…T21:14:05.123+02:00`): a zone is required, any number of fraction
    /// digits is accepted and cut to microseconds, a leap second counts as the second before it.
    public init?(rfc3339 ascii: Span<UInt8>) {
        let count = ascii.count
        guard count >= 20, count <= 40 else { return nil }
        // What is no digit is only noticed at the end.
        var isBad = false
        func pair(_ place: Int) -> Int {
            let (tens, ones) = (ascii[place] &- 48, ascii[place + 1] &- 48)
            isBad = isBad || tens > 9 || ones > 9
            return Int(tens) &* 10 &+ Int(ones)
        }
        let (year, month, dayOfMonth) = (pair(0) * 100 + pair(2), pair(5), pair(8))
        let (hour, minute, second) = (pair(11), pair(14), pair(17))
        guard !isBad, hour < 24, minute < 60, second <= 60,
            ascii[4] == UInt8(ascii: "-"), ascii[7] == UInt8(ascii: "-"), ascii[10] | 0x20 == UInt8(ascii: "t"),
            ascii[13] == UInt8(ascii: ":"), ascii[16] == UInt8(ascii: ":"),
            let day = CalendarDay(year: year, month: month, day: dayOfMonth)
        else { return nil }
        var index = 19
        var fraction = 0
        if ascii[index] == UInt8(ascii: ".") {
            index += 1
            var weight = 100_000
            let start = index
            while index < count, ascii[index] &- 48 <= 9 {
                fraction += Int(ascii[index] - 48) * weight
                weight /= 10
                index += 1
            }
            guard index > start else { return nil }
        }
        guard index < count else { return nil }
        var offset = 0
        switch ascii[index] {
        case UInt8(ascii: "Z"), UInt8(ascii: "z"):
            guard index + 1 == count else { return nil }
        case UInt8(ascii: "+"), UInt8(ascii: "-"):
            guard index + 6 == count, ascii[index + 3] == UInt8(ascii: ":") else { return nil }
            let (hours, minutes) = (pair(index + 1), pair(index + 4))
            guard !isBad, hours < 24, minutes < 60 else { return nil }
            offset = (hours * 60 + minutes) * 60
            if ascii[index] == UInt8(ascii: "-") { offset = -offset }
        default: return nil
        }
        let secondOfDay = hour * 3600 + minute * 60 + min(second, 59)
        let seconds = Int64(day.daysSinceEpoch) * 86_400 + Int64(secondOfDay - offset)
        self.init(microseconds: seconds * 1_000_000 + Int64(fraction))
    }

    public init?(rfc3339 text: String) {
        let bytes = Array(text.utf8)
        self.init(rfc3339: bytes.span)
    }
}

extension Int64 {
    /// Division that rounds towards negative infinity, so that times before 1970 land on the right day.
    func flooredQuotient(_ divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}

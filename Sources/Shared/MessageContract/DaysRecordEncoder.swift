public import Domain
import JSON

/// What ingest puts into one record: days that are already checked and normalised.
public struct DaysRecord: Hashable, Sendable {
    public struct Day: Hashable, Sendable {
        public var date: CalendarDay
        public var values: MetricValues

        public init(date: CalendarDay, values: MetricValues) {
            self.date = date
            self.values = values
        }

        /// Where in its memory the values lie, and in them the numbers, one `Int32` a metric, for those who read or
        /// write them one by one; the date comes first, and the mask in the values.
        public static let offsetOfValues = MemoryLayout<Day>.offset(of: \.values) ?? MemoryLayout<CalendarDay>.size
        public static let offsetOfTenths = offsetOfValues + MetricValues.offsetOfTenths
    }

    public var source: Source
    public var origin: String
    public var observedAt: Instant?
    /// The IANA name of the zone that ingest resolved.
    public var timeZone: String
    /// The user's date when the values were read.
    public var localDate: CalendarDay
    public var days: [Day]

    public init(
        source: Source,
        origin: String = "",
        observedAt: Instant? = nil,
        timeZone: String,
        localDate: CalendarDay,
        days: [Day]
    ) {
        self.source = source
        self.origin = origin
        self.observedAt = observedAt
        self.timeZone = timeZone
        self.localDate = localDate
        self.days = days
    }

    /// The record's value, as JSON that an operator can read.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reserving: 192 + days.count * 160)
        var month = MonthMemo()
        encode(taking: nil, into: &writer, &month)
        return writer.bytes
    }

    /// Appends the record's value; an empty `observed_at` and `origin` are left out. `text` stands for `days` if it is
    /// given.
    func encode(taking text: DaysRecordText?, into writer: inout JSONWriter, _ month: inout MonthMemo) {
        writer.beginObject()
        writer.key("source")
        writer.string(source.name)
        if !origin.isEmpty {
            writer.key("origin")
            writer.string(origin)
        }
        if let observedAt {
            writer.key("observed_at")
            writer.plainString(room: 30) { $0.put(observedAt, &month) }
        }
        writer.key("time_zone")
        writer.string(timeZone)
        writer.key("local_date")
        writer.plainString(room: 14) { $0.put(localDate, &month) }
        writer.key("days")
        if let text {
            text.write(into: &writer)
        } else {
            DaysText.shared.write(days, into: &writer, &month)
        }
        writer.endObject()
    }

    /// The most bytes that a day can take in a record.
    public static let largestDayBytes: Int = {
        let names = MetricLedger.definitions.reduce(0) { $0 + $1.name.utf8CodeUnitCount + 14 }
        return names + 32
    }()
}

extension CalendarDay {
    /// `YYYY-MM-DD`.
    var ascii: InlineArray<10, UInt8> {
        let (year, month, day) = civil
        func digit(_ number: Int) -> UInt8 { UInt8(truncatingIfNeeded: 48 + number % 10) }
        let dash = UInt8(ascii: "-")
        return [
            digit(year / 1000), digit(year / 100), digit(year / 10), digit(year), dash, digit(month / 10),
            digit(month), dash, digit(day / 10), digit(day),
        ]
    }
}

extension TextPlace {
    /// `YYYY-MM-DD`.
    @inline(__always)
    fileprivate mutating func put(_ day: CalendarDay, _ month: inout MonthMemo) {
        let (prefix, number) = month.write(day)
        // In memory as they are to be written, whatever the machine's order.
        put(UInt64(littleEndian: prefix))
        put(twoDigits: number)
    }

    /// The same as the instant's `ascii`.
    @inline(__always)
    fileprivate mutating func put(_ instant: Instant, _ month: inout MonthMemo) {
        guard instant.microseconds >= 0 else { return put(ascii: instant.ascii) }
        let seconds = instant.microseconds / 1_000_000
        let micros = UInt32(truncatingIfNeeded: instant.microseconds &- seconds &* 1_000_000)
        let day = seconds / 86_400
        let secondOfDay = UInt32(truncatingIfNeeded: seconds &- day &* 86_400)
        put(CalendarDay(daysSinceEpoch: Int32(clamping: day)), &month)
        put("T")
        put(twoDigits: secondOfDay / 3600)
        put(":")
        put(twoDigits: secondOfDay / 60 % 60)
        put(":")
        put(twoDigits: secondOfDay % 60)
        put(".")
        put(twoDigits: micros / 10_000)
        put(twoDigits: micros / 100 % 100)
        put(twoDigits: micros % 100)
        put("Z")
    }
}

/// Encodes record after record in memory that is used again. One belongs to one thread.
public final class DaysRecordWriter {
    private var writer = JSONWriter(reserving: 8 << 10)
    private var month = MonthMemo()
    private var value: [UInt8] = []

    public init() {}

    /// The same as the record's `encoded()`. The next call uses the array's memory again if nobody holds it by then.
    ///
    /// `text` is the array of days as `encoded()` would write it, for those who have it: then the record's own days are
    /// not looked at.
    public func encode(_ record: DaysRecord, taking text: DaysRecordText? = nil) -> [UInt8] {
        writer.reset()
        record.encode(taking: text, into: &writer, &month)
        writer.copy(into: &value)
        return value
    }
}

public import Domain
public import JSON

/// What ingest puts into one record: days that are already checked and normalised.
public struct DaysRecord: Hashable, Sendable {
    public struct Day: Hashable, Sendable {
        public var date: CalendarDay
        public var values: MetricValues

        public init(date: CalendarDay, values: MetricValues) {
            self.date = date
            self.values = values
        }
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
        encode(into: &writer)
        return writer.bytes
    }

    /// Appends the record's value; an empty `observed_at` and `origin` are left out.
    public func encode(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("source")
        writer.string(source.name)
        if !origin.isEmpty {
            writer.key("origin")
            writer.string(origin)
        }
        if let observedAt {
            writer.key("observed_at")
            writer.string(appending: observedAt.append(to:))
        }
        writer.key("time_zone")
        writer.string(timeZone)
        writer.key("local_date")
        writer.string(appending: localDate.append(to:))
        writer.key("days")
        writer.beginArray()
        for day in days {
            writer.beginObject()
            writer.key("date")
            writer.string(appending: day.date.append(to:))
            for metric in day.values.mask {
                guard let tenths = day.values[metric] else { continue }
                writer.key(MetricLedger[metric].name)
                writer.tenths(tenths)
            }
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
    }

    /// The most bytes that a day can take in a record.
    public static let largestDayBytes: Int = {
        let names = MetricLedger.definitions.reduce(0) { $0 + $1.name.utf8CodeUnitCount + 14 }
        return names + 32
    }()
}

extension CalendarDay {
    /// Appends `YYYY-MM-DD`.
    func append(to bytes: inout [UInt8]) {
        let (year, month, day) = civil
        func digit(_ number: Int) { bytes.append(UInt8(truncatingIfNeeded: 48 + number % 10)) }
        digit(year / 1000)
        digit(year / 100)
        digit(year / 10)
        digit(year)
        bytes.append(UInt8(ascii: "-"))
        digit(month / 10)
        digit(month)
        bytes.append(UInt8(ascii: "-"))
        digit(day / 10)
        digit(day)
    }
}

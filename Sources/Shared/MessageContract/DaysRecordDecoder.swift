public import Domain
public import JSON

/// One record of days, ready to be applied.
public struct DecodedDays: Hashable, Sendable {
    public let user: UserID
    public let source: Source
    public let origin: String
    public let event: EventID
    public let receivedAt: Instant
    /// The version of every reading in it.
    public let version: Version
    /// The user's date when the values were read.
    public let localDate: CalendarDay
    /// As they stand in the record; a record that only proves the phone awake has none.
    public let readings: [Reading]

    /// For those that make records without the log: replays from elsewhere, and tests.
    public init(
        user: UserID,
        source: Source,
        origin: String,
        event: EventID,
        receivedAt: Instant,
        version: Version,
        localDate: CalendarDay,
        readings: [Reading]
    ) {
        self.user = user
        self.source = source
        self.origin = origin
        self.event = event
        self.receivedAt = receivedAt
        self.version = version
        self.localDate = localDate
        self.readings = readings
    }

    public var provenance: Provenance { Provenance(source: source, origin: origin) }
}

/// Reads records of `days/1`. One decoder belongs to one thread: it keeps the parser and what it learnt of the keys.
public final class DaysRecordDecoder {
    private let parser: JSONParser
    private let keys = MetricKeys()
    private let bounds = MetricBounds.all()

    /// - Throws: `outOfMemory`.
    public init() throws(JSONError) {
        // Record, days, day: a value of an unknown field may go a little deeper.
        parser = try JSONParser(maximumDepth: 8)
    }

    /// Checks and reads a record. Unknown fields are ignored, an unknown schema is poison.
    ///
    /// - Parameters:
    ///   - key: the record's key, the user id.
    ///   - value: the record's value; it is copied, so that nothing need lie behind it.
    ///   - headers: the record's own.
    ///   - appendTime: the broker's time, or nil if there is none to believe (the development broker's).
    /// - Returns: the record's days, or why it is poison.
    public func decode(
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        headers: RecordHeaders,
        appendTime: Instant?
    ) -> Result<DecodedDays, PoisonReason> {
        do {
            return .success(try read(key: key, value: value, headers: headers, appendTime: appendTime))
        } catch {
            return .failure(error)
        }
    }

    private func read(
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        headers: RecordHeaders,
        appendTime: Instant?
    ) throws(PoisonReason) -> DecodedDays {
        guard let schema = headers.schema else { throw .missingHeader }
        guard Schema(id: schema) == .days1 else { throw .unknownSchema }
        guard let key, let user = UserID(ascii: key.octets.span) else { throw .badKey }
        guard let eventText = headers.eventID, let receivedText = headers.receivedAt else { throw .missingHeader }
        guard let event = EventID(ascii: eventText.octets.span) else { throw .badEventID }
        guard let receivedAt = Instant(rfc3339: receivedText.octets.span), receivedAt >= .earliest else {
            throw .badReceivedAt
        }
        if let appendTime, receivedAt > appendTime.advanced(bySeconds: RecordLimits.clockSeconds) { throw .clock }
        guard let value else { throw .missingValue }
        guard value.count <= 2 * RecordLimits.valueBytes else { throw .tooLarge }
        let root: JSONValue
        do {
            root = try parser.parse(copying: value)
        } catch {
            throw .badJSON
        }
        guard let object = root.object else { throw .badShape }
        let fields = try Fields(object)
        let source = try fields.readSource()
        let origin = try fields.readOrigin()
        let observedAt = try fields.readObservedAt()
        let effective = Version.effectiveInstant(observedAt: observedAt, receivedAt: receivedAt)
        let localDate = try fields.readLocalDate(at: effective)
        let version = Version(observedAt: observedAt, receivedAt: receivedAt, event: event)
        // The furthest zone is fourteen hours ahead, and a sender may be one day ahead of that.
        let last = receivedAt.day(secondsFromUTC: 14 * 3600).advanced(by: 1)
        let readings = try readDays(fields.days, localDate: localDate, last: last, version: version)
        return DecodedDays(
            user: user,
            source: source,
            origin: origin,
            event: event,
            receivedAt: receivedAt,
            version: version,
            localDate: localDate,
            readings: readings
        )
    }

    private func readDays(
        _ value: JSONValue?,
        localDate: CalendarDay,
        last: CalendarDay,
        version: Version
    ) throws(PoisonReason) -> [Reading] {
        guard var days = value?.array else { throw .badShape }
        let count = days.count(upTo: RecordLimits.days + 1)
        guard count <= RecordLimits.days else { throw .tooLarge }
        var readings: [Reading] = []
        readings.reserveCapacity(count)
        while let day = days.next() {
            guard let members = day.object else { throw .badShape }
            let (date, values) = try readDay(members, keys)
            guard date <= last else { throw .badDate }
            readings.append(Reading(day: date, values: values, version: version, closed: date < localDate))
        }
        return readings
    }

    /// One access to the keys a day: they are checked for exclusivity each time.
    private func readDay(
        _ members: JSONObject,
        _ keys: MetricKeys
    ) throws(PoisonReason) -> (CalendarDay, MetricValues) {
        var members = members
        var date: CalendarDay?
        var values = MetricValues()
        var seen: MetricSet = []
        var place = 0
        while let (key, value) = members.next() {
            if key.count == 4, key.equals("date") {
                guard date == nil else { throw .duplicateKey }
                guard let text = value.text, let parsed = CalendarDay(ascii: text.span) else { throw .badDate }
                date = parsed
                continue
            }
            let metric = keys.metric(for: key, at: place)
            place += 1
            guard let metric else { continue }
            guard !seen.has(metric) else { throw .duplicateKey }
            seen.insert(metric)
            guard !value.isNull else { continue }
            let limits = bounds[metric.index]
            switch MetricNumber.read(value, bounds: limits) {
            case .tenths(let tenths):
                // Such a zero is no reading, whoever wrote it.
                if tenths != 0 || !limits.zeroIsNeverRead { values[metric] = tenths }
            case .failure(.outOfRange): throw .outOfRange
            case .failure: throw .badValue
            }
        }
        guard let date else { throw .badDate }
        return (date, values)
    }
}

/// The record's members, each at most once.
private struct Fields {
    var source: JSONValue?
    var origin: JSONValue?
    var observedAt: JSONValue?
    var localDate: JSONValue?
    var days: JSONValue?

    init(_ object: JSONObject) throws(PoisonReason) {
        var object = object
        while let (key, value) = object.next() {
            switch key.count {
            case 4 where key.equals("days"): try Self.set(&days, value)
            case 6 where key.equals("source"): try Self.set(&source, value)
            case 6 where key.equals("origin"): try Self.set(&origin, value)
            case 10 where key.equals("local_date"): try Self.set(&localDate, value)
            case 11 where key.equals("observed_at"): try Self.set(&observedAt, value)
            default: break
            }
        }
    }

    private static func set(_ field: inout JSONValue?, _ value: JSONValue) throws(PoisonReason) {
        guard field == nil else { throw .duplicateKey }
        field = value
    }

    func readSource() throws(PoisonReason) -> Source {
        guard let text = source?.text else { throw .badSource }
        for candidate in Source.allCases where text.equals(candidate.name) { return candidate }
        throw .badSource
    }

    func readOrigin() throws(PoisonReason) -> String {
        guard let origin, !origin.isNull else { return "" }
        guard let text = origin.text, text.count <= RecordLimits.originBytes else { throw .badOrigin }
        return text.isEmpty ? "" : String(decoding: text, as: UTF8.self)
    }

    func readObservedAt() throws(PoisonReason) -> Instant? {
        guard let observedAt, !observedAt.isNull else { return nil }
        guard let text = observedAt.text, let instant = Instant(rfc3339: text.span) else { throw .badObservedAt }
        return instant
    }

    /// A record without one counts in UTC; one that no zone can have is refused.
    func readLocalDate(at instant: Instant) throws(PoisonReason) -> CalendarDay {
        let inUTC = instant.day(secondsFromUTC: 0)
        guard let localDate, !localDate.isNull else { return inUTC }
        guard let text = localDate.text, let date = CalendarDay(ascii: text.span), abs(date.days(since: inUTC)) <= 1
        else { throw .badDate }
        return date
    }
}

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
    private var month = MonthMemo()
    /// By the metrics' numbers; plain memory, since one is looked at for each number.
    private let bounds: UnsafeMutablePointer<MetricBounds>

    /// - Throws: `outOfMemory`.
    public init() throws(JSONError) {
        // Record, days, day: a value of an unknown field may go a little deeper.
        parser = try JSONParser(maximumDepth: 8)
        bounds = .allocate(capacity: Metric.count)
        let all = MetricBounds.all()
        for index in 0..<Metric.count { (bounds + index).initialize(to: all[index]) }
    }

    deinit { bounds.deallocate() }

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
        let arrival = Arrival(user: user, event: event, receivedAt: receivedAt)
        do {
            let padded = try parser.padded(copying: value)
            if let decoded = readPlain(padded, arrival) { return decoded }
            return try readAny(try parser.parse(padded: padded), arrival)
        } catch let reason as PoisonReason {
            throw reason
        } catch {
            throw .badJSON
        }
    }

    /// Nil for whatever is not as our own writers write it, or is poison.
    private func readPlain(_ value: UnsafeRawBufferPointer, _ arrival: Arrival) -> DecodedDays? {
        guard var text = PlainRecordText(padded: value), let fields = text.readFields(),
            let stamp = try? RecordStamp(fields, arrival),
            let readings = text.readDays(stamp, keys, bounds, &month)
        else { return nil }
        return DecodedDays(arrival, stamp, readings)
    }

    private func readAny(_ root: JSONValue, _ arrival: Arrival) throws(PoisonReason) -> DecodedDays {
        guard let object = root.object else { throw .badShape }
        let fields = try RecordFields(object)
        let stamp = try RecordStamp(fields, arrival)
        return DecodedDays(arrival, stamp, try readDays(fields.days, stamp))
    }

    private func readDays(_ value: JSONValue?, _ stamp: RecordStamp) throws(PoisonReason) -> [Reading] {
        guard var days = value?.array else { throw .badShape }
        let count = days.count(upTo: RecordLimits.days + 1)
        guard count <= RecordLimits.days else { throw .tooLarge }
        var readings: [Reading] = []
        readings.reserveCapacity(count)
        while let day = days.next() {
            guard let members = day.object else { throw .badShape }
            let (date, values) = try readDay(members, keys)
            guard date <= stamp.lastDate else { throw .badDate }
            readings.append(stamp.reading(date, values))
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

/// What key and headers say of a record.
private struct Arrival {
    let user: UserID
    let event: EventID
    let receivedAt: Instant
}

/// What the readings of a record have in common.
struct RecordStamp {
    let source: Source
    let origin: String
    let version: Version
    let localDate: CalendarDay
    /// The furthest zone is fourteen hours ahead, and a sender may be one day ahead of that.
    let lastDate: CalendarDay

    @inline(__always)
    func reading(_ date: CalendarDay, _ values: MetricValues) -> Reading {
        Reading(day: date, values: values, version: version, closed: date < localDate)
    }
}

extension RecordStamp {
    fileprivate init(_ fields: RecordFields, _ arrival: Arrival) throws(PoisonReason) {
        source = try fields.readSource()
        origin = try fields.readOrigin()
        let observedAt = try fields.readObservedAt()
        let receivedAt = arrival.receivedAt
        localDate = try fields.readLocalDate(
            at: Version.effectiveInstant(observedAt: observedAt, receivedAt: receivedAt)
        )
        version = Version(observedAt: observedAt, receivedAt: receivedAt, event: arrival.event)
        lastDate = receivedAt.day(secondsFromUTC: 14 * 3600).advanced(by: 1)
    }
}

extension DecodedDays {
    fileprivate init(_ arrival: Arrival, _ stamp: RecordStamp, _ readings: [Reading]) {
        self.init(
            user: arrival.user,
            source: stamp.source,
            origin: stamp.origin,
            event: arrival.event,
            receivedAt: arrival.receivedAt,
            version: stamp.version,
            localDate: stamp.localDate,
            readings: readings
        )
    }
}

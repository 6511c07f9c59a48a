import Domain
public import JSON
public import MessageContract
public import TimeZones

/// Reads and checks bodies of `POST /v1/days`. One decoder belongs to one thread.
public final class DaysRequestDecoder {
    private let parser: JSONParser
    private let zones: ZoneTable
    private let keys = MetricKeys()
    private let bounds = MetricBounds.all()
    private var plain = PlainDays()
    private var month = MonthMemo()
    // Plain memory, as each day comes by; used by `decode` alone, inside its limits.
    /// For each date that is taken, from the oldest on, where it stands in the request's result, plus one.
    private let places: UnsafeMutablePointer<Int16>
    /// For each stored day where in the body it stood.
    private let indexes: UnsafeMutablePointer<Int>
    /// Memory of the last request's days, used again if nobody holds them any more.
    private var spareDays: [DaysRecord.Day] = []

    /// - Throws: `outOfMemory`.
    public init(zones: ZoneTable) throws(JSONError) {
        self.zones = zones
        parser = try JSONParser(maximumDepth: 8)
        places = .allocate(capacity: DaysRules.oldestDays + 2)
        places.initialize(repeating: 0, count: DaysRules.oldestDays + 2)
        indexes = .allocate(capacity: DaysRules.mostDays)
        indexes.initialize(repeating: 0, count: DaysRules.mostDays)
    }

    deinit {
        places.deallocate()
        indexes.deallocate()
    }

    /// A record's text of all of the last request's days, where its body has them just so: out of the body's own bytes,
    /// as long as they live and until the next call.
    public private(set) var recordText: DaysRecordText?

    /// Reads a body behind which `JSONParser.padding` more bytes may be read. Single bad days are in the result; what
    /// is wrong with the request as a whole is thrown.
    public func decode(padded body: UnsafeRawBufferPointer, _ context: DaysContext) throws(RequestProblem)
        -> DaysRequest
    {
        var month = month
        recordText = nil
        let isPlain = plain.read(body, &month)
        self.month = month
        return try isPlain ? takePlain(context) : decodeTree(padded: body, context)
    }

    /// The general way, for whatever body.
    func decodeTree(padded body: UnsafeRawBufferPointer, _ context: DaysContext) throws(RequestProblem) -> DaysRequest {
        let root: JSONValue
        do {
            root = try parser.parse(padded: body)
        } catch {
            throw .badJSON(error)
        }
        guard let object = root.object else { throw .badShape("", "The body must be an object.") }
        let fields = try RequestFields(object)
        var keepsZeros = false
        var request = try readHead(fields, context, &keepsZeros)
        guard var days = fields.days?.array else { throw .badShape("days", "This must be an array of days.") }
        let count = days.count(upTo: DaysRules.mostDays + 1)
        guard count > 0 else { throw .badField("days", "no_days", "Send at least one day.") }
        guard count <= DaysRules.mostDays else {
            throw .badField("days", "too_many_days", "Send at most 400 days in one request.")
        }
        beginDays(count, &request)
        var month = month
        var index = 0
        while let day = days.next() {
            readDay(day, index, keepsZeros, &request, &month)
            index += 1
        }
        self.month = month
        forgetPlaces(request)
        spareDays = request.days
        return consume request
    }

    /// What was read the plain way, by the same rules: each day is known to be good.
    private func takePlain(_ context: DaysContext) throws(RequestProblem) -> DaysRequest {
        var keepsZeros = false
        var request = try readHead(plain.fields, context, &keepsZeros)
        let (days, count) = (plain.days, plain.count)
        beginDays(count, &request)
        // As phones send them: dates in order, so that no two are the same, and those between the first and the last
        // are in the window if these are.
        if plain.isRegular, isInWindow(days[0].date, request), isInWindow(days[count - 1].date, request) {
            request.hasGoodDate = true
            request.days.append(contentsOf: UnsafeBufferPointer(start: days, count: count))
            recordText = plain.recordText
        } else {
            takeSingly(keepsZeros, &request)
            forgetPlaces(request)
        }
        spareDays = request.days
        return consume request
    }

    private func takeSingly(_ keepsZeros: Bool, _ request: inout DaysRequest) {
        var zeros = plain.zeros[...]
        for index in 0..<plain.count {
            var day = ReadDay(date: plain.days[index].date, values: plain.days[index].values)
            while let zero = zeros.first, zero.day == index {
                zeros.removeFirst()
                if bounds[zero.metric.index].zeroIsNeverRead || !keepsZeros {
                    day.skipZero(zero.metric, index, &request)
                } else {
                    day.values[zero.metric] = 0
                }
            }
            take(day, index, &request)
        }
    }

    private func isInWindow(_ date: CalendarDay, _ request: DaysRequest) -> Bool {
        let ahead = date.days(since: request.today)
        return ahead <= 1 && ahead >= -DaysRules.oldestDays
    }

    /// Everything but the days, and whether a zero is a reading.
    private func readHead(
        _ fields: RequestFields,
        _ context: DaysContext,
        _ keepsZeros: inout Bool
    ) throws(RequestProblem) -> DaysRequest {
        let source = try fields.readSource()
        let origin = try fields.readOrigin(of: source)
        // What is before the earliest means the same as that; and the record has no form for years before 0.
        let observedAt = try fields.readObservedAt().map { max(.earliest, min($0, context.receivedAt)) }
        keepsZeros = try fields.readKeepsZeros()
        let zone = try resolveZone(fields, context)
        let offset = zone?.offset(at: context.receivedAt) ?? 0
        let effective = Version.effectiveInstant(observedAt: observedAt, receivedAt: context.receivedAt)
        let effectiveOffset = zone?.offset(at: effective) ?? 0
        return DaysRequest(
            source: source,
            origin: origin,
            observedAt: observedAt,
            timeZone: zone?.name ?? context.fallbackZone,
            today: context.receivedAt.day(secondsFromUTC: offset),
            localDate: effective.day(secondsFromUTC: effectiveOffset),
            days: [],
            skipped: [],
            errors: [],
            hasGoodDate: false,
            badDays: 0,
            dayCount: 0
        )
    }

    private func beginDays(_ count: Int, _ request: inout DaysRequest) {
        request.dayCount = count
        swap(&request.days, &spareDays)
        request.days.removeAll(keepingCapacity: true)
        request.days.reserveCapacity(count)
    }

    private func forgetPlaces(_ request: DaysRequest) {
        for day in request.days { places[place(of: day.date, today: request.today)] = 0 }
    }

    private func place(of date: CalendarDay, today: CalendarDay) -> Int {
        date.days(since: today) + DaysRules.oldestDays
    }

    /// Reads one day into the request.
    private func readDay(
        _ value: JSONValue,
        _ index: Int,
        _ keepsZeros: Bool,
        _ request: inout DaysRequest,
        _ month: inout MonthMemo
    ) {
        guard let members = value.object else {
            request.badDays += 1
            request.note(index, "", "not_an_object", "A day must be an object with a date.", isFirst: true)
            return
        }
        take(readMembers(members, index, keepsZeros, &request, &month), index, &request)
    }

    /// Puts a day that was read into the request, by the rules of the window, and of two days with one date the last.
    private func take(_ read: ReadDay, _ index: Int, _ request: inout DaysRequest) {
        guard let date = read.date, !read.isBad else {
            request.badDays += 1
            return
        }
        guard isInWindow(date, request) else {
            // Its zeros are beside the point.
            request.skipped.removeLast(read.zeros)
            request.skip(index, date, date > request.today ? .tooFarAhead : .tooOld)
            return
        }
        request.hasGoodDate = true
        if read.zeros > 0 {
            for position in request.skipped.indices.suffix(read.zeros) { request.skipped[position].date = date }
        }
        guard !read.values.isEmpty else {
            if read.zeros == 0 { request.skip(index, date, .empty) }
            return
        }
        let place = place(of: date, today: request.today)
        let taken = Int(places[place])
        if taken > 0 {
            request.skip(indexes[taken - 1], date, .duplicateDate)
            request.days[taken - 1].values = read.values
            indexes[taken - 1] = index
        } else {
            indexes[request.days.count] = index
            request.days.append(DaysRecord.Day(date: date, values: read.values))
            places[place] = Int16(request.days.count)
        }
    }

    private struct ReadDay {
        var date: CalendarDay?
        var values = MetricValues()
        /// How many zeros were skipped; they stand at the end of the request's list, still without their date.
        var zeros = 0
        var isBad = false

        mutating func skipZero(_ metric: Metric, _ index: Int, _ request: inout DaysRequest) {
            request.skipped.append(.init(index: index, date: request.today, metric: metric, reason: .zero))
            zeros += 1
        }
    }

    private func readMembers(
        _ members: JSONObject,
        _ index: Int,
        _ keepsZeros: Bool,
        _ request: inout DaysRequest,
        _ month: inout MonthMemo
    ) -> ReadDay {
        var members = members
        var day = ReadDay()
        var seen = MetricSet()
        var hasDate = false
        var place = 0
        while let (key, value) = members.next() {
            if key.isDate {
                guard !hasDate else {
                    Self.note(&request, &day, index, "date", "duplicate_key", "Send this field once.")
                    continue
                }
                hasDate = true
                if let text = value.text { day.date = month.read(text) }
                if day.date == nil {
                    Self.note(&request, &day, index, "date", "bad_date", "Send a day of the calendar as YYYY-MM-DD.")
                }
                continue
            }
            let known = keys.metric(for: key, at: place)
            place += 1
            guard let metric = known else { continue }
            guard !seen.has(metric) else {
                Self.note(&request, &day, index, MetricLedger[metric].name, "duplicate_key", "Send this field once.")
                continue
            }
            seen.insert(metric)
            guard !value.isNull else { continue }
            let limits = bounds[metric.index]
            switch MetricNumber.read(value, bounds: limits) {
            case .tenths(0) where limits.zeroIsNeverRead || !keepsZeros:
                day.skipZero(metric, index, &request)
            case .tenths(let tenths): day.values[metric] = tenths
            case .failure(let failure):
                Self.note(&request, &day, index, MetricLedger[metric].name, failure.code, failure.message)
            }
        }
        if !hasDate { Self.note(&request, &day, index, "date", "missing_date", "Send the day's date as YYYY-MM-DD.") }
        if day.isBad {
            request.skipped.removeLast(day.zeros)
            day.zeros = 0
        }
        return day
    }

    @inline(never)
    private static func note(
        _ request: inout DaysRequest,
        _ day: inout ReadDay,
        _ index: Int,
        _ field: StaticString,
        _ code: StaticString,
        _ message: StaticString
    ) {
        request.note(index, field, code, message, isFirst: !day.isBad)
        day.isBad = true
    }

    /// The payload's zone must be one; claim and header are used if they are. Nil: not even the fallback is known.
    private func resolveZone(_ fields: RequestFields, _ context: DaysContext) throws(RequestProblem) -> KnownZone? {
        if let text = try fields.readTimeZone() {
            guard let zone = zones.zone(text.span) else {
                throw .badField("time_zone", "unknown_time_zone", "Send a zone of the IANA database, or leave it out.")
            }
            return zone
        }
        return zones.resolve(
            claimed: context.claimedZone,
            header: context.headerZone,
            fallback: context.fallbackZone
        )
    }
}

extension JSONText {
    /// Eight readable bytes lie behind the text's start, whatever its length.
    @inline(__always)
    fileprivate var isDate: Bool {
        guard count == 4, let start = UnsafeRawPointer(baseAddress) else { return false }
        return UInt32(littleEndian: start.loadUnaligned(as: UInt32.self)) == 0x6574_6164
    }
}

extension MetricNumber.Failure {
    var code: StaticString {
        switch self {
        case .notANumber: "not_a_number"
        case .notWhole: "not_whole"
        case .outOfRange: "out_of_range"
        }
    }

    var message: StaticString {
        switch self {
        case .notANumber: "Send a number."
        case .notWhole: "Send a whole number."
        case .outOfRange: "Send a number inside the range that the interface's description gives."
        }
    }
}

extension DaysRequest {
    mutating func skip(_ index: Int, _ date: CalendarDay, _ reason: Skipped.Reason) {
        skipped.append(Skipped(index: index, date: date, metric: nil, reason: reason))
    }

    /// Every bad day is listed with its first error; once the list is long, with that one alone.
    fileprivate mutating func note(
        _ index: Int,
        _ field: StaticString,
        _ code: StaticString,
        _ message: StaticString,
        isFirst: Bool
    ) {
        guard isFirst || errors.count < DaysRules.mostListedErrors else { return }
        let path = field.utf8CodeUnitCount == 0 ? "days[\(index)]" : "days[\(index)].\(field)"
        errors.append(FieldError(index: index, field: path, code: code, message: message))
    }
}

import Domain
import JSON
import MessageContract

/// Reads bodies of `POST /api/sync/apple-health`: the first apps' own names and units.
struct AppleHealthDays {
    private(set) var collector: DaysCollector
    private(set) var warnings: [String] = []
    private let bounds = MetricBounds.all()
    /// What a malformed date becomes, and the zone it is in.
    private let today: CalendarDay
    private let todayZone: String

    static let mostDays = RecordLimits.days
    static let millilitresPerOunce = 29.573_529_562_5

    /// Their name of each metric. `hrv` is the only figure that HealthKit has, the SDNN.
    static let fields: [(name: StaticString, metric: Metric)] = [
        ("steps", .steps), ("active_calories", .activeEnergy), ("basal_calories", .basalEnergy),
        ("total_calories", .totalEnergy), ("active_minutes", .activeMinutes), ("exercise_minutes", .exerciseMinutes),
        ("water_oz", .water), ("resting_heart_rate", .restingHeartRate), ("hrv", .hrvSDNN),
        ("sleep_minutes", .sleepMinutes), ("distance_m", .distance),
    ]

    init(collector: DaysCollector, today: CalendarDay, todayZone: String) {
        self.collector = collector
        self.today = today
        self.todayZone = todayZone
    }

    /// One day, or `{"days": […]}`.
    mutating func read(_ body: JSONObject) throws(RequestProblem) {
        let days: JSONValue?
        do {
            days = try body.member("days")
        } catch {
            throw .badField("days", "duplicate_key", "Send this field once.")
        }
        guard let days else { return readDay(body, index: 0, path: "") }
        guard var list = days.array else { throw .badShape("days", "This must be an array of days.") }
        let count = list.count(upTo: Self.mostDays + 1)
        guard count > 0 else { throw .badField("days", "no_days", "Send at least one day.") }
        guard count <= Self.mostDays else {
            throw .badField("days", "too_many_days", "Send at most 400 days in one request.")
        }
        var index = 0
        while let day = list.next() {
            let path = "days[\(index)]"
            if let object = day.object {
                readDay(object, index: index, path: path + ".")
            } else {
                collector.addBad([
                    FieldError(index: index, field: path, code: "not_an_object", message: "A day must be an object.")
                ])
            }
            index += 1
        }
    }

    private mutating func readDay(_ object: JSONObject, index: Int, path: String) {
        var object = object
        var values = MetricValues()
        var errors: [FieldError] = []
        var date: CalendarDay?
        var hasDate = false
        var seen: MetricSet = []
        func bad(_ field: StaticString, _ code: StaticString, _ message: StaticString) {
            // A body of nothing but repeated keys must not become an answer many times its size.
            guard errors.count <= Self.fields.count else { return }
            errors.append(FieldError(index: index, field: "\(path)\(field)", code: code, message: message))
        }
        while let (key, value) = object.next() {
            if key.equals("date") {
                if hasDate { bad("date", "duplicate_key", "Send this field once.") }
                hasDate = true
                date = value.text.flatMap { CalendarDay(ascii: $0.span) }
                continue
            }
            guard let field = Self.fields.first(where: { key.equals($0.name) }) else { continue }
            guard !seen.has(field.metric) else {
                bad(field.name, "duplicate_key", "Send this field once.")
                continue
            }
            seen.insert(field.metric)
            guard !value.isNull else { continue }
            switch read(value, field.metric) {
            // A missing read looks like a zero.
            case .tenths(0): break
            case .tenths(let tenths): values[field.metric] = tenths
            case .failure(let failure): bad(field.name, failure.code, failure.message)
            }
        }
        guard errors.isEmpty else {
            for error in errors { warnings.append("\(error.field): \(error.code), the day was left out") }
            collector.addBad(errors)
            return
        }
        if date == nil {
            warnings.append("\(path)date: missing or malformed, taken as today in \(todayZone)")
        }
        switch collector.add(date ?? today, values, index: index) {
        case .tooOld: warnings.append("\(path)date: more than 400 days ago, the day was left out")
        case .tooFarAhead: warnings.append("\(path)date: more than a day ahead, the day was left out")
        case .duplicateDate, .zero, .empty, nil: break
        }
    }

    private func read(_ value: JSONValue, _ metric: Metric) -> MetricNumber.Outcome {
        let limits = bounds[metric.index]
        switch metric {
        case .steps:
            // A negative count is a failed read, too.
            if let number = value.double, number <= 0 { return .tenths(0) }
            return MetricNumber.read(value, bounds: limits)
        case .water:
            guard let ounces = value.double else { return .failure(.notANumber) }
            return MetricNumber.check(ounces * Self.millilitresPerOunce, bounds: limits)
        default: return MetricNumber.read(value, bounds: limits)
        }
    }
}

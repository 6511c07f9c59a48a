import Authentication
import Domain
import JSON
import MessageContract

/// Reads bodies of `POST /v1/trainee/health/days`: any violation refuses the whole.
struct TraineeDays {
    static let mostDays = 90
    static let oldestDays = 90

    private(set) var collector: DaysCollector
    private let bounds = MetricBounds.all()

    init(collector: DaysCollector) {
        self.collector = collector
    }

    /// The phone's own store; an app that does not say which phone it runs on is an iOS one.
    static func source(of platform: Platform?) -> Source {
        switch platform {
        case .ios, nil: .appleHealth
        case .android: .healthConnect
        }
    }

    mutating func read(_ body: JSONObject) throws(RequestProblem) {
        guard let days = try Self.member(body, "days"), var list = days.array else {
            throw .badShape("days", "This must be an array of days.")
        }
        let count = list.count(upTo: Self.mostDays + 1)
        guard count > 0, count <= Self.mostDays else {
            throw .refusedWhole("days", "number_of_days", "Send 1 to 90 days.")
        }
        var index = 0
        while let day = list.next() {
            let path = "days[\(index)]"
            guard let object = day.object else {
                throw .refusedWhole(path, "not_an_object", "A day must be an object with date and steps.")
            }
            guard let date = try Self.member(object, "date", of: path)?.text.flatMap({ CalendarDay(ascii: $0.span) })
            else {
                throw .refusedWhole(path + ".date", "bad_date", "Send a day of the calendar as YYYY-MM-DD.")
            }
            guard let steps = try Self.member(object, "steps", of: path),
                case .tenths(let tenths) = MetricNumber.read(steps, bounds: bounds[Metric.steps.index])
            else { throw .refusedWhole(path + ".steps", "bad_steps", "Send a whole number from 0 to 100000.") }
            // A missing read looks like a zero.
            collector.add(date, tenths == 0 ? [:] : [.steps: tenths], index: index)
            index += 1
        }
    }

    private static func member(
        _ object: JSONObject,
        _ name: StaticString,
        of path: String? = nil
    ) throws(RequestProblem) -> JSONValue? {
        do {
            return try object.member(name)
        } catch {
            let field = path.map { "\($0).\(name)" } ?? name.description
            throw .refusedWhole(field, "duplicate_key", "Send this field once.")
        }
    }
}

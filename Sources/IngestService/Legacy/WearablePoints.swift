import Domain
import JSON
import MessageContract

/// Reads bodies of `POST /api/v1/wearable/data`. Points are independent: good ones are kept, bad ones listed by index.
struct WearablePoints: ~Copyable {
    private(set) var deviceID = ""
    /// Each time once, in the order in which they came first.
    private(set) var points: [PointsRecord.Point] = []
    private(set) var errors: [FieldError] = []
    private(set) var accepted = 0
    private(set) var bad = 0
    private var places: [Instant: Int] = [:]
    private let bounds = PointBounds()
    private let latest: Instant
    private var writer = JSONWriter()

    init(receivedAt: Instant) {
        latest = receivedAt.advanced(bySeconds: PointBounds.aheadSeconds)
    }

    mutating func read(_ body: JSONObject) throws(RequestProblem) {
        let fields = BodyFields(body)
        deviceID = try fields.required("device_id", longest: RecordLimits.deviceIDBytes)
        guard var list = try fields.value("points")?.array else {
            throw .badShape("points", "This must be an array of points.")
        }
        let count = list.count(upTo: RecordLimits.points + 1)
        guard count > 0 else { throw .badField("points", "no_points", "Send at least one point.") }
        guard count <= RecordLimits.points else {
            throw .badField("points", "too_many_points", "Send at most 5000 points in one request.")
        }
        points.reserveCapacity(count)
        places.reserveCapacity(count)
        var index = 0
        while let value = list.next() {
            readPoint(value, index)
            index += 1
        }
        if bad == count { throw .invalid(errors) }
    }

    private mutating func readPoint(_ value: JSONValue, _ index: Int) {
        guard var object = value.object else {
            bad += 1
            note(index, "", "not_an_object", "A point must be an object with a timestamp.", isFirst: true)
            return
        }
        var point = PointsRecord.Point(time: .earliest)
        var isBad = false
        var hasTime = false
        var seen: Set<StaticName> = []
        while let (key, value) = object.next() {
            guard let name = Self.names.first(where: { key.equals($0.text) }) else { continue }
            var failure: (code: StaticString, message: StaticString)?
            if !seen.insert(name).inserted {
                failure = ("duplicate_key", "Send this field once.")
            } else if name == .timestamp {
                hasTime = true
                failure = readTime(value, into: &point.time)
            } else if !value.isNull {
                failure = read(value, name, into: &point)
            }
            if let failure {
                note(index, name.text, failure.code, failure.message, isFirst: !isBad)
                isBad = true
            }
        }
        if !hasTime, !isBad {
            note(
                index,
                "timestamp",
                "bad_time",
                "Send a time with its zone, such as 2026-09-02T21:14:05Z.",
                isFirst: true
            )
            isBad = true
        }
        if !isBad, point.isEmpty {
            note(index, "", "no_values", "Send at least one figure or data.", isFirst: true)
            isBad = true
        }
        guard !isBad else {
            bad += 1
            return
        }
        accepted += 1
        if let place = places[point.time] {
            points[place].replace(with: point)
        } else {
            places[point.time] = points.count
            points.append(point)
        }
    }

    /// A member's name; compared by which it is.
    private struct StaticName: Hashable {
        let number: Int
        let text: StaticString

        static let timestamp = StaticName(number: 0, text: "timestamp")
        static let heartRate = StaticName(number: 1, text: "heart_rate")
        static let steps = StaticName(number: 2, text: "steps")
        static let calories = StaticName(number: 3, text: "calories")
        static let data = StaticName(number: 4, text: "data")

        static func == (left: StaticName, right: StaticName) -> Bool { left.number == right.number }
        func hash(into hasher: inout Hasher) { hasher.combine(number) }
    }

    private static let names: [StaticName] = [.timestamp, .heartRate, .steps, .calories, .data]

    private borrowing func readTime(_ value: JSONValue, into time: inout Instant) -> (StaticString, StaticString)? {
        guard let read = value.text.flatMap({ Instant(rfc3339: $0.span) }) else {
            return ("bad_time", "Send a time with its zone, such as 2026-09-02T21:14:05Z.")
        }
        guard read >= .earliest, read <= latest else {
            return ("out_of_range", "Send a time from 2020 on and not more than a day ahead.")
        }
        time = read
        return nil
    }

    private mutating func read(
        _ value: JSONValue,
        _ name: StaticName,
        into point: inout PointsRecord.Point
    ) -> (StaticString, StaticString)? {
        func number(_ bounds: MetricBounds, _ field: inout Int32?) -> (StaticString, StaticString)? {
            switch MetricNumber.read(value, bounds: bounds) {
            // A heart rate of zero is a sensor that read nothing.
            case .tenths(0) where bounds.zeroIsNeverRead: return nil
            case .tenths(let tenths):
                field = tenths
                return nil
            case .failure(let failure): return (failure.code, failure.message)
            }
        }
        switch name {
        case .heartRate: return number(bounds.heartRate, &point.heartRate)
        case .steps: return number(bounds.steps, &point.steps)
        case .calories: return number(bounds.activeEnergy, &point.activeEnergy)
        default:
            guard value.object != nil else { return ("not_an_object", "Send an object.") }
            guard value.isNested(atMost: RecordLimits.pointDataDepth) else {
                return ("too_deep", "Nest at most four objects or arrays.")
            }
            writer.reset()
            guard writer.value(value, atMost: RecordLimits.pointDataBytes) else {
                return ("too_long", "Send at most 4096 bytes.")
            }
            point.data = writer.bytes
            return nil
        }
    }

    /// Every bad point is listed with its first error; once the list is long, with that one alone.
    private mutating func note(
        _ index: Int,
        _ field: StaticString,
        _ code: StaticString,
        _ message: StaticString,
        isFirst: Bool
    ) {
        guard isFirst || errors.count < DaysRules.mostListedErrors else { return }
        let path = field.utf8CodeUnitCount == 0 ? "points[\(index)]" : "points[\(index)].\(field)"
        errors.append(FieldError(index: index, field: path, code: code, message: message))
    }
}

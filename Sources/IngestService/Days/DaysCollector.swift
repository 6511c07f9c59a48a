import Domain
import JSON
import MessageContract
import Observability

/// Puts days that were read one by one into the form that records are made of: by the rules of the window, and of two
/// days with one date the last. For the routes of old; `/v1/days` has its own way, which is quicker.
struct DaysCollector {
    private(set) var request: DaysRequest
    private let oldestDays: Int
    private var places: [CalendarDay: Int] = [:]

    init(
        source: Source,
        zone: (name: String, offset: Int),
        receivedAt: Instant,
        oldestDays: Int = DaysRules.oldestDays
    ) {
        let today = receivedAt.day(secondsFromUTC: zone.offset)
        self.oldestDays = oldestDays
        request = DaysRequest(
            source: source,
            origin: "",
            observedAt: nil,
            timeZone: zone.name,
            today: today,
            localDate: today,
            days: [],
            skipped: [],
            errors: [],
            hasGoodDate: false,
            badDays: 0,
            dayCount: 0
        )
    }

    /// A good day. Returns why it was left out, or nil.
    @discardableResult
    mutating func add(_ date: CalendarDay, _ values: MetricValues, index: Int) -> DaysRequest.Skipped.Reason? {
        request.dayCount += 1
        let ahead = date.days(since: request.today)
        guard ahead <= 1, ahead >= -oldestDays else {
            request.skip(index, date, ahead > 1 ? .tooFarAhead : .tooOld)
            return ahead > 1 ? .tooFarAhead : .tooOld
        }
        request.hasGoodDate = true
        guard !values.isEmpty else {
            request.skip(index, date, .empty)
            return .empty
        }
        if let place = places[date] {
            request.skip(index, date, .duplicateDate)
            request.days[place].values = values
        } else {
            places[date] = request.days.count
            request.days.append(DaysRecord.Day(date: date, values: values))
        }
        return nil
    }

    mutating func addBad(_ errors: [FieldError]) {
        request.dayCount += 1
        request.badDays += 1
        request.errors += errors
    }
}

/// An answer of a route of old, which counts days as `/v1/days` does.
final class LegacyDaysAnswer: RouteAnswer {
    let status: Int
    private let json: [UInt8]
    private let accepted: Int
    private let skipped: Int
    private let bad: Int

    init(status: Int, json: [UInt8], _ request: DaysRequest) {
        self.status = status
        self.json = json
        accepted = request.days.count
        skipped = request.skipped.count
        bad = request.badDays
    }

    func writeBody(_ positions: RecordPositions, into writer: inout JSONWriter) { writer.raw(json) }
    var heldBytes: Int { json.count }

    func count(in metrics: IngestMetrics) {
        metrics.accepted.add(accepted)
        metrics.skipped.add(skipped)
        metrics.bad.add(bad)
    }
}

import Domain
import Testing

@testable import Daybook

struct DayExplanationTests {
    private let day = CalendarDay(daysSinceEpoch: 20_600)

    private func row(_ source: Source, _ values: MetricValues, at second: Int, origin: String = "") -> SourceRow {
        var state = SourceDay()
        let instant = Instant.earliest.advanced(bySeconds: 200_000_000 + second)
        let version = Version(observedAt: nil, receivedAt: instant, event: EventID(high: 0, low: 0))
        state.apply(Reading(day: day, values: values, version: version, closed: source == .oura))
        return SourceRow(provenance: Provenance(source: source, origin: origin), state: state)
    }

    private func record(_ rows: [SourceRow], _ preferences: Preferences = Preferences()) -> DayRecord {
        let sorted = rows.sorted { $0.provenance < $1.provenance }
        let canonical = CanonicalDay(resolving: sorted, preferences: preferences)
        return DayRecord(day: day, canonical: canonical, ruleVersion: 1, rows: rows)
    }

    @Test func `every candidate has its fate`() throws {
        let rows = [
            row(.manual, [.steps: 400_000], at: 5), row(.oura, [.steps: 0, .sleepMinutes: 4200], at: 4),
            row(.appleHealth, [.steps: 70_500, .sleepMinutes: 4000], at: 1),
            row(.garmin, [.steps: 70_500], at: 2, origin: "a"), row(.garmin, [.steps: 60_000], at: 2, origin: "b"),
        ]
        let explanation = DayExplanation(record(rows), preferences: Preferences())
        let steps = try #require(explanation.values.first { $0.metric == .steps })
        let fates = Dictionary(uniqueKeysWithValues: steps.candidates.map { ($0.provenance.shown, $0.fate) })
        #expect(
            fates == [
                "apple_health": .won, "oura": .zeroDropped, "garmin/a": .tieLost, "garmin/b": .otherOrigin,
                "manual": .onlyWithoutOthers,
            ]
        )
        #expect(steps.winner == Provenance(source: .appleHealth))
        #expect(!steps.hasDrifted)
        let text = DayText.explained(explanation, .plain).joined(separator: "\n")
        #expect(text.contains("7,050") && text.contains("as high, but later in the order"))
        #expect(text.contains("sleep_minutes: the first that has it of checkin, oura"))
    }

    @Test func `a pin is named, and drift is seen`() throws {
        let rows = [row(.appleHealth, [.steps: 70_500], at: 1), row(.oura, [.steps: 60_000], at: 2)]
        let version = Version(rawValue: 5)
        let pinned = Preferences(pins: [.init(metric: .steps, source: .oura, version: version)])
        let steps = try #require(DayExplanation(record(rows, pinned), preferences: pinned).values.first)
        #expect(steps.rule.hasPrefix("pinned to oura"))
        #expect(steps.winner?.source == .oura && !steps.hasDrifted)
        // The canonical row was made before the pin: the rules say something else by now.
        let stale = DayExplanation(record(rows), preferences: pinned)
        #expect(stale.values.first?.hasDrifted == true)
        #expect(DayText.json(user: UserID(high: 0, low: 1), [stale]).text().contains("\"drifted\": true"))
    }
}

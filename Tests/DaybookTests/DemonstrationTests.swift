import Domain
import Foundation
import Testing

@testable import Daybook

struct DemonstrationTests {
    private let now = Instant(microseconds: 1_788_700_000_000_000)
    private var demonstration: Demonstration { Demonstration(now: now) }

    /// What the pure rules make of the demonstration's own requests, a bad item left out as ingest does.
    private func canonicalDays(leavingOut step: Int? = nil) -> [CalendarDay: CanonicalDay] {
        var rows: [CalendarDay: [Provenance: SourceDay]] = [:]
        for (number, step_) in demonstration.steps.enumerated() where number != step {
            let version = Version(
                observedAt: step_.observedAt,
                receivedAt: now,
                event: EventID(high: 0, low: UInt64(number))
            )
            for (index, day) in step_.days.enumerated() where !step_.errors.contains(index) {
                var values = MetricValues()
                for field in day.fields where !step_.skipped.contains("\(index).\(field.key)") {
                    guard let metric = Metric(name: field.key), let value = Double(field.literal) else { continue }
                    values[metric] = Int32(value * 10)
                }
                let isClosed = day.date < step_.observedAt.day(secondsFromUTC: 0)
                let reading = Reading(day: day.date, values: values, version: version, closed: isClosed)
                rows[day.date, default: [:]][Provenance(source: step_.source), default: SourceDay()].apply(reading)
            }
        }
        return rows.mapValues { states in
            let sorted = states.sorted { $0.key < $1.key }.map { SourceRow(provenance: $0.key, state: $0.value) }
            return CanonicalDay(resolving: sorted, preferences: Preferences())
        }
    }

    @Test func `the expected figures are what the rules make of the requests`() {
        let check = DemonstrationCheck(demonstration: demonstration)
        let wrong = check.figures(canonicalDays()).filter { !$0.isRight }
        #expect(wrong.isEmpty)
        #expect(check.isComplete(canonicalDays()))
    }

    @Test func `the last request's figure says that all have been applied`() {
        let check = DemonstrationCheck(demonstration: demonstration)
        #expect(!check.isComplete(canonicalDays(leavingOut: demonstration.steps.count - 1)))
        #expect(!check.isComplete([:]))
    }

    @Test func `a figure that nobody expected is a fault`() {
        var days = canonicalDays()
        let today = now.day(secondsFromUTC: 0)
        days[today] = CanonicalDay(
            values: [.steps: 34_100, .activeEnergy: 1400, .water: 15_000, .spo2: 970],
            winners: [
                Provenance(source: .appleHealth), Provenance(source: .appleHealth),
                Provenance(source: .healthConnect), Provenance(source: .appleHealth),
            ],
            isFinal: false
        )
        let wrong = DemonstrationCheck(demonstration: demonstration).figures(days).filter { !$0.isRight }
        #expect(wrong.map(\.subject) == ["\(today) spo2_percent"])
    }

    @Test func `bodies are JSON with days relative to today`() throws {
        for step in demonstration.steps {
            let object = try JSONSerialization.jsonObject(with: Data(step.body.utf8)) as? [String: Any]
            let days = try #require(object?["days"] as? [[String: Any]])
            #expect(days.count == step.days.count)
            #expect(object?["source"] as? String == step.source.description)
        }
        #expect(demonstration.days.upperBound == now.day(secondsFromUTC: 0))
    }

    @Test func `answers are compared by count, index and field`() {
        let check = DemonstrationCheck(demonstration: demonstration)
        let step = demonstration.steps[1]
        let right =
            #"{"accepted":3,"skipped":[{"index":2,"date":"2026-09-01","field":"steps","code":"zero"}],"errors":[]}"#
        #expect(check.answer(step, status: 202, body: Data(right.utf8)).isRight)
        let wrong = #"{"accepted":3,"skipped":[],"errors":[{"index":1}]}"#
        let finding = check.answer(step, status: 202, body: Data(wrong.utf8))
        #expect(!finding.isRight)
        #expect(finding.detail.contains("skipped") && finding.detail.contains("errors"))
        #expect(!check.answer(step, status: 503, body: Data()).isRight)
        #expect(!check.answer(step, status: 202, body: Data("[]".utf8)).isRight)
    }
}

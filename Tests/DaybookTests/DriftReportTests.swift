import Domain
import Storage
import Testing

@testable import Daybook

struct DriftReportTests {
    private let key = UserDay(user: UserID(high: 1, low: 2), day: CalendarDay(daysSinceEpoch: 20_606))
    private let oura = Provenance(source: .oura, origin: "")
    private let garmin = Provenance(source: .garmin, origin: "")

    private func day(_ values: MetricValues, _ winner: Provenance, final: Bool = false) -> CanonicalDay {
        CanonicalDay(values: values, winners: values.mask.map { _ in winner }, isFinal: final)
    }

    private func report(_ stored: CanonicalDay?, _ resolved: CanonicalDay?) -> DriftReport {
        var report = DriftReport()
        report.add(key, stored: stored, resolved: resolved)
        return report
    }

    @Test func `the same day is no drift, nor is none where none should be`() {
        #expect(report(day([.steps: 10], oura), day([.steps: 10], oura)).drifted == 0)
        #expect(report(nil, nil) == DriftReport())
    }

    @Test func `drift is told by metric and kind`() {
        let kinds = report(
            day([.steps: 10, .water: 5, .distance: 7], oura),
            day([.steps: 20, .flightsClimbed: 1, .distance: 7], garmin)
        )
        #expect(kinds.drifted == 1)
        #expect(kinds.metrics[.steps] == .init(value: 1))
        #expect(kinds.metrics[.water] == .init(surplus: 1))
        #expect(kinds.metrics[.flightsClimbed] == .init(missing: 1))
        #expect(kinds.metrics[.distance] == .init(winner: 1))
        #expect(report(nil, day([.steps: 1], oura)).metrics[.steps] == .init(missing: 1))
        let final = report(day([.steps: 1], oura), day([.steps: 1], oura, final: true))
        #expect(final.drifted == 1 && final.finals == 1 && final.metrics.isEmpty)
    }

    @Test func `reports add up, with a few examples and no value`() {
        var sum = DriftReport()
        for number in 0..<30 {
            var one = DriftReport()
            one.add(
                UserDay(user: UserID(high: 1, low: UInt64(number)), day: key.day),
                stored: day([.steps: 123_450], oura),
                resolved: day([.steps: 20], oura)
            )
            sum += one
        }
        #expect(sum.drifted == 30 && sum.metrics[.steps]?.days == 30)
        #expect(sum.examples.count == DriftReport.exampleLimit)
        let text = sum.text(.plain).joined(separator: "\n")
        #expect(text.contains("30 drifted") && text.contains("daybook day show") && text.contains("recompute"))
        #expect(!text.contains("12345") && !sum.json.text().contains("12345"))
    }

    @Test func `users are cut into stretches without a gap`() {
        let bounds = [
            (UserID(high: 0, low: 0), UserID(high: .max, low: .max)),
            // As ids that begin with the time: all alike at their beginning.
            (UserID(high: 0x0197_0000_0000_7000, low: 1), UserID(high: 0x0197_0000_0fff_7000, low: 2)),
            (UserID(high: 5, low: 1), UserID(high: 5, low: 9)), (UserID(high: 5, low: 1), UserID(high: 7, low: 9)),
        ]
        for (lowest, highest) in bounds {
            for count in [1, 2, 3, 7, 64, 256, 1000] {
                let parts = UserRange.parts(count, between: lowest, and: highest)
                #expect(parts.first?.first == UserRange.all.first && parts.last?.last == UserRange.all.last)
                for (left, right) in zip(parts, parts.dropFirst()) { #expect(left.last.successor == right.first) }
                #expect(parts.count <= count && parts.allSatisfy { $0.first <= $0.last })
                for part in parts { #expect(RecomputeCommand.range(RecomputeCommand.name(part)) == part) }
            }
        }
        let clustered = UserRange.parts(64, between: bounds[1].0, and: bounds[1].1)
        #expect(clustered.count == 64)
        for name in [
            "", "x", "..", "\(UserID(high: 1, low: 1))", "\(UserID(high: 2, low: 1))..\(UserID(high: 1, low: 1))",
        ] {
            #expect(RecomputeCommand.range(name) == nil)
        }
        #expect(UserID(high: .max, low: .max).successor == nil)
        #expect(UserID(high: 1, low: .max).successor == UserID(high: 2, low: 0))
        let half = UserRange.all.fraction(of: UserID(high: .max / 2, low: 0))
        #expect(half > 0.49 && half < 0.51)
    }
}

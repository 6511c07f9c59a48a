import Domain
import Testing

@Suite struct `The canonical day` {
    @Test func `steps are the highest of the sources, never their sum (A1, D5)`() {
        let day = canonical(
            row(.oura, [.steps: 62_000]),
            row(.appleHealth, [.steps: 70_500]),
            row(.garmin, [.steps: 70_100])
        )
        #expect(day.values[.steps] == 70_500)
        #expect(day.winner(of: .steps) == Provenance(source: .appleHealth))
    }

    @Test func `a tie goes to the source that is earlier in the order`() {
        let day = canonical(row(.garmin, [.steps: 70_500]), row(.healthConnect, [.steps: 70_500]))
        #expect(day.winner(of: .steps)?.source == .healthConnect)
    }

    @Test func `total energy is never active energy (A5)`() {
        let day = canonical(row(.appleHealth, [.activeEnergy: 5200]), row(.whoop, [.totalEnergy: 23_800]))
        #expect(day.values == [.activeEnergy: 5200, .totalEnergy: 23_800])
        #expect(day.winner(of: .totalEnergy)?.source == .whoop)
    }

    @Test func `hand-typed values count only where nothing was measured, unless pinned (A6)`() {
        let manual = row(.manual, [.steps: 400_000])
        let phone = row(.appleHealth, [.steps: 60_000])
        #expect(canonical(manual, phone).values[.steps] == 60_000)
        #expect(canonical(manual, phone, pins: [.steps: .manual]).values[.steps] == 400_000)
        #expect(canonical(manual).values[.steps] == 400_000)
        #expect(canonical(manual, row(.checkin, [.steps: 1000])).winner(of: .steps)?.source == .checkin)
    }

    @Test func `a zero falls where another source has more (A7)`() {
        let day = canonical(
            row(.appleHealth, [.steps: 0]),
            row(.garmin, [.steps: 40_000]),
            pins: [.steps: .appleHealth]
        )
        #expect(day.values[.steps] == 40_000)
        #expect(canonical(row(.appleHealth, [.water: 0]), row(.garmin, [.water: 10])).values[.water] == 10)
        #expect(canonical(row(.appleHealth, [.steps: 0])).values[.steps] == 0)
    }

    @Test func `a hand-typed value does not make a measured zero fall`() {
        let day = canonical(row(.appleHealth, [.steps: 0]), row(.manual, [.steps: 50]))
        #expect(day.values[.steps] == 0)
    }

    @Test func `SDNN and RMSSD are two metrics, never averaged (A10)`() {
        let day = canonical(row(.appleHealth, [.hrvSDNN: 480]), row(.whoop, [.hrvRMSSD: 920]))
        #expect(day.values == [.hrvSDNN: 480, .hrvRMSSD: 920])
    }

    @Test func `sleep prefers the check-in, the body's figures the ring and the strap`() {
        let day = canonical(
            row(.appleHealth, [.sleepMinutes: 4000, .restingHeartRate: 600]),
            row(.oura, [.sleepMinutes: 4100, .restingHeartRate: 580]),
            row(.checkin, [.sleepMinutes: 4200, .restingHeartRate: 700])
        )
        #expect(day.values == [.sleepMinutes: 4200, .restingHeartRate: 580])
    }

    @Test func `of several origins the highest counts for totals, the first by name for the others`() {
        let day = canonical(
            row(.healthConnect, [.steps: 5000, .restingHeartRate: 610], origin: "phone"),
            row(.healthConnect, [.steps: 7000, .restingHeartRate: 640], origin: "watch"),
            row(.healthConnect, [.steps: 6000], origin: "")
        )
        #expect(day.values == [.steps: 7000, .restingHeartRate: 610])
        #expect(day.winner(of: .steps)?.origin == "watch" && day.winner(of: .restingHeartRate)?.origin == "phone")
    }

    @Test func `a pin turns the highest into priority order, and falls back when its source is silent`() {
        let phone = row(.appleHealth, [.steps: 70_000])
        let ring = row(.oura, [.steps: 62_000])
        #expect(canonical(phone, ring, pins: [.steps: .oura]).values[.steps] == 62_000)
        #expect(canonical(phone, ring, pins: [.steps: .whoop]).winner(of: .steps)?.source == .appleHealth)
    }

    @Test func `a source that the order does not name comes last, but is not lost`() {
        #expect(canonical(row(.appleHealth, [.activityScore: 700])).values[.activityScore] == 700)
        let day = canonical(row(.appleHealth, [.activityScore: 700]), row(.garmin, [.activityScore: 500]))
        #expect(day.winner(of: .activityScore)?.source == .garmin)
    }

    @Test func `a day is final once its totals were read after its end (B7)`() {
        #expect(!canonical(row(.appleHealth, [.steps: 61_000])).isFinal)
        #expect(canonical(row(.appleHealth, [.steps: 79_000], closed: true)).isFinal)
        let half = canonical(row(.appleHealth, [.steps: 79_000], closed: true), row(.garmin, [.distance: 10]))
        #expect(!half.isFinal)
        #expect(!canonical(row(.manual, [.steps: 10], closed: true)).isFinal)
        #expect(!canonical(row(.oura, [.sleepMinutes: 4000], closed: true)).isFinal)
    }

    @Test func `a reading that only confirms can't change the day (D6)`() {
        var rows = [row(.appleHealth, [.steps: 100, .spo2: 970])]
        let before = CanonicalDay(resolving: rows, preferences: Preferences())
        rows[0].state.apply(reading(50, [.steps: 100]))
        #expect(CanonicalDay(resolving: rows, preferences: Preferences()) == before)
    }

    @Test func `a day has changed where values, winners or finality have, and only there`() {
        let none = Preferences()
        func changed(_ rows: [SourceRow], from before: [SourceRow]) -> CanonicalDay? {
            CanonicalDay.changed(resolving: rows, preferences: none, from: before, preferencesBefore: none)
        }
        var generator = SeededGenerator(seed: 12)
        func rows() -> [SourceRow] {
            [Source.appleHealth, .oura].compactMap { source -> SourceRow? in
                guard Bool.random(using: &generator) else { return nil }
                let values: MetricValues = [.steps: Int32.random(in: 0...2, using: &generator), .spo2: 970]
                return row(source, values, closed: Bool.random(using: &generator))
            }
        }
        for _ in 0..<500 {
            let (before, after) = (rows(), rows())
            let old = CanonicalDay(resolving: before, preferences: none)
            let new = CanonicalDay(resolving: after, preferences: none)
            #expect(changed(after, from: before) == (old == new ? nil : new))
        }
    }

    @Test func `readings of other days and sources leave a day alone (A13, B4)`() {
        var state = SourceDay()
        state.apply(reading(0, [.steps: 80_000]))
        state.apply(reading(480, [.steps: 69_000]))
        #expect(state.values[.steps] == 69_000)
    }

    @Test func `the explanation names one winner, the same that counts, and a fate for everyone`() {
        var generator = SeededGenerator(seed: 11)
        for _ in 0..<3000 {
            let metric = Metric.allCases.randomElement(using: &generator) ?? .steps
            var candidates: [Candidate] = []
            for source in Source.allCases where Bool.random(using: &generator) {
                for origin in ["", "a", "b"].prefix(Int.random(in: 1...3, using: &generator)) {
                    let provenance = Provenance(source: source, origin: origin)
                    candidates.append(
                        Candidate(provenance: provenance, tenths: Int32.random(in: 0...3, using: &generator))
                    )
                }
            }
            let pin = Bool.random(using: &generator) ? Source.allCases.randomElement(using: &generator) : nil
            let rows = candidates.map { candidate in
                row(candidate.provenance.source, [metric: candidate.tenths], origin: candidate.provenance.origin)
            }
            let winner = Resolution.winner(metric, in: rows, pin: pin)
            let fates = Resolution.explain(metric, candidates, pin: pin)
            #expect(fates.count == candidates.count)
            #expect(fates.indices.filter { fates[$0] == .won } == (winner.map { [$0] } ?? []))
        }
    }

    @Test func `a day of two rows is what the explanation says, whichever two sources`() {
        var generator = SeededGenerator(seed: 12)
        for left in Source.allCases {
            for right in Source.allCases where left.rawValue <= right.rawValue {
                for _ in 0..<40 {
                    var values: (MetricValues, MetricValues) = ([:], [:])
                    for metric in Metric.allCases {
                        if Int.random(in: 0..<4, using: &generator) > 0 {
                            values.0[metric] = Int32.random(in: 0...3, using: &generator)
                        }
                        if Int.random(in: 0..<4, using: &generator) > 0 {
                            values.1[metric] = Int32.random(in: 0...3, using: &generator)
                        }
                    }
                    let rows = [row(left, values.0), row(right, values.1, origin: left == right ? "b" : "")]
                    let day = CanonicalDay(resolving: rows, preferences: Preferences())
                    for metric in Metric.allCases {
                        let candidates = rows.compactMap { row in
                            row.state.values[metric].map { Candidate(provenance: row.provenance, tenths: $0) }
                        }
                        let fates = Resolution.explain(metric, candidates, pin: nil)
                        let winner = fates.firstIndex(of: .won).map { candidates[$0] }
                        #expect(day.winner(of: metric) == winner?.provenance, "\(left) and \(right), \(metric)")
                        #expect(day.values[metric] == winner?.tenths)
                    }
                }
            }
        }
    }
}

@Suite struct `The metric ledger` {
    @Test func `every metric has its row at its number, a name of its own and a sane range`() {
        #expect(MetricLedger.definitions.count == Metric.count && Metric.allCases.count == Metric.count)
        for metric in Metric.allCases {
            let definition = MetricLedger[metric]
            #expect(definition.metric == metric)
            #expect(Metric(name: definition.name.description) == metric)
            #expect(definition.tenths.upperBound <= 5_000_000)
            #expect(Set(definition.order).count == definition.order.count)
            #expect(definition.kind != .discrete || definition.zeroIsNeverRead)
        }
        #expect(Set(MetricLedger.definitions.map(\.name.description)).count == Metric.count)
    }
}

import Domain
import Testing

@Suite struct `A source row` {
    private func apply(_ readings: Reading...) -> (row: SourceDay, last: SourceDay.Outcome) {
        var row = SourceDay()
        var last = SourceDay.Outcome()
        for reading in readings { last = row.apply(reading) }
        return (row, last)
    }

    @Test func `an older reading that comes late never wins (A2)`() {
        let (row, outcome) = apply(reading(1430, [.steps: 129_000]), reading(550, [.steps: 31_000]))
        #expect(row.values[.steps] == 129_000)
        #expect(outcome.older == [.steps] && outcome.changed.isEmpty)
    }

    @Test func `a correction downwards wins when it is newer (A3)`() {
        let (row, _) = apply(reading(480, [.steps: 114_000]), reading(720, [.steps: 109_500]))
        #expect(row.values[.steps] == 109_500)
    }

    @Test func `each metric has a version of its own (A4)`() {
        let (row, outcome) = apply(reading(660, [.steps: 60_000]), reading(600, [.steps: 50_000, .hrvSDNN: 510]))
        #expect(row.values == [.steps: 60_000, .hrvSDNN: 510])
        #expect(outcome.older == [.steps] && outcome.changed == [.hrvSDNN])
        #expect(row.version(of: .hrvSDNN) == at(600) && row.version(of: .steps) == at(660))
    }

    @Test func `what a payload leaves out keeps its value and its age (A8, A9, D4)`() {
        let (row, outcome) = apply(
            reading(0, [.steps: 83_000, .hrvSDNN: 480]),
            reading(60, [:]),
            reading(1440, [.steps: 84_000])
        )
        #expect(row.values == [.steps: 84_000, .hrvSDNN: 480])
        #expect(row.version(of: .hrvSDNN) == at(0))
        #expect(outcome.changed == [.steps])
    }

    @Test func `an observed zero is a value (A8)`() {
        #expect(apply(reading(0, [.steps: 83_000]), reading(1, [.steps: 0])).row.values[.steps] == 0)
    }

    @Test func `the same reading again changes nothing (A15)`() {
        let (row, outcome) = apply(reading(5, [.steps: 10]), reading(5, [.steps: 10]))
        #expect(outcome == .init(changed: [], confirmed: [], older: [.steps]))
        #expect(row.version(of: .steps) == at(5))
    }

    @Test func `an unchanged value takes the newer version`() {
        let (row, outcome) = apply(reading(5, [.steps: 10]), reading(7, [.steps: 10]))
        #expect(outcome == .init(changed: [], confirmed: [.steps], older: []))
        #expect(row.version(of: .steps) == at(7))
    }

    @Test func `the first reading after the day's end closes it, even unchanged (C21)`() {
        let (row, outcome) = apply(reading(5, [.steps: 10]), reading(600, [.steps: 10], closed: true))
        #expect(outcome.changed == [.steps] && row.closed == [.steps])
    }

    @Test func `a reading that replaces the whole row says of each metric what it did`() {
        let (row, outcome) = apply(
            reading(5, [.steps: 10, .water: 7, .spo2: 970]),
            reading(6, [.steps: 11, .water: 7, .spo2: 970, .activityScore: 0])
        )
        #expect(outcome == .init(changed: [.steps, .activityScore], confirmed: [.water, .spo2]))
        #expect(row.values == [.steps: 11, .water: 7, .spo2: 970, .activityScore: 0])
        // A day that is open again, though no number moved.
        let (opened, again) = apply(
            reading(5, [.steps: 10, .water: 7], closed: true),
            reading(6, [.steps: 10, .water: 7])
        )
        #expect(again == .init(changed: [.steps, .water]))
        #expect(opened.closed.isEmpty)
    }

    @Test func `of equal versions the larger value wins, in either order`() {
        let (one, _) = apply(reading(5, [.steps: 10]), reading(5, [.steps: 20]))
        let (other, _) = apply(reading(5, [.steps: 20]), reading(5, [.steps: 10]))
        #expect(one == other && one.values[.steps] == 20)
    }

    @Test func `a deletion takes what is older and leaves what is newer (D7)`() {
        var (row, _) = apply(reading(5, [.steps: 10, .water: 20]), reading(9, [.steps: 30]))
        #expect(row.remove(below: at(7)) == [.water])
        #expect(row.values == [.steps: 30])
        #expect(row.remove(below: at(10)) == [.steps] && row.isEmpty)
    }
}

/// D3: what a row means is a function of the set of readings and deletions, in any order, with any duplicates and in
/// any split.
@Suite struct `Order does not matter` {
    private struct Register: Hashable {
        var version: Version
        var tenths: Int32
        var closed: Bool
    }

    private enum Event {
        case reading(Reading)
        case deletion(Version)
    }

    /// The truth, naively: per metric the largest (version, value, closed) that no deletion is above.
    private func expected(_ events: [Event]) -> [Metric: Register] {
        var watermark = Version(rawValue: 0)
        for case .deletion(let version) in events { watermark = max(watermark, version) }
        var registers: [Metric: Register] = [:]
        for case .reading(let reading) in events where reading.version >= watermark {
            for metric in Metric.allCases {
                guard let tenths = reading.values[metric] else { continue }
                let new = Register(version: reading.version, tenths: tenths, closed: reading.closed)
                guard let held = registers[metric] else {
                    registers[metric] = new
                    continue
                }
                let isLarger =
                    held.version != new.version
                    ? new.version > held.version
                    : (held.tenths != new.tenths ? new.tenths > held.tenths : new.closed && !held.closed)
                if isLarger { registers[metric] = new }
            }
        }
        return registers
    }

    private func applied(_ events: [Event]) -> SourceDay {
        var row = SourceDay()
        var watermark = Version(rawValue: 0)
        for event in events {
            switch event {
            case .reading(let reading):
                if reading.version >= watermark { row.apply(reading) }
            case .deletion(let version):
                watermark = max(watermark, version)
                row.remove(below: watermark)
            }
        }
        return row
    }

    private func history(_ generator: inout SeededGenerator) -> [Event] {
        (0..<Int.random(in: 1...14, using: &generator)).map { _ in
            if Int.random(in: 0..<8, using: &generator) == 0 {
                return .deletion(at(Int.random(in: 0...12, using: &generator)))
            }
            var values = MetricValues()
            for metric in [Metric.steps, .activeEnergy, .sleepMinutes, .hrvSDNN] where Bool.random(using: &generator) {
                values[metric] = Int32.random(in: 0...3, using: &generator)
            }
            let version = at(
                Int.random(in: 0...12, using: &generator),
                tie: UInt64.random(in: 0...1, using: &generator)
            )
            return .reading(
                Reading(day: someDay, values: values, version: version, closed: Bool.random(using: &generator))
            )
        }
    }

    @Test(arguments: 0..<20)
    func `any order, any duplication, deletions anywhere: the same row`(seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed))
        for _ in 0..<500 {
            let events = history(&generator)
            let truth = expected(events)
            for _ in 0..<4 {
                var shuffled = events + events.filter { _ in Int.random(in: 0..<3, using: &generator) == 0 }
                shuffled.shuffle(using: &generator)
                let row = applied(shuffled)
                #expect(row.values.mask.count == truth.count, "seed \(seed)")
                for (metric, register) in truth {
                    #expect(row.values[metric] == register.tenths, "seed \(seed)")
                    #expect(row.version(of: metric) == register.version, "seed \(seed)")
                    #expect(row.closed.has(metric) == register.closed, "seed \(seed)")
                }
            }
        }
    }

    @Test func `preferences are registers too`() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<2000 {
            let pins = (0..<Int.random(in: 1...8, using: &generator)).map { _ in
                Preferences.Pin(
                    metric: [.steps, .sleepMinutes, .spo2][Int.random(in: 0..<3, using: &generator)],
                    source: [nil, .oura, .manual][Int.random(in: 0..<3, using: &generator)],
                    version: at(Int.random(in: 0...4, using: &generator))
                )
            }
            let watermark = at(Int.random(in: 0...4, using: &generator))
            var results: Set<Preferences> = []
            for _ in 0..<4 {
                var preferences = Preferences(pins: (pins + pins.prefix(2)).shuffled(using: &generator))
                preferences.remove(below: watermark)
                results.insert(preferences)
            }
            #expect(results.count == 1)
        }
    }

    @Test func `the table hash does not depend on the order of rows, and notices every register`() {
        let rows = [
            row(.appleHealth, [.steps: 100]), row(.oura, [.steps: 90, .spo2: 970]),
            row(.oura, [.steps: 90], origin: "ring"),
        ]
        func hash(_ rows: [SourceRow]) -> TableHash {
            var hash = TableHash()
            for row in rows { hash.add(user: UserID(high: 1, low: 2), day: someDay, row: row) }
            return hash
        }
        #expect(hash(rows) == hash(rows.reversed()))
        #expect(hash(rows) != hash(rows + rows.prefix(1)))
        var newer = rows
        newer[0].state.apply(reading(1, [.steps: 100]))
        #expect(hash(rows) != hash(newer))
        newer = rows
        newer[0].state.apply(reading(0, [.steps: 100], closed: true))
        #expect(hash(rows) != hash(newer))
    }

    @Test func `origins are told apart by their bytes, as the database does`() {
        let composed = Provenance(source: .garmin, origin: "caf\u{e9}")
        let combining = Provenance(source: .garmin, origin: "cafe\u{301}")
        #expect(composed != combining)
        #expect((composed < combining) != (combining < composed))
        #expect(Set([composed, combining]).count == 2)
        #expect(Set([composed, composed]).count == 1)
    }
}

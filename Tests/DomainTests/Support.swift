import Domain

/// A small seeded generator, so that a failing case can be run again.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}

let someDay = CalendarDay(daysSinceEpoch: 20_600)

/// A version that is `minutes` into an arbitrary day.
func at(_ minutes: Int, tie: UInt64 = 0) -> Version {
    let instant = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: minutes * 60)
    return Version(observedAt: nil, receivedAt: instant, event: EventID(high: 0, low: tie))
}

func reading(_ minutes: Int, _ values: MetricValues, closed: Bool = false, day: CalendarDay = someDay) -> Reading {
    Reading(day: day, values: values, version: at(minutes), closed: closed)
}

func row(_ source: Source, _ values: MetricValues, origin: String = "", closed: Bool = false) -> SourceRow {
    var state = SourceDay()
    state.apply(reading(0, values, closed: closed))
    return SourceRow(provenance: Provenance(source: source, origin: origin), state: state)
}

func canonical(_ rows: SourceRow..., pins: [Metric: Source] = [:]) -> CanonicalDay {
    let preferences = Preferences(pins: pins.map { .init(metric: $0.key, source: $0.value, version: at(0)) })
    return CanonicalDay(resolving: rows.sorted { $0.provenance < $1.provenance }, preferences: preferences)
}

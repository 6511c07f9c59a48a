import Domain

/// A stored day with everything it was made from.
struct DayRecord: Sendable {
    let day: CalendarDay
    /// Nil where the day has source rows and no canonical row.
    let canonical: CanonicalDay?
    /// The rules that made the canonical row.
    let ruleVersion: Int32?
    /// Sorted by provenance.
    let rows: [SourceRow]

    init(day: CalendarDay, canonical: CanonicalDay?, ruleVersion: Int32?, rows: [SourceRow]) {
        self.day = day
        self.canonical = canonical
        self.ruleVersion = ruleVersion
        self.rows = rows.sorted { $0.provenance < $1.provenance }
    }
}

/// Why each value of a day is what it is: every candidate with its fate, and the rule that chose. Pure.
struct DayExplanation: Sendable {
    struct Candidate: Hashable, Sendable {
        let provenance: Provenance
        let tenths: Int32
        let isClosed: Bool
        let observedAt: Instant?
        let fate: Resolution.Fate
    }

    struct Value: Hashable, Sendable {
        let metric: Metric
        /// What the canonical row says; nil where it has none.
        let tenths: Int32?
        let winner: Provenance?
        /// In words.
        let rule: String
        let pin: Source?
        let candidates: [Candidate]
        /// What the rules make of the candidates is not what the canonical row says.
        let hasDrifted: Bool
    }

    let day: CalendarDay
    let isFinal: Bool
    let ruleVersion: Int32?
    let values: [Value]

    init(_ record: DayRecord, preferences: Preferences) {
        day = record.day
        isFinal = record.canonical?.isFinal ?? false
        ruleVersion = record.ruleVersion
        var mask = record.canonical?.values.mask ?? []
        for row in record.rows { mask.formUnion(row.state.values.mask) }
        values = mask.map { metric in
            let pin = preferences.pinnedSource(for: metric)
            let rows = record.rows.filter { $0.state.values.mask.has(metric) }
            let given = rows.map { Domain.Candidate(provenance: $0.provenance, tenths: $0.state.values[metric] ?? 0) }
            let fates = Resolution.explain(metric, given, pin: pin)
            let candidates = zip(rows, zip(given, fates)).map { row, pair in
                Candidate(
                    provenance: row.provenance,
                    tenths: pair.0.tenths,
                    isClosed: row.state.closed.has(metric),
                    observedAt: row.state.version(of: metric)?.instant,
                    fate: pair.1
                )
            }
            let winner = record.canonical?.winner(of: metric)
            let tenths = record.canonical?.values[metric]
            let best = candidates.first { $0.fate == .won }
            return Value(
                metric: metric,
                tenths: tenths,
                winner: winner,
                rule: Self.words(metric, pin: pin),
                pin: pin,
                candidates: candidates,
                hasDrifted: best?.provenance != winner || best?.tenths != tenths
            )
        }
    }

    /// The rule of a metric as a sentence.
    static func words(_ metric: Metric, pin: Source?) -> String {
        let definition = MetricLedger[metric]
        let order = definition.order.map(\.description).joined(separator: ", ")
        if let pin { return "pinned to \(pin), then the first that has it of \(order)" }
        switch definition.rule {
        case .highest: return "the highest; a tie goes to the first of \(order)"
        case .firstWithData: return "the first that has it of \(order)"
        }
    }

    /// What became of a candidate, in a few words.
    static func words(_ fate: Resolution.Fate) -> String {
        switch fate {
        case .won: "counts"
        case .zeroDropped: "a zero, and a device has more"
        case .otherOrigin: "another origin of this source stands for it"
        case .lower: "lower"
        case .tieLost: "as high, but later in the order"
        case .laterInOrder: "later in the order"
        case .onlyWithoutOthers: "counts only where no device has a value"
        }
    }
}

extension Resolution.Fate {
    /// The word for it in JSON.
    var code: String {
        switch self {
        case .won: "won"
        case .zeroDropped: "zero_dropped"
        case .otherOrigin: "other_origin"
        case .lower: "lower"
        case .tieLost: "tie_lost"
        case .laterInOrder: "later_in_order"
        case .onlyWithoutOthers: "only_without_others"
        }
    }
}

extension Provenance {
    /// `garmin`, or `garmin/watch` where the platform did not merge its devices.
    var shown: String { origin.isEmpty ? source.description : "\(source)/\(origin)" }
}

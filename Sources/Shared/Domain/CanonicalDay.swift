/// One source row of a day, with whose it is.
public struct SourceRow: Hashable, Sendable {
    public let provenance: Provenance
    public var state: SourceDay

    public init(provenance: Provenance, state: SourceDay) {
        self.provenance = provenance
        self.state = state
    }
}

/// A person's day as it counts: per metric one value, and whose it is.
///
/// A pure function of the values in the day's source rows and of the preferences (D6): versions and times never
/// enter, so a reading that only confirms can't change it.
public struct CanonicalDay: Hashable, Sendable {
    public let values: MetricValues
    /// Parallel to the bits of `values.mask`, lowest first.
    public let winners: [Provenance]
    /// The day has a cumulative winner from a device or cloud source, and all such winners were read after it ended.
    public let isFinal: Bool

    public init(values: MetricValues, winners: [Provenance], isFinal: Bool) {
        self.values = values
        self.winners = winners
        self.isFinal = isFinal
    }

    public var isEmpty: Bool { values.isEmpty }

    public func winner(of metric: Metric) -> Provenance? {
        guard values.mask.has(metric) else { return nil }
        let below = values.mask.rawValue & (1 << UInt32(metric.rawValue) - 1)
        return winners[below.nonzeroBitCount]
    }

    /// The day of one source row alone, which wins whatever the rules say.
    /// `winners`: the row's provenance, once for each of its values; many days share one array.
    public init(of row: SourceRow, winners: [Provenance]) {
        self.init(values: row.state.values, winners: winners, isFinal: Self.isFinal(row))
    }

    /// Whether a day would be final that has this row alone.
    public static func isFinal(_ row: SourceRow) -> Bool {
        guard row.provenance.source.isDeviceOrCloud else { return false }
        let counted = row.state.values.mask.intersection(MetricLedger.cumulative)
        return !counted.isEmpty && counted.isSubset(of: row.state.closed)
    }

    /// Resolves the day's source rows, which must be sorted by provenance.
    public init(resolving rows: [SourceRow], preferences: Preferences) {
        var values = MetricValues()
        var winners: [Provenance] = []
        var counted = 0
        var open = 0
        var mask: MetricSet = []
        for row in rows { mask.formUnion(row.state.values.mask) }
        var candidates: [Candidate] = []
        var givers: [Int] = []
        for metric in mask {
            candidates.removeAll(keepingCapacity: true)
            givers.removeAll(keepingCapacity: true)
            for index in rows.indices {
                guard let tenths = rows[index].state.values[metric] else { continue }
                candidates.append(Candidate(provenance: rows[index].provenance, tenths: tenths))
                givers.append(index)
            }
            let pin = preferences.pins.isEmpty ? nil : preferences.pinnedSource(for: metric)
            guard let winner = Resolution.winner(metric, among: candidates, pin: pin) else { continue }
            values[metric] = candidates[winner].tenths
            winners.append(candidates[winner].provenance)
            if MetricLedger[metric].kind == .cumulative && candidates[winner].provenance.source.isDeviceOrCloud {
                counted += 1
                if !rows[givers[winner]].state.closed.has(metric) { open += 1 }
            }
        }
        self.init(values: values, winners: winners, isFinal: counted > 0 && open == 0)
    }
}

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

    /// Whether a day would be final that has this row alone.
    public static func isFinal(_ row: SourceDay, of source: Source) -> Bool {
        guard source.isDeviceOrCloud else { return false }
        let counted = row.values.mask.intersection(MetricLedger.cumulative)
        return !counted.isEmpty && counted.isSubset(of: row.closed)
    }

    /// The same for a row all of whose values were read together.
    public static func isFinal(_ mask: MetricSet, closed: Bool, of source: Source) -> Bool {
        closed && source.isDeviceOrCloud && !mask.intersection(MetricLedger.cumulative).isEmpty
    }

    /// Resolves the day's source rows, which must be sorted by provenance.
    public init(resolving rows: [SourceRow], preferences: Preferences) {
        self.init(Choice(rows, preferences), of: rows)
    }

    /// The day of the rows as they are; nil where they resolve to the same as they did before.
    ///
    /// - Parameters:
    ///   - rows: sorted by provenance, as are those before.
    ///   - preferences: in force now.
    ///   - before: the rows as they were.
    ///   - preferencesBefore: in force then.
    /// - Returns: what differs from what was.
    public static func changed(
        resolving rows: [SourceRow],
        preferences: Preferences,
        from before: [SourceRow],
        preferencesBefore: Preferences
    ) -> CanonicalDay? {
        let new = Choice(rows, preferences)
        let old = Choice(before, preferencesBefore)
        if new.values == old.values && new.isFinal == old.isFinal {
            let isSame = new.values.mask.allSatisfy { metric in
                let (now, then) = (Int(new.givers[metric.index]), Int(old.givers[metric.index]))
                return rows[now].provenance == before[then].provenance
            }
            if isSame { return nil }
        }
        return CanonicalDay(new, of: rows)
    }

    private init(_ choice: Choice, of rows: [SourceRow]) {
        var winners: [Provenance] = []
        winners.reserveCapacity(choice.values.mask.count)
        for metric in choice.values.mask { winners.append(rows[Int(choice.givers[metric.index])].provenance) }
        self.init(values: choice.values, winners: winners, isFinal: choice.isFinal)
    }

    /// The values, and which row gives each.
    private struct Choice {
        var values = MetricValues()
        var givers = InlineArray<19, UInt16>(repeating: 0)
        var isFinal = false

        init(_ rows: [SourceRow], _ preferences: Preferences) {
            var mask: MetricSet = []
            for row in rows { mask.formUnion(row.state.values.mask) }
            var counted = false
            var isOpen = false
            for metric in mask {
                let pin = preferences.pins.isEmpty ? nil : preferences.pinnedSource(for: metric)
                guard let winner = Resolution.winner(metric, in: rows, pin: pin) else { continue }
                values[metric] = rows[winner].state.values[metric]
                givers[metric.index] = UInt16(clamping: winner)
                guard MetricLedger.cumulative.has(metric), rows[winner].provenance.source.isDeviceOrCloud else {
                    continue
                }
                counted = true
                if !rows[winner].state.closed.has(metric) { isOpen = true }
            }
            isFinal = counted && !isOpen
        }
    }
}

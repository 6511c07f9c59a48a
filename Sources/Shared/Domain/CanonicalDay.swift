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
        return new.isChoice(of: before, preferencesBefore, insteadOf: rows) ? nil : CanonicalDay(new, of: rows)
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
            var finality = Finality()
            let judge = Judge(rows, preferences)
            for metric in judge.metrics {
                guard let winner = judge.winner(metric) else { continue }
                values[metric] = rows[winner].state.values[metric]
                givers[metric.index] = UInt16(clamping: winner)
                finality.meet(metric, rows[winner])
            }
            isFinal = finality.isFinal
        }

        /// Whether other rows give the same values from the same sources. Ends at the first metric where they do not: most
        /// often there is one, and then the others need not be chosen.
        func isChoice(of others: [SourceRow], _ preferences: Preferences, insteadOf rows: [SourceRow]) -> Bool {
            var mask: MetricSet = []
            var finality = Finality()
            let judge = Judge(others, preferences)
            for metric in judge.metrics {
                guard let winner = judge.winner(metric) else { continue }
                guard values[metric] == others[winner].state.values[metric],
                    rows[Int(givers[metric.index])].provenance == others[winner].provenance
                else { return false }
                mask.insert(metric)
                finality.meet(metric, others[winner])
            }
            return mask == values.mask && finality.isFinal == isFinal
        }
    }

    /// Whose value of a metric counts among some rows.
    private struct Judge {
        private let rows: [SourceRow]
        private let preferences: Preferences
        /// Where there are two rows and no pins.
        private let duel: (rule: Duel, left: MetricValues, right: MetricValues)?

        init(_ rows: [SourceRow], _ preferences: Preferences) {
            self.rows = rows
            self.preferences = preferences
            guard rows.count == 2, preferences.pins.isEmpty,
                let rule = Duel.of(rows[0].provenance.source, rows[1].provenance.source)
            else {
                duel = nil
                return
            }
            duel = (rule, rows[0].state.values, rows[1].state.values)
        }

        /// All that any row has.
        var metrics: MetricSet {
            var mask: MetricSet = []
            for index in rows.indices { mask.formUnion(rows[index].state.values.mask) }
            return mask
        }

        /// The index of the row that wins; nil where none has the metric.
        func winner(_ metric: Metric) -> Int? {
            if let duel {
                guard let left = duel.left[metric] else { return duel.right.mask.has(metric) ? 1 : nil }
                guard let right = duel.right[metric] else { return 0 }
                return duel.rule.isRight(metric, left: left, right: right) ? 1 : 0
            }
            let pin = preferences.pins.isEmpty ? nil : preferences.pinnedSource(for: metric)
            return Resolution.winner(metric, in: rows, pin: pin)
        }
    }

    /// Whether the day is final, found out from one winner after another.
    private struct Finality {
        private var counted = false
        private var isOpen = false

        var isFinal: Bool { counted && !isOpen }

        mutating func meet(_ metric: Metric, _ winner: SourceRow) {
            guard MetricLedger.cumulative.has(metric), winner.provenance.source.isDeviceOrCloud else { return }
            counted = true
            if !winner.state.closed.has(metric) { isOpen = true }
        }
    }
}

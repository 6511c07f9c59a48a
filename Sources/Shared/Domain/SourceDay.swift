/// A source row: one last-writer-wins register per metric.
///
/// The rows form a join-semilattice: applying readings is commutative, associative and idempotent, so a row is a
/// function of the set of readings and not of their order (D3).
public struct SourceDay: Sendable {
    public private(set) var values: MetricValues
    /// Metrics whose value was read after the day had ended.
    public private(set) var closed: MetricSet
    /// Of every register, unless `own` has them.
    private var common: Int64
    /// By the metrics' numbers; most rows come from one reading, whose version all registers have, and need none.
    private var own: [Int64]?

    public init() {
        values = MetricValues()
        closed = []
        common = 0
        own = nil
    }

    /// A row whose registers all have one version; only for reading rows back.
    public init(values: MetricValues, closed: MetricSet, version: Version) {
        self.values = values
        self.closed = closed.intersection(values.mask)
        common = version.rawValue
        own = nil
    }

    public var isEmpty: Bool { values.isEmpty }

    public func version(of metric: Metric) -> Version? {
        values.mask.has(metric) ? Version(rawValue: register(metric)) : nil
    }

    /// The version of every register, where the row keeps but one; nil where it keeps one for each.
    public var sharedVersion: Version? { own == nil ? Version(rawValue: common) : nil }

    private func register(_ metric: Metric) -> Int64 {
        if let own { return own[metric.index] }
        return common
    }

    private mutating func setVersion(_ version: Int64, of metric: Metric) {
        if own != nil {
            own?[metric.index] = version
            return
        }
        if version == common { return }
        var others = values.mask
        others.remove(metric)
        if others.isEmpty {
            common = version
        } else {
            var each = Array(repeating: common, count: Metric.count)
            each[metric.index] = version
            own = each
        }
    }

    /// Puts a register in place as it was stored; only for reading rows back.
    public mutating func restore(_ metric: Metric, tenths: Int32, closed isClosed: Bool, version: Version) {
        setVersion(version.rawValue, of: metric)
        values[metric] = tenths
        if isClosed { closed.insert(metric) } else { closed.remove(metric) }
    }

    /// Makes the versions of these registers as new as this one, where they are older.
    mutating func raise(_ metrics: MetricSet, to version: Version) {
        if own == nil && values.mask.isSubset(of: metrics) {
            common = max(common, version.rawValue)
            return
        }
        for metric in metrics where values.mask.has(metric) && register(metric) < version.rawValue {
            setVersion(version.rawValue, of: metric)
        }
    }

    /// What applying a reading did, by metric.
    public struct Outcome: Hashable, Sendable {
        /// Metrics whose stored value or `closed` bit changed.
        public var changed: MetricSet
        /// Metrics that kept their value and took the newer version.
        public var confirmed: MetricSet
        /// Metrics for which the stored reading was newer (or the same).
        public var older: MetricSet

        public init(changed: MetricSet = [], confirmed: MetricSet = [], older: MetricSet = []) {
            self.changed = changed
            self.confirmed = confirmed
            self.older = older
        }
    }

    /// The larger version wins, metric by metric; of equal versions the larger value, then the closed one.
    @discardableResult
    public mutating func apply(_ reading: Reading) -> Outcome {
        if own == nil && common < reading.version.rawValue && values.mask.isSubset(of: reading.values.mask) {
            return replace(by: reading)
        }
        var outcome = Outcome()
        for metric in reading.values.mask {
            guard let tenths = reading.values[metric] else { continue }
            guard let stored = values[metric] else {
                restore(metric, tenths: tenths, closed: reading.closed, version: reading.version)
                outcome.changed.insert(metric)
                continue
            }
            let isClosed = closed.has(metric)
            let wins = (reading.version.rawValue, tenths, reading.closed ? 1 : 0)
            let holds = (register(metric), stored, isClosed ? 1 : 0)
            guard wins > holds else {
                outcome.older.insert(metric)
                continue
            }
            let same = tenths == stored && reading.closed == isClosed
            restore(metric, tenths: tenths, closed: reading.closed, version: reading.version)
            if same { outcome.confirmed.insert(metric) } else { outcome.changed.insert(metric) }
        }
        return outcome
    }

    /// A reading that is newer than every register and has them all: the row becomes the reading.
    private mutating func replace(by reading: Reading) -> Outcome {
        let mask = reading.values.mask
        let newClosed: MetricSet = reading.closed ? mask : []
        // The row has no metric that the reading does not have.
        let changed = values.differing(from: reading.values).union(closed.symmetricDifference(newClosed))
        values = reading.values
        closed = newClosed
        common = reading.version.rawValue
        return Outcome(changed: changed, confirmed: mask.subtracting(changed))
    }

    /// Removes every register that is older than a deletion (D7). Returns what was removed.
    @discardableResult
    public mutating func remove(below watermark: Version) -> MetricSet {
        var removed: MetricSet = []
        for metric in values.mask where register(metric) < watermark.rawValue {
            values[metric] = nil
            closed.remove(metric)
            removed.insert(metric)
        }
        return removed
    }
}

extension SourceDay: Hashable {
    public static func == (left: SourceDay, right: SourceDay) -> Bool {
        guard left.values == right.values, left.closed == right.closed else { return false }
        for metric in left.values.mask where left.register(metric) != right.register(metric) { return false }
        return true
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(values)
        hasher.combine(closed)
        for metric in values.mask { hasher.combine(register(metric)) }
    }
}

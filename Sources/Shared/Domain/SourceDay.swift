/// A source row: one last-writer-wins register per metric.
///
/// The rows form a join-semilattice: applying readings is commutative, associative and idempotent, so a row is a
/// function of the set of readings and not of their order (D3).
public struct SourceDay: Sendable {
    public private(set) var values: MetricValues
    /// Metrics whose value was read after the day had ended.
    public private(set) var closed: MetricSet
    private var versions: InlineArray<19, Int64>

    public init() {
        values = MetricValues()
        closed = []
        versions = InlineArray(repeating: 0)
    }

    /// A row whose registers all have one version; only for reading rows back.
    public init(values: MetricValues, closed: MetricSet, version: Version) {
        self.values = values
        self.closed = closed.intersection(values.mask)
        versions = InlineArray(repeating: 0)
        for metric in values.mask { versions[metric.index] = version.rawValue }
    }

    public var isEmpty: Bool { values.isEmpty }

    public func version(of metric: Metric) -> Version? {
        values.mask.has(metric) ? Version(rawValue: versions[metric.index]) : nil
    }

    /// Puts a register in place as it was stored; only for reading rows back.
    public mutating func restore(_ metric: Metric, tenths: Int32, closed isClosed: Bool, version: Version) {
        values[metric] = tenths
        versions[metric.index] = version.rawValue
        if isClosed { closed.insert(metric) } else { closed.remove(metric) }
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
            let holds = (versions[metric.index], stored, isClosed ? 1 : 0)
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

    /// Removes every register that is older than a deletion (D7). Returns what was removed.
    @discardableResult
    public mutating func remove(below watermark: Version) -> MetricSet {
        var removed: MetricSet = []
        for metric in values.mask where versions[metric.index] < watermark.rawValue {
            values[metric] = nil
            versions[metric.index] = 0
            closed.remove(metric)
            removed.insert(metric)
        }
        return removed
    }
}

extension SourceDay: Hashable {
    public static func == (left: SourceDay, right: SourceDay) -> Bool {
        guard left.values == right.values, left.closed == right.closed else { return false }
        for index in 0..<Metric.count where left.versions[index] != right.versions[index] { return false }
        return true
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(values)
        hasher.combine(closed)
        for metric in values.mask { hasher.combine(versions[metric.index]) }
    }
}

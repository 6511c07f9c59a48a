/// A set of metrics as a bit mask, visited in the order of the metrics' numbers.
public struct MetricSet: Hashable, Sendable, Sequence, ExpressibleByArrayLiteral {
    @usableFromInline var bits: UInt32

    @inlinable
    public var rawValue: UInt32 { bits }

    /// Bits of metrics that this build does not know are dropped.
    public init(rawValue: UInt32) {
        bits = rawValue & (1 << UInt32(Metric.count) - 1)
    }

    @inlinable
    public init() {
        bits = 0
    }

    public init(_ metric: Metric) {
        bits = 1 << UInt32(metric.rawValue)
    }

    public init(arrayLiteral elements: Metric...) {
        bits = 0
        for metric in elements { insert(metric) }
    }

    /// Every metric this build knows.
    public static let all = MetricSet(rawValue: .max)

    @inlinable
    public var isEmpty: Bool { rawValue == 0 }
    public var count: Int { rawValue.nonzeroBitCount }

    @inlinable
    public func has(_ metric: Metric) -> Bool {
        rawValue >> UInt32(metric.rawValue) & 1 != 0
    }

    @inlinable
    public mutating func insert(_ metric: Metric) {
        bits |= 1 << UInt32(metric.rawValue)
    }

    @inlinable
    public mutating func remove(_ metric: Metric) {
        bits &= ~(1 << UInt32(metric.rawValue))
    }

    public func isSubset(of other: MetricSet) -> Bool {
        rawValue & ~other.rawValue == 0
    }

    public func intersection(_ other: MetricSet) -> MetricSet {
        MetricSet(rawValue: rawValue & other.rawValue)
    }

    public mutating func formUnion(_ other: MetricSet) {
        bits |= other.bits
    }

    func union(_ other: MetricSet) -> MetricSet { MetricSet(rawValue: bits | other.bits) }

    func symmetricDifference(_ other: MetricSet) -> MetricSet { MetricSet(rawValue: bits ^ other.bits) }

    func subtracting(_ other: MetricSet) -> MetricSet { MetricSet(rawValue: bits & ~other.bits) }

    public struct Iterator: IteratorProtocol {
        @usableFromInline var rest: UInt32

        @inlinable
        init(rest: UInt32) {
            self.rest = rest
        }

        @inlinable
        public mutating func next() -> Metric? {
            guard rest != 0 else { return nil }
            let bit = UInt8(truncatingIfNeeded: rest.trailingZeroBitCount)
            rest &= rest - 1
            return Metric(rawValue: bit)
        }
    }

    @inlinable
    public func makeIterator() -> Iterator { Iterator(rest: rawValue) }
}

/// Values of some metrics of one day, in tenths of each metric's unit: exact, and comparable as integers.
///
/// Metrics outside `mask` hold zero, so that equality is that of the values.
public struct MetricValues: Sendable {
    @usableFromInline var present: MetricSet
    @usableFromInline var tenths: InlineArray<19, Int32>

    @inlinable
    public init() {
        present = MetricSet()
        tenths = InlineArray(repeating: 0)
    }

    /// Where in its memory the values lie, one after the other, for who reads millions of them a second: reading one
    /// through the subscript copies all.
    public static let offsetOfTenths = MemoryLayout<MetricValues>.offset(of: \.tenths) ?? MemoryLayout<MetricSet>.size

    /// The metrics that have a value.
    @inlinable
    public var mask: MetricSet { present }

    @inlinable
    public var isEmpty: Bool { mask.isEmpty }

    /// The value in tenths; nil removes the metric. Inlined everywhere, since a call copies all values.
    @inlinable
    @inline(__always)
    public subscript(_ metric: Metric) -> Int32? {
        get { mask.has(metric) ? tenths[metric.index] : nil }
        set {
            if let newValue {
                present.insert(metric)
                tenths[metric.index] = newValue
            } else {
                present.remove(metric)
                tenths[metric.index] = 0
            }
        }
    }
}

extension MetricValues {
    /// Hands out the values in the order of the metrics' numbers: through the subscript each would cost a copy of all.
    @inlinable
    @inline(__always)
    public borrowing func forEach(_ body: (Metric, Int32) -> Void) {
        let values = tenths.span
        for metric in present { body(metric, values[metric.index]) }
    }

    /// The metrics that only one of the two has, or whose values differ.
    @inlinable
    public borrowing func differing(from other: borrowing MetricValues) -> MetricSet {
        let (ours, theirs) = (tenths.span, other.tenths.span)
        var differ = MetricSet()
        differ.bits = present.bits ^ other.present.bits
        // Those that neither has hold zero in both.
        for index in 0..<Metric.count where ours[index] != theirs[index] { differ.bits |= 1 << UInt32(index) }
        return differ
    }
}

extension MetricValues: Hashable {
    public static func == (left: MetricValues, right: MetricValues) -> Bool {
        guard left.mask == right.mask else { return false }
        // Over spans: each subscript with a variable index would copy all values.
        let (ours, theirs) = (left.tenths.span, right.tenths.span)
        for index in 0..<Metric.count where ours[index] != theirs[index] { return false }
        return true
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(mask)
        forEach { _, tenths in hasher.combine(tenths) }
    }
}

extension MetricValues: ExpressibleByDictionaryLiteral {
    /// Values in tenths: `[.steps: 84_210]` is 8,421 steps.
    public init(dictionaryLiteral elements: (Metric, Int32)...) {
        self.init()
        for (metric, value) in elements { self[metric] = value }
    }
}

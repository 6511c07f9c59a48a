import Synchronization

/// Counts up. Keep the instance that the registry gave: adding is one relaxed atomic addition.
public final class Counter: Sendable {
    private let total = Atomic<UInt64>(0)

    init() {}

    @inline(__always)
    public func increment() {
        total.wrappingAdd(1, ordering: .relaxed)
    }

    /// A negative amount is ignored: a counter never goes down.
    @inline(__always)
    public func add(_ amount: Int) {
        guard amount > 0 else { return }
        total.wrappingAdd(UInt64(amount), ordering: .relaxed)
    }

    public var value: UInt64 {
        total.load(ordering: .relaxed)
    }
}

/// A number that goes up and down.
public final class Gauge: Sendable {
    private let bits = Atomic<UInt64>(0)

    init() {}

    public func set(_ value: Double) {
        bits.store(value.bitPattern, ordering: .relaxed)
    }

    public func set(_ value: Int) {
        set(Double(value))
    }

    public func add(_ amount: Double) {
        bits.addDouble(amount)
    }

    public var value: Double {
        Double(bitPattern: bits.load(ordering: .relaxed))
    }
}

/// Counts observations by size. Observing is two relaxed atomic operations after a search over a few bounds.
public final class Histogram: Sendable {
    let bounds: [Double]
    private let counts: [Cell]
    private let total = Atomic<UInt64>(0)

    private final class Cell: Sendable {
        let count = Atomic<UInt64>(0)
    }

    init(bounds: [Double]) {
        self.bounds = bounds
        counts = (0...bounds.count).map { _ in Cell() }
    }

    /// NaN is ignored.
    public func observe(_ value: Double) {
        guard !value.isNaN else { return }
        var index = 0
        while index < bounds.count, value > bounds[index] { index += 1 }
        counts[index].count.wrappingAdd(1, ordering: .relaxed)
        total.addDouble(value)
    }

    /// For histograms in seconds, from a difference of monotonic clock readings.
    public func observe(nanoseconds: Int64) {
        observe(Double(nanoseconds) / 1e9)
    }

    /// Per bucket (not cumulative), the last one being everything above the last bound; and the sum of all values.
    var snapshot: (counts: [UInt64], sum: Double) {
        (counts.map { $0.count.load(ordering: .relaxed) }, Double(bitPattern: total.load(ordering: .relaxed)))
    }

    public var count: UInt64 {
        snapshot.counts.reduce(0, &+)
    }

    public var sum: Double {
        snapshot.sum
    }
}

extension Atomic where Value == UInt64 {
    /// Adds to the double whose bits this holds.
    fileprivate func addDouble(_ amount: Double) {
        var current = load(ordering: .relaxed)
        while true {
            let sum = (Double(bitPattern: current) + amount).bitPattern
            let (exchanged, original) = weakCompareExchange(expected: current, desired: sum, ordering: .relaxed)
            if exchanged { return }
            current = original
        }
    }
}

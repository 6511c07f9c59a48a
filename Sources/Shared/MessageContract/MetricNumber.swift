import Domain
public import JSON

/// A metric's value as ingest and the record's readers take it: in tenths, inside its range.
public enum MetricNumber {
    public enum Failure: String, Error, Sendable {
        /// Not a number.
        case notANumber = "not_a_number"
        /// A count with a fraction.
        case notWhole = "not_whole"
        case outOfRange = "out_of_range"
    }

    public enum Outcome {
        case tenths(Int32)
        case failure(Failure)
    }

    /// Rounds to one decimal, half away from zero; a count must be whole, in whatever form it is written.
    ///
    /// A zero is passed on even where the metric's range starts above it and where zero is never a reading: whether
    /// it counts is the caller's rule.
    @inlinable
    @inline(__always)
    public static func read(_ value: JSONValue, bounds: MetricBounds) -> Outcome {
        if let integer = value.integer {
            guard integer >= -1_000_000, integer <= 1_000_000 else { return .failure(.outOfRange) }
            return check(Int32(truncatingIfNeeded: integer) * 10, bounds)
        }
        return readOther(value, bounds)
    }

    @usableFromInline
    @inline(never)
    static func readOther(_ value: JSONValue, _ bounds: MetricBounds) -> Outcome {
        guard let double = value.double else { return .failure(.notANumber) }
        return check(double, bounds: bounds)
    }

    /// The same for a number that was computed, in the metric's unit.
    public static func check(_ double: Double, bounds: MetricBounds) -> Outcome {
        guard double >= -1_000_000, double <= 1_000_000 else { return .failure(.outOfRange) }
        if bounds.isWhole, Double(Int32(double)) != double { return .failure(.notWhole) }
        // A value just outside the range must not be rounded into it.
        guard double == 0 || double * 10 >= Double(bounds.lowest), double * 10 <= Double(bounds.highest) else {
            return .failure(.outOfRange)
        }
        return check(rounded(double * 10), bounds)
    }

    /// Half away from zero, by hand: the standard library's needs libm, which nothing here links.
    private static func rounded(_ number: Double) -> Int32 {
        let towardZero = Int32(number)
        let rest = number - Double(towardZero)
        return rest >= 0.5 ? towardZero + 1 : rest <= -0.5 ? towardZero - 1 : towardZero
    }

    @inlinable
    @inline(__always)
    static func check(_ tenths: Int32, _ bounds: MetricBounds) -> Outcome {
        guard tenths == 0 || (tenths >= bounds.lowest && tenths <= bounds.highest) else { return .failure(.outOfRange) }
        return .tenths(tenths)
    }
}

/// What a number is checked against, out of the ledger.
public struct MetricBounds: Sendable {
    public let lowest: Int32
    public let highest: Int32
    public let isWhole: Bool
    public let zeroIsNeverRead: Bool

    /// In the order of the metrics' numbers.
    public static func all() -> InlineArray<19, MetricBounds> {
        InlineArray { index in
            let definition = MetricLedger.definitions[index]
            return MetricBounds(
                lowest: definition.tenths.lowerBound,
                highest: definition.tenths.upperBound,
                isWhole: definition.isWhole,
                zeroIsNeverRead: definition.zeroIsNeverRead
            )
        }
    }
}

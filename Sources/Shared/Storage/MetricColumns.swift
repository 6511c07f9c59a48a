internal import Domain

/// The value columns of both tables, in the order of the metrics' numbers, and fragments of SQL made of them.
enum MetricColumns {
    static let names = MetricLedger.definitions.map { $0.name.description }
    static let list = names.joined(separator: ", ")
    static let newAssignments = names.map { "\($0) = new.\($0)" }.joined(separator: ", ")

    static let rowNames = names.map { "row.\($0)" }.joined(separator: ", ")

    /// `unnest($n::real[]), …`, from the parameter `first` on.
    static func unnests(from first: Int) -> String {
        names.indices.map { "unnest($\(first + $0)::real[])" }.joined(separator: ", ")
    }

    /// `unnest($n::real[]) AS steps, …`, from the parameter `first` on.
    static func namedUnnests(from first: Int) -> String {
        names.enumerated().map { "unnest($\(first + $0)::real[]) AS \($1)" }.joined(separator: ", ")
    }

    /// `steps = nullif(($n::real[])[place], 'NaN'), …`, from the parameter `first` on.
    static func elementAssignments(from first: Int, at place: String) -> String {
        names.enumerated().map { "\($1) = nullif(($\(first + $0)::real[])[\(place)], 'NaN')" }.joined(separator: ", ")
    }

    /// Exact for every value in the ledger's ranges: they have at most seven digits.
    static func real(tenths: Int32) -> Float { Float(Double(tenths) / 10) }

    static func real(_ tenths: Int32?) -> Float? { tenths.map(real(tenths:)) }

    /// Nil for what no writer of ours stores: not a number, or outside the 32-bit range.
    static func tenths(real: Float) -> Int32? {
        let scaled = Double(real) * 10
        guard scaled.magnitude < 2_000_000_000 else { return nil }
        return Int32(scaled < 0 ? scaled - 0.5 : scaled + 0.5)
    }
}

/// Batches grow while their transactions are short, as where windows confirm most days: there a batch costs by its users
/// and its COMMIT, and not by its days.
struct BatchGrowth: Hashable, Sendable {
    static let largest = 16
    static let short: Int64 = 15_000_000
    static let long: Int64 = 40_000_000

    private let base: BatchCut.Limits
    private(set) var factor = 1

    init(_ base: BatchCut.Limits) {
        self.base = base
    }

    /// What the next batch may hold.
    var limits: BatchCut.Limits {
        .init(records: base.records, days: base.days * factor, bytes: base.bytes)
    }

    /// A batch that did not go through is tried in its first size.
    mutating func reset() { factor = 1 }

    /// What a batch took; one that was far from full says nothing about a full one.
    mutating func note(nanoseconds: Int64, days: Int) {
        if nanoseconds > Self.long {
            factor = max(1, factor / 2)
        } else if nanoseconds < Self.short && days * 2 > limits.days {
            factor = min(Self.largest, factor * 2)
        }
    }
}

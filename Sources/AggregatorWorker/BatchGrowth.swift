/// How large the batches of a replay are: they grow while their transactions are short, as where windows confirm most
/// days, and shrink as soon as they are long, since live records of the same users wait for their end. Pure.
struct BatchGrowth: Hashable, Sendable {
    private(set) var days: Int
    private let least: Int
    private let most: Int

    private static let shortNanoseconds: Int64 = 15_000_000
    private static let longNanoseconds: Int64 = 40_000_000

    init(least: Int = 1000, most: Int = 16_000) {
        days = least
        self.least = least
        self.most = most
    }

    /// What a batch of so many days took.
    mutating func note(days taken: Int, nanoseconds: Int64) {
        if nanoseconds > Self.longNanoseconds {
            days = max(least, days / 2)
        } else if nanoseconds < Self.shortNanoseconds && taken * 2 > days {
            days = min(most, days * 2)
        }
    }
}

/// Two sources, one row each: which of the two gives a metric where both have a value. The same rules as `Resolution`,
/// settled once for each pair, since most days that more than one source knows have two.
struct Duel: Sendable {
    private let isLeftMeasured: Bool
    private let isRightMeasured: Bool
    /// Metrics for which the higher value wins; equal ones go by the order.
    private let highest: MetricSet
    /// Metrics for which the right source stands earlier in the order.
    private let rightFirst: MetricSet

    private init(_ left: Source, _ right: Source) {
        isLeftMeasured = left.isDeviceOrCloud
        isRightMeasured = right.isDeviceOrCloud
        var (highest, rightFirst): (MetricSet, MetricSet) = ([], [])
        for metric in Metric.allCases {
            let ranks = (left: Resolution.rank(left, metric), right: Resolution.rank(right, metric))
            if ranks.right < ranks.left { rightFirst.insert(metric) }
            let areBothMeasured = max(ranks.left, ranks.right) < Resolution.fallbackRank
            if areBothMeasured && MetricLedger.highest.has(metric) { highest.insert(metric) }
        }
        self.highest = highest
        self.rightFirst = rightFirst
    }

    /// Whether the right source gives the metric, both having a value of it and nobody having pinned it.
    func isRight(_ metric: Metric, left: Int32, right: Int32) -> Bool {
        if left == 0 || right == 0, left > 0 && isLeftMeasured || right > 0 && isRightMeasured { return left == 0 }
        if left != right && highest.has(metric) { return right > left }
        return rightFirst.has(metric)
    }

    /// Nil for two origins of one source, of which one stands for both.
    static func of(_ left: Source, _ right: Source) -> Duel? {
        left == right ? nil : all[Int(left.rawValue) * side + Int(right.rawValue)]
    }

    private static let side = Int(Source.allCases.map(\.rawValue).max() ?? 0) + 1
    private static let all: [Duel?] = (0..<side * side).map { place in
        guard let left = Source(rawValue: UInt8(place / side)), let right = Source(rawValue: UInt8(place % side))
        else { return nil }
        return Duel(left, right)
    }
}

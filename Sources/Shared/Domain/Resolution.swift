/// One source's value of one metric of one day, on the way to the canonical value.
public struct Candidate: Hashable, Sendable {
    public let provenance: Provenance
    public let tenths: Int32

    public init(provenance: Provenance, tenths: Int32) {
        self.provenance = provenance
        self.tenths = tenths
    }
}

/// The rules by which one of several values of a metric becomes the canonical one (D5: chosen, never added).
///
/// In this order: zeros fall where a device or cloud source has more; one origin a source; a pin turns any rule into
/// priority order with the pinned source first, else the metric's own rule over device and cloud sources; check-ins,
/// then hand-typed values, only where nothing else was found.
public enum Resolution {
    /// What became of one candidate.
    public enum Fate: Hashable, Sendable {
        case won
        /// A zero, where a device or cloud source has more.
        case zeroDropped
        /// Another origin of the same source stands for it.
        case otherOrigin
        /// The metric takes the highest value, and another is higher.
        case lower
        /// As high as the winner, which stands earlier in the order.
        case tieLost
        /// Another source comes earlier in the order.
        case laterInOrder
        /// Hand-typed or a check-in: counts only where no device or cloud source has a value.
        case onlyWithoutOthers
    }

    /// The index of the row whose value of the metric wins; nil only where none has one. One walk over the rows, without
    /// memory of its own: it is done for every metric of every day that more than one source knows.
    ///
    /// - Parameters:
    ///   - metric: the metric.
    ///   - rows: sorted by provenance.
    ///   - pin: the source that the person pinned for the metric.
    /// - Returns: the winner's index.
    public static func winner(_ metric: Metric, in rows: [SourceRow], pin: Source?) -> Int? {
        var count = 0
        var only: Int?
        var dropsZeros = false
        for index in rows.indices {
            guard let tenths = rows[index].state.values[metric] else { continue }
            count += 1
            only = index
            if tenths > 0 && rows[index].provenance.source.isDeviceOrCloud { dropsZeros = true }
        }
        guard count > 1 else { return only }
        var best = Best(takesHighest: MetricLedger.highest.has(metric) && pin == nil)
        // Of the source that the walk is at: the origin that stands for it.
        var keeper: (index: Int, source: Source, tenths: Int32)?
        for index in rows.indices {
            guard let tenths = rows[index].state.values[metric], !(dropsZeros && tenths == 0) else { continue }
            let source = rows[index].provenance.source
            if let held = keeper {
                if held.source == source {
                    // Origins come in the order of their names, the platform's own merge (the empty one) first.
                    if MetricLedger.cumulative.has(metric) && tenths > held.tenths { keeper = (index, source, tenths) }
                    continue
                }
                best.meet(held.index, held.tenths, rank: rank(held.source, metric, pin: pin))
            }
            keeper = (index, source, tenths)
        }
        if let held = keeper { best.meet(held.index, held.tenths, rank: rank(held.source, metric, pin: pin)) }
        return best.index
    }

    /// The best of the sources met so far.
    private struct Best {
        let takesHighest: Bool
        var index: Int?
        private var tenths: Int32 = 0
        private var rank = 0

        init(takesHighest: Bool) {
            self.takesHighest = takesHighest
        }

        mutating func meet(_ newIndex: Int, _ newTenths: Int32, rank newRank: Int) {
            if index != nil {
                let bothMeasured = newRank < Resolution.fallbackRank && rank < Resolution.fallbackRank
                let isHigher = takesHighest && bothMeasured && newTenths != tenths
                guard isHigher ? newTenths > tenths : newRank < rank else { return }
            }
            (index, tenths, rank) = (newIndex, newTenths, newRank)
        }
    }

    /// The fate of each candidate, in the order given; the same steps as `winner`, kept visible for people who ask why.
    public static func explain(_ metric: Metric, _ candidates: [Candidate], pin: Source?) -> [Fate] {
        let definition = MetricLedger[metric]
        let standing = standing(candidates, definition)
        guard let winner = choose(definition, candidates, standing, pin) else { return [] }
        let best = candidates[winner]
        let takesHighest = definition.rule == .highest && pin == nil && best.provenance.source.isDeviceOrCloud
        return candidates.indices.map { index -> Fate in
            let candidate = candidates[index]
            if index == winner { return .won }
            guard standing[index] else {
                return candidate.tenths == 0 && dropsZeros(candidates) ? .zeroDropped : .otherOrigin
            }
            let isOnlyFallback = rank(candidate.provenance.source, definition, pin: pin) >= fallbackRank
            if isOnlyFallback && rank(best.provenance.source, definition, pin: pin) < fallbackRank {
                return .onlyWithoutOthers
            }
            guard takesHighest else { return .laterInOrder }
            return candidate.tenths < best.tenths ? .lower : .tieLost
        }
    }

    // MARK: Steps

    private static func dropsZeros(_ candidates: [Candidate]) -> Bool {
        candidates.contains { $0.provenance.source.isDeviceOrCloud && $0.tenths > 0 }
    }

    /// Steps 1 and 2: which candidates are left once zeros have fallen and each source has one origin.
    private static func standing(_ candidates: [Candidate], _ definition: MetricDefinition) -> [Bool] {
        let dropsZeros = dropsZeros(candidates)
        var standing = candidates.map { !(dropsZeros && $0.tenths == 0) }
        var keeper: Int?
        for index in candidates.indices where standing[index] {
            guard let held = keeper, candidates[held].provenance.source == candidates[index].provenance.source else {
                keeper = index
                continue
            }
            // Origins come in the order of their names, the platform's own merge (the empty one) first.
            if definition.kind == .cumulative && candidates[index].tenths > candidates[held].tenths {
                standing[held] = false
                keeper = index
            } else {
                standing[index] = false
            }
        }
        return standing
    }

    /// Steps 3 and 4.
    private static func choose(
        _ definition: MetricDefinition,
        _ candidates: [Candidate],
        _ standing: [Bool],
        _ pin: Source?
    ) -> Int? {
        let takesHighest = definition.rule == .highest && pin == nil
        var best: Int?
        for index in candidates.indices where standing[index] {
            guard let held = best else {
                best = index
                continue
            }
            let (new, old) = (candidates[index], candidates[held])
            let newRank = rank(new.provenance.source, definition, pin: pin)
            let oldRank = rank(old.provenance.source, definition, pin: pin)
            let bothMeasured = newRank < fallbackRank && oldRank < fallbackRank
            if takesHighest && bothMeasured && new.tenths != old.tenths {
                if new.tenths > old.tenths { best = index }
            } else if newRank < oldRank {
                best = index
            }
        }
        return best
    }

    /// From here on a source counts only where no other was found.
    static let fallbackRank = 1000

    /// By the metrics' numbers, then the sources': the ranks without a pin.
    private static let ranks: [Int] = {
        var ranks: [Int] = []
        for definition in MetricLedger.definitions {
            for number in 0...UInt8(largestSource) {
                let source = Source(rawValue: number)
                ranks.append(source.map { rank($0, definition, pin: nil) } ?? 0)
            }
        }
        return ranks
    }()
    private static let largestSource = Int(Source.allCases.map(\.rawValue).max() ?? 0)

    private static func rank(_ source: Source, _ metric: Metric, pin: Source?) -> Int {
        source == pin ? -1 : rank(source, metric)
    }

    /// Where the source stands in the metric's order; the smallest comes first.
    static func rank(_ source: Source, _ metric: Metric) -> Int {
        ranks[metric.index * (largestSource + 1) + Int(source.rawValue)]
    }

    private static func rank(_ source: Source, _ definition: MetricDefinition, pin: Source?) -> Int {
        if source == pin { return -1 }
        if let place = definition.order.firstIndex(of: source) { return place }
        switch source {
        case .checkin: return fallbackRank
        case .manual: return fallbackRank + 1
        case .appleHealth, .healthConnect, .oura, .whoop, .garmin: return 100 + Int(source.rawValue)
        }
    }
}

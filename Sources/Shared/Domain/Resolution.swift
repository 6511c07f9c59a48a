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

    /// The index of the winner among candidates that are sorted by provenance; nil only for no candidates.
    public static func winner(_ metric: Metric, among candidates: [Candidate], pin: Source?) -> Int? {
        guard candidates.count > 1 else { return candidates.isEmpty ? nil : 0 }
        let definition = MetricLedger[metric]
        let standing = standing(candidates, definition)
        return choose(definition, candidates, standing, pin)
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
    private static let fallbackRank = 1000

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

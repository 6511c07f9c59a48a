/// The rules of a day, written down a second time and naively, to be compared with the product. Nothing here calls it.
struct ModelMetric: Sendable {
    enum Order: Sendable {
        case activity, sleep, body, score
    }

    let name: String
    let isCumulative: Bool
    let takesHighest: Bool
    let order: Order
    let range: ClosedRange<Double>
    let isWhole: Bool
    let refusesZero: Bool

    private init(
        _ name: String,
        _ order: Order,
        cumulative: Bool,
        _ range: ClosedRange<Double>,
        highest: Bool = false,
        whole: Bool = false,
        refusesZero: Bool = false
    ) {
        self.name = name
        self.order = order
        isCumulative = cumulative
        takesHighest = highest
        self.range = range
        isWhole = whole
        self.refusesZero = refusesZero
    }

    /// The place in this list is the metric's number.
    static let all: [ModelMetric] = [
        .init("steps", .activity, cumulative: true, 0...100_000, highest: true, whole: true),
        .init("active_energy_kcal", .activity, cumulative: true, 0...20_000, highest: true),
        .init("basal_energy_kcal", .activity, cumulative: true, 0...20_000),
        .init("total_energy_kcal", .activity, cumulative: true, 0...20_000),
        .init("exercise_minutes", .activity, cumulative: true, 0...1440),
        .init("active_minutes", .activity, cumulative: true, 0...1440),
        .init("mindful_minutes", .activity, cumulative: false, 0...1440),
        .init("sleep_minutes", .sleep, cumulative: false, 0...1440, refusesZero: true),
        .init("nap_minutes", .sleep, cumulative: false, 0...1440, refusesZero: true),
        .init("resting_heart_rate_bpm", .body, cumulative: false, 20...300, refusesZero: true),
        .init("average_heart_rate_bpm", .body, cumulative: false, 20...300, refusesZero: true),
        .init("hrv_sdnn_ms", .body, cumulative: false, 1...500, refusesZero: true),
        .init("hrv_rmssd_ms", .body, cumulative: false, 1...500, refusesZero: true),
        .init("distance_m", .activity, cumulative: true, 0...500_000),
        .init("flights_climbed", .activity, cumulative: true, 0...2000, whole: true),
        .init("workout_count", .activity, cumulative: true, 0...50, whole: true),
        .init("water_ml", .activity, cumulative: true, 0...20_000),
        .init("spo2_percent", .body, cumulative: false, 50...100, refusesZero: true),
        .init("activity_score", .score, cumulative: false, 0...100),
    ]
}

/// Sources by their stored numbers.
enum ModelSource {
    static let names = [
        "", "apple_health", "health_connect", "oura", "whoop", "garmin", "manual", "checkin",
    ]
    static let manual = 6
    static let checkin = 7

    /// Phones can be woken; nothing else can.
    static func isPhone(_ source: Int) -> Bool { source == 1 || source == 2 }

    static func isDeviceOrCloud(_ source: Int) -> Bool { source < manual }

    /// Every source in the order of preference, the fallbacks last; the pinned one first.
    static func preference(_ order: ModelMetric.Order, pin: Int?) -> [Int] {
        let named: [Int] =
            switch order {
            case .activity: [1, 2, 5, 4, 3]
            case .sleep: [7, 3, 4, 5, 1, 2]
            case .body: [4, 3, 5, 1, 2]
            case .score: [3, 4, 5]
            }
        var list = named
        for source in 1...5 where !list.contains(source) { list.append(source) }
        for source in [checkin, manual] where !list.contains(source) { list.append(source) }
        if let pin {
            list.removeAll { $0 == pin }
            list.insert(pin, at: 0)
        }
        return list
    }
}

/// What one source and origin says of one metric of a day.
struct ModelCandidate {
    let source: Int
    let origin: String
    let tenths: Int
    let isClosed: Bool
}

enum ModelResolution {
    /// The candidate that counts.
    static func winner(_ metric: ModelMetric, _ all: [ModelCandidate], pin: Int?) -> ModelCandidate? {
        // Zeros fall where a device or cloud source has more.
        let hasMore = all.contains { ModelSource.isDeviceOrCloud($0.source) && $0.tenths > 0 }
        let candidates = hasMore ? all.filter { $0.tenths != 0 } : all
        // One origin a source.
        var bySource: [Int: ModelCandidate] = [:]
        for candidate in candidates {
            guard let held = bySource[candidate.source] else {
                bySource[candidate.source] = candidate
                continue
            }
            let isEarlier = Array(candidate.origin.utf8).lexicographicallyPrecedes(Array(held.origin.utf8))
            let isBetter =
                metric.isCumulative && candidate.tenths != held.tenths ? candidate.tenths > held.tenths : isEarlier
            if isBetter { bySource[candidate.source] = candidate }
        }
        let preference = ModelSource.preference(metric.order, pin: pin)
        if metric.takesHighest && pin == nil {
            let measured = bySource.values.filter { ModelSource.isDeviceOrCloud($0.source) }
            if let highest = measured.map(\.tenths).max() {
                return preference.compactMap { bySource[$0] }.first {
                    ModelSource.isDeviceOrCloud($0.source) && $0.tenths == highest
                }
            }
        }
        return preference.lazy.compactMap { bySource[$0] }.first
    }
}

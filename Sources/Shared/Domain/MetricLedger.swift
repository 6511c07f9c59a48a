/// A figure of a day. The raw value is its bit in every mask and its place in every stored array: never renumber,
/// never reuse; a new metric takes the next number.
public enum Metric: UInt8, CaseIterable, Sendable, Hashable {
    case steps, activeEnergy, basalEnergy, totalEnergy
    case exerciseMinutes, activeMinutes, mindfulMinutes
    case sleepMinutes, napMinutes
    case restingHeartRate, averageHeartRate
    case hrvSDNN, hrvRMSSD
    case distance, flightsClimbed, workoutCount, water
    case spo2, activityScore

    @inlinable
    public static var count: Int { 19 }

    @inlinable
    public var index: Int { Int(rawValue) }
}

/// What the ledger says of one metric: the whole truth about it stands in this row.
public struct MetricDefinition: Sendable {
    public enum Kind: String, Sendable {
        /// Grows through the day and is a total at its end.
        case cumulative
        /// A length of time that is known once.
        case duration
        /// A physiological reading; zero can't be one.
        case discrete
        case score
    }

    public enum Rule: String, Sendable {
        /// The highest value; ties go to the source that stands earlier in the order.
        case highest
        /// The first source of the order that has a value.
        case firstWithData = "first_with_data"
    }

    /// What a metric may be used for; a reader that shows or judges people asks here first.
    public struct Uses: OptionSet, Sendable {
        public let rawValue: UInt8

        public init(rawValue: UInt8) {
            self.rawValue = rawValue
        }

        /// Shown as the day's figure.
        public static let display = Uses(rawValue: 1)
        /// Compared with a goal: only what a source totals itself.
        public static let goal = Uses(rawValue: 2)
        /// Compared with the person's own earlier days.
        public static let trend = Uses(rawValue: 4)
    }

    public let metric: Metric
    /// The key in JSON and the column in the tables.
    public let name: StaticString
    public let unit: StaticString
    public let kind: Kind
    public let rule: Rule
    /// The accepted range, both ends included, in tenths of the unit.
    public let tenths: ClosedRange<Int32>
    /// A count: a fraction is an error, not rounded.
    public let isWhole: Bool
    /// A zero is never a reading of this metric, whatever the sender says.
    public let zeroIsNeverRead: Bool
    /// What the figure may be used for.
    public let uses: Uses
    /// Default order of sources; sources that are not named come after those that are, in the order of their numbers.
    public let order: [Source]

    fileprivate init(
        _ metric: Metric,
        _ name: StaticString,
        unit: StaticString,
        _ kind: Kind,
        _ range: ClosedRange<Int32>,
        whole: Bool = false,
        zeroIsNeverRead: Bool = false,
        rule: Rule = .firstWithData,
        order: [Source]
    ) {
        self.metric = metric
        self.name = name
        self.unit = unit
        self.kind = kind
        self.rule = rule
        self.tenths = (range.lowerBound * 10)...(range.upperBound * 10)
        self.isWhole = whole
        self.zeroIsNeverRead = zeroIsNeverRead
        self.order = order
        switch kind {
        case .cumulative, .duration: uses = [.display, .goal, .trend]
        case .discrete, .score: uses = [.display, .trend]
        }
    }
}

/// The one table of metrics: adding a metric is adding a case, a row here and a migration.
public enum MetricLedger {
    /// Which set of rules these are; canonical rows carry the number they were made with.
    public static let ruleVersion: Int32 = 1

    /// In the order of the raw values, so that a metric's index finds its row.
    public static let definitions: [MetricDefinition] = [
        .init(.steps, "steps", unit: "count", .cumulative, 0...100_000, whole: true, rule: .highest, order: activity),
        .init(
            .activeEnergy,
            "active_energy_kcal",
            unit: "kcal",
            .cumulative,
            0...20_000,
            rule: .highest,
            order: activity
        ),
        .init(.basalEnergy, "basal_energy_kcal", unit: "kcal", .cumulative, 0...20_000, order: activity),
        .init(.totalEnergy, "total_energy_kcal", unit: "kcal", .cumulative, 0...20_000, order: activity),
        .init(.exerciseMinutes, "exercise_minutes", unit: "min", .cumulative, 0...1440, order: activity),
        .init(.activeMinutes, "active_minutes", unit: "min", .cumulative, 0...1440, order: activity),
        .init(.mindfulMinutes, "mindful_minutes", unit: "min", .duration, 0...1440, order: activity),
        .init(.sleepMinutes, "sleep_minutes", unit: "min", .duration, 0...1440, zeroIsNeverRead: true, order: sleep),
        .init(.napMinutes, "nap_minutes", unit: "min", .duration, 0...1440, zeroIsNeverRead: true, order: sleep),
        .init(
            .restingHeartRate,
            "resting_heart_rate_bpm",
            unit: "bpm",
            .discrete,
            20...300,
            zeroIsNeverRead: true,
            order: body
        ),
        .init(
            .averageHeartRate,
            "average_heart_rate_bpm",
            unit: "bpm",
            .discrete,
            20...300,
            zeroIsNeverRead: true,
            order: body
        ),
        .init(.hrvSDNN, "hrv_sdnn_ms", unit: "ms", .discrete, 1...500, zeroIsNeverRead: true, order: body),
        .init(.hrvRMSSD, "hrv_rmssd_ms", unit: "ms", .discrete, 1...500, zeroIsNeverRead: true, order: body),
        .init(.distance, "distance_m", unit: "m", .cumulative, 0...500_000, order: activity),
        .init(.flightsClimbed, "flights_climbed", unit: "count", .cumulative, 0...2000, whole: true, order: activity),
        .init(.workoutCount, "workout_count", unit: "count", .cumulative, 0...50, whole: true, order: activity),
        .init(.water, "water_ml", unit: "ml", .cumulative, 0...20_000, order: activity),
        .init(.spo2, "spo2_percent", unit: "%", .discrete, 50...100, zeroIsNeverRead: true, order: body),
        .init(.activityScore, "activity_score", unit: "points", .score, 0...100, order: [.oura, .whoop, .garmin]),
    ]

    /// Metrics that grow through the day.
    public static let cumulative = definitions.reduce(into: MetricSet()) {
        if $1.kind == .cumulative { $0.insert($1.metric) }
    }

    /// Metrics of which the highest source counts.
    static let highest = definitions.reduce(into: MetricSet()) { if $1.rule == .highest { $0.insert($1.metric) } }

    public static subscript(_ metric: Metric) -> MetricDefinition { definitions[metric.index] }

    private static let activity: [Source] = [.appleHealth, .healthConnect, .garmin, .whoop, .oura]
    private static let sleep: [Source] = [.checkin, .oura, .whoop, .garmin, .appleHealth, .healthConnect]
    private static let body: [Source] = [.whoop, .oura, .garmin, .appleHealth, .healthConnect]
}

extension Metric: CustomStringConvertible {
    public var name: StaticString { MetricLedger[self].name }
    public var description: String { name.description }

    public init?(name: String) {
        guard let match = Self.allCases.first(where: { $0.description == name }) else { return nil }
        self = match
    }
}

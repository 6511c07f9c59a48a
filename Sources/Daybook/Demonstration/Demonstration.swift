import Domain

/// What `daybook up` posts to show that the whole way works, and every figure that must come of it. Pure data, made
/// for a day.
struct Demonstration: Sendable {
    struct Day: Hashable, Sendable {
        let date: CalendarDay
        /// Keys and JSON literals, in the order in which they are sent.
        let fields: [Field]
    }

    struct Field: Hashable, Sendable {
        let key: String
        let literal: String
    }

    /// One request, and what its answer must say.
    struct Step: Hashable, Sendable {
        let title: String
        let source: Source
        let observedAt: Instant
        let days: [Day]
        let accepted: Int
        /// Which fields of which items come back as skipped: `2.steps`.
        var skipped: [String] = []
        /// Which items come back as errors.
        var errors: [Int] = []
    }

    struct Figure: Hashable, Sendable {
        let day: CalendarDay
        let metric: Metric
        let tenths: Int32
        let source: Source
        /// Why it must be this one.
        let reason: String
    }

    struct Finality: Hashable, Sendable {
        let day: CalendarDay
        let isFinal: Bool
    }

    let steps: [Step]
    let figures: [Figure]
    let finality: [Finality]

    var days: ClosedRange<CalendarDay> {
        let all = figures.map(\.day)
        let first = all.min() ?? CalendarDay(daysSinceEpoch: 0)
        return first...(all.max() ?? first)
    }

    /// - Parameter now: the days are today in UTC and the three before; readings are minutes old.
    init(now: Instant) {
        let today = now.day(secondsFromUTC: 0)
        let yesterday = today.advanced(by: -1)
        let before = today.advanced(by: -2)
        let first = today.advanced(by: -3)
        func minutesAgo(_ minutes: Int) -> Instant { now.advanced(bySeconds: -60 * minutes) }
        func day(_ date: CalendarDay, _ fields: KeyValuePairs<Metric, String>) -> Day {
            Day(date: date, fields: fields.map { Field(key: $0.key.description, literal: $0.value) })
        }
        let phone = [
            day(before, [.steps: "8421", .activeEnergy: "512.5", .sleepMinutes: "431", .hrvSDNN: "48"]),
            day(
                yesterday,
                [
                    .steps: "11842", .activeEnergy: "612", .sleepMinutes: "402", .flightsClimbed: "12",
                    .distance: "8210.5",
                ]
            ),
            day(today, [.steps: "3127", .activeEnergy: "140"]),
        ]
        steps = [
            Step(
                title: "three days of an iPhone",
                source: .appleHealth,
                observedAt: minutesAgo(40),
                days: phone,
                accepted: 3
            ),
            Step(
                title: "an Android phone disagrees; one of its figures is a zero",
                source: .healthConnect,
                observedAt: minutesAgo(35),
                days: [
                    day(before, [.steps: "8119", .sleepMinutes: "447"]),
                    day(yesterday, [.steps: "12304", .activeEnergy: "587"]),
                    day(today, [.steps: "0", .water: "1500"]),
                ],
                accepted: 3,
                skipped: ["2.steps"]
            ),
            Step(
                title: "the iPhone sends the same again",
                source: .appleHealth,
                observedAt: minutesAgo(30),
                days: phone,
                accepted: 3
            ),
            Step(
                title: "an older reading arrives late, with higher figures",
                source: .appleHealth,
                observedAt: minutesAgo(90),
                days: [
                    day(before, [.steps: "19990"]),
                    day(yesterday, [.steps: "14100", .activeEnergy: "650"]),
                ],
                accepted: 2
            ),
            Step(
                title: "one bad item among good ones",
                source: .appleHealth,
                observedAt: minutesAgo(20),
                days: [
                    day(first, [.steps: "7050", .restingHeartRate: "54"]),
                    day(yesterday, [.steps: "-5"]),
                    day(today, [.steps: "3410"]),
                ],
                accepted: 2,
                errors: [1]
            ),
            Step(
                title: "typed in by hand",
                source: .manual,
                observedAt: minutesAgo(10),
                days: [day(yesterday, [.steps: "40000", .water: "2000"])],
                accepted: 1
            ),
            // The last one, so that its figure says that all before it have been applied: one user, one partition.
            Step(
                title: "a reading that leaves most metrics out",
                source: .appleHealth,
                observedAt: minutesAgo(5),
                days: [day(yesterday, [.flightsClimbed: "14"])],
                accepted: 1
            ),
        ]
        func figure(_ day: CalendarDay, _ metric: Metric, _ tenths: Int32, _ source: Source, _ reason: String) -> Figure
        {
            Figure(day: day, metric: metric, tenths: tenths, source: source, reason: reason)
        }
        figures = [
            figure(first, .steps, 70_500, .appleHealth, "stored although its neighbour was bad"),
            figure(first, .restingHeartRate, 540, .appleHealth, "the only one"),
            figure(before, .steps, 84_210, .appleHealth, "higher than 8,119; the late 19,990 is older"),
            figure(before, .activeEnergy, 5125, .appleHealth, "the only one"),
            figure(before, .sleepMinutes, 4310, .appleHealth, "earlier in the order than health_connect"),
            figure(before, .hrvSDNN, 480, .appleHealth, "the only one"),
            figure(yesterday, .steps, 123_040, .healthConnect, "the higher of two; typed 40,000 don't count"),
            figure(yesterday, .activeEnergy, 6120, .appleHealth, "higher than 587; the late 650 is older"),
            figure(yesterday, .sleepMinutes, 4020, .appleHealth, "left out later, so it stays"),
            figure(yesterday, .distance, 82_105, .appleHealth, "left out later, so it stays"),
            figure(yesterday, .flightsClimbed, 140, .appleHealth, "the newest reading"),
            figure(yesterday, .water, 20_000, .manual, "typed in, and nobody else has any"),
            figure(today, .steps, 34_100, .appleHealth, "the newest reading; the zero was not taken for one"),
            figure(today, .activeEnergy, 1400, .appleHealth, "left out later, so it stays"),
            figure(today, .water, 15_000, .healthConnect, "the only one"),
        ]
        finality = [
            Finality(day: first, isFinal: true), Finality(day: before, isFinal: true),
            Finality(day: today, isFinal: false),
        ]
    }
}

extension Demonstration.Step {
    /// The request's body.
    var body: String {
        let days = days.map { day in
            let fields = day.fields.map { ", \"\($0.key)\": \($0.literal)" }.joined()
            return "{\"date\": \"\(day.date)\"\(fields)}"
        }
        return "{\"source\": \"\(source)\", \"observed_at\": \"\(observedAt)\", \"time_zone\": \"UTC\", \"days\": ["
            + days.joined(separator: ", ") + "]}"
    }

    /// The body in a line that fits a terminal.
    var summary: String {
        let days = days.map { day in
            let fields = day.fields.map { "\($0.key) \($0.literal)" }.joined(separator: ", ")
            return "\(day.date.description.suffix(5)) {\(fields)}"
        }
        return "\(source), observed \(observedAt.description.dropFirst(11).prefix(5)): " + days.joined(separator: " ")
    }
}

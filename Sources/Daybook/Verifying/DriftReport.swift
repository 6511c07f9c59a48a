import Domain
import Storage

/// How far canonical days are from what their source rows say, by metric. Pure.
struct DriftReport: Hashable, Sendable {
    /// Days of one metric, by how they are wrong.
    struct Counts: Hashable, Sendable {
        /// The rows give a value, the canonical day has none.
        var missing = 0
        /// The canonical day has a value, the rows give none.
        var surplus = 0
        var value = 0
        /// The value is right, its source or origin is not.
        var winner = 0

        var days: Int { missing + surplus + value + winner }
    }

    static let exampleLimit = 10

    private(set) var users = 0
    private(set) var days = 0
    /// Made by other rules than the active ones: no drift, but to be recomputed.
    private(set) var otherRules = 0
    private(set) var drifted = 0
    private(set) var metrics: [Metric: Counts] = [:]
    /// Days of which it was wrong whether they are final.
    private(set) var finals = 0
    /// Days to look at.
    private(set) var examples: [UserDay] = []

    mutating func add(_ page: UserPage) {
        users += page.users
        for day in page.days {
            days += 1
            if let rules = day.storedRules, rules != page.rules {
                otherRules += 1
                continue
            }
            add(day.key, stored: day.stored, resolved: page.resolved(day))
        }
    }

    mutating func add(_ key: UserDay, stored: CanonicalDay?, resolved: CanonicalDay?) {
        guard stored != resolved else { return }
        drifted += 1
        if examples.count < Self.exampleLimit { examples.append(key) }
        if stored?.isFinal ?? false != resolved?.isFinal ?? false { finals += 1 }
        for metric in Metric.allCases {
            let has = stored?.values[metric]
            let should = resolved?.values[metric]
            switch (has, should) {
            case (nil, nil): continue
            case (nil, .some): metrics[metric, default: Counts()].missing += 1
            case (.some, nil): metrics[metric, default: Counts()].surplus += 1
            case (let has?, let should?):
                if has != should {
                    metrics[metric, default: Counts()].value += 1
                } else if stored?.winner(of: metric) != resolved?.winner(of: metric) {
                    metrics[metric, default: Counts()].winner += 1
                }
            }
        }
    }

    static func += (left: inout DriftReport, right: DriftReport) {
        left.users += right.users
        left.days += right.days
        left.otherRules += right.otherRules
        left.drifted += right.drifted
        left.finals += right.finals
        for (metric, counts) in right.metrics {
            var sum = left.metrics[metric] ?? Counts()
            sum.missing += counts.missing
            sum.surplus += counts.surplus
            sum.value += counts.value
            sum.winner += counts.winner
            left.metrics[metric] = sum
        }
        left.examples = Array((left.examples + right.examples).sorted().prefix(exampleLimit))
    }

    func text(_ style: TextStyle) -> [String] {
        var lines: [String] = []
        let looked = "\(counted(days, "day", "days")) of \(counted(users, "user", "users"))"
        if drifted == 0 {
            lines.append(style.good("no drift") + " in \(looked)")
        } else {
            var table = TextTable([
                .left("METRIC"), .right("DAYS"), .right("MISSING"), .right("SURPLUS"), .right("VALUE"),
                .right("SOURCE"),
            ])
            for (metric, counts) in metrics.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                table.add([
                    metric.description, grouped(counts.days), grouped(counts.missing), grouped(counts.surplus),
                    grouped(counts.value), grouped(counts.winner),
                ])
            }
            if finals > 0 { table.add(["final", grouped(finals)]) }
            lines += table.lines(style)
            lines.append(style.bad("\(grouped(drifted)) drifted") + " of \(looked): not what their rows say")
            lines += examples.map { "  daybook day show \($0.user) \($0.day)" }
            lines.append("`daybook recompute` mends them.")
        }
        if otherRules > 0 {
            lines.append(
                "\(counted(otherRules, "day was", "days were")) made by other rules than the active ones, and not "
                    + "compared: `daybook recompute` moves them"
            )
        }
        return lines
    }

    var json: JSONDocument {
        .object([
            ("ok", .bool(drifted == 0)), ("users", .integer(users)), ("days", .integer(days)),
            ("drifted", .integer(drifted)), ("other_rules", .integer(otherRules)), ("final", .integer(finals)),
            (
                "metrics",
                .object(
                    metrics.sorted { $0.key.rawValue < $1.key.rawValue }.map { metric, counts in
                        (
                            metric.description,
                            .object([
                                ("missing", .integer(counts.missing)), ("surplus", .integer(counts.surplus)),
                                ("value", .integer(counts.value)), ("source", .integer(counts.winner)),
                            ])
                        )
                    }
                )
            ),
            (
                "examples",
                .array(
                    examples.map {
                        .object([("user", .string($0.user.description)), ("day", .string($0.day.description))])
                    }
                )
            ),
        ])
    }
}

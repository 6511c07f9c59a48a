import Aggregation
import AggregatorWorker
import Domain
import Storage

/// What a replay would change, by metric and by who wins. Pure.
struct PreviewReport: Sendable {
    /// Canonical days of one metric, by what would become of their value.
    struct Counts: Hashable, Sendable {
        var appears = 0
        var disappears = 0
        var value = 0
        /// The value stays, its source or origin does not.
        var winner = 0

        var days: Int { appears + disappears + value + winner }
    }

    /// From whom to whom a metric's days would go; nil for nobody.
    struct Passage: Hashable, Sendable {
        let metric: Metric
        let before: Source?
        let after: Source?
    }

    /// One metric of one day.
    struct Line: Hashable, Sendable {
        let key: UserDay
        let metric: Metric
        let before: (tenths: Int32, winner: Provenance)?
        let after: (tenths: Int32, winner: Provenance)?

        static func == (left: Line, right: Line) -> Bool { left.key == right.key && left.metric == right.metric }

        func hash(into hasher: inout Hasher) {
            hasher.combine(key)
            hasher.combine(metric)
        }
    }

    let counts: ReplayCounts
    let users: Int
    let days: Int
    /// Days of which only it would change whether they are final.
    private(set) var finals = 0
    private(set) var metrics: [Metric: Counts] = [:]
    private(set) var passages: [Passage: Int] = [:]
    /// In the order of users, days and metrics.
    private(set) var lines: [Line] = []

    init(_ counts: ReplayCounts, _ changes: [UserDay: PreviewRunner.Change]) {
        self.counts = counts
        users = Set(changes.keys.map(\.user)).count
        days = changes.count
        for (key, change) in changes.sorted(by: { $0.key < $1.key }) {
            let before = lines.count
            for metric in Metric.allCases { add(key, metric, change) }
            if lines.count == before { finals += 1 }
        }
    }

    private mutating func add(_ key: UserDay, _ metric: Metric, _ change: PreviewRunner.Change) {
        let before = Self.value(metric, of: change.before)
        let after = Self.value(metric, of: change.after)
        guard before?.tenths != after?.tenths || before?.winner != after?.winner else { return }
        var counts = metrics[metric] ?? Counts()
        switch (before, after) {
        case (nil, _): counts.appears += 1
        case (_, nil): counts.disappears += 1
        case (let before?, let after?):
            if before.tenths != after.tenths { counts.value += 1 } else { counts.winner += 1 }
        }
        metrics[metric] = counts
        let passage = Passage(metric: metric, before: before?.winner.source, after: after?.winner.source)
        passages[passage, default: 0] += 1
        lines.append(Line(key: key, metric: metric, before: before, after: after))
    }

    private static func value(_ metric: Metric, of day: CanonicalDay?) -> (tenths: Int32, winner: Provenance)? {
        guard let day, let tenths = day.values[metric], let winner = day.winner(of: metric) else { return nil }
        return (tenths, winner)
    }

    // MARK: Showing

    /// How much of single days is shown.
    struct Shown: Sendable {
        let sample: Int
        /// Values are a person's health: only for who asks for them.
        let values: Bool
    }

    func text(_ shows: Shown, partitions: Int, seconds: Double, _ style: TextStyle) -> [String] {
        var text = ReplayText.text(counts, partitions: partitions, seconds: seconds, style)
        text.append("")
        guard days > 0 else {
            return text + ["no canonical day would change" + ", and nothing was written"]
        }
        text.append(
            style.strong("\(counted(days, "canonical day", "canonical days")) of \(counted(users, "user", "users"))")
                + " would change; nothing was written"
        )
        var table = TextTable([
            .left("METRIC"), .right("DAYS"), .right("APPEARS"), .right("DISAPPEARS"), .right("VALUE"),
            .right("SOURCE ONLY"),
        ])
        for (metric, counts) in metrics.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            table.add([
                metric.description, grouped(counts.days), grouped(counts.appears), grouped(counts.disappears),
                grouped(counts.value), grouped(counts.winner),
            ])
        }
        if finals > 0 { table.add(["final alone", grouped(finals)]) }
        text += table.lines(style)
        var winners = TextTable([.left("METRIC"), .left("FROM"), .left("TO"), .right("DAYS")])
        for (passage, count) in sortedPassages() {
            winners.add([
                passage.metric.description, passage.before?.description ?? "nobody",
                passage.after?.description ?? "nobody", grouped(count),
            ])
        }
        if !winners.isEmpty { text += [""] + winners.lines(style) }
        guard shows.sample > 0 && !lines.isEmpty else { return text }
        var shown = TextTable([
            .left("USER"), .left("DAY"), .left("METRIC"), .right("BEFORE"), .left("FROM"), .right("AFTER"),
            .left("FROM"),
        ])
        for line in Self.spread(lines, shows.sample) {
            shown.add([
                line.key.user.description, line.key.day.description, line.metric.description,
                line.before.map { Self.shown($0.tenths, shows) } ?? "", line.before?.winner.shown ?? "",
                line.after.map { Self.shown($0.tenths, shows) } ?? "", line.after?.winner.shown ?? "",
            ])
        }
        return text + [""] + shown.lines(style)
    }

    private static func shown(_ tenths: Int32, _ shows: Shown) -> String {
        shows.values ? Daybook.shown(tenths: tenths) : "a value"
    }

    private func sortedPassages() -> [(Passage, Int)] {
        passages.map { ($0.key, $0.value) }.sorted { left, right in
            (left.0.metric.rawValue, right.1, left.0.before?.rawValue ?? 0, left.0.after?.rawValue ?? 0)
                < (right.0.metric.rawValue, left.1, right.0.before?.rawValue ?? 0, right.0.after?.rawValue ?? 0)
        }
    }

    /// So many of them, evenly from the whole.
    static func spread<Element>(_ elements: [Element], _ count: Int) -> [Element] {
        guard elements.count > count, count > 0 else { return count > 0 ? elements : [] }
        return (0..<count).map { elements[$0 * elements.count / count] }
    }

    func members(_ shows: Shown, partitions: Int, seconds: Double) -> [(String, JSONDocument)] {
        ReplayText.members(counts, partitions: partitions, seconds: seconds) + [
            ("preview", .bool(true)), ("users_changed", .integer(users)), ("days_changed", .integer(days)),
            ("final_only", .integer(finals)),
            (
                "metrics",
                .object(
                    metrics.sorted { $0.key.rawValue < $1.key.rawValue }.map { metric, counts in
                        (
                            metric.description,
                            .object([
                                ("appears", .integer(counts.appears)), ("disappears", .integer(counts.disappears)),
                                ("value", .integer(counts.value)), ("source_only", .integer(counts.winner)),
                            ])
                        )
                    }
                )
            ),
            (
                "winners",
                .array(
                    sortedPassages().map { passage, count in
                        .object([
                            ("metric", .string(passage.metric.description)),
                            ("from", passage.before.map { .string($0.description) } ?? .null),
                            ("to", passage.after.map { .string($0.description) } ?? .null), ("days", .integer(count)),
                        ])
                    }
                )
            ),
            ("sample", .array(Self.spread(lines, shows.sample).map { Self.json($0, shows) })),
        ]
    }

    private static func json(_ line: Line, _ shows: Shown) -> JSONDocument {
        func side(_ side: (tenths: Int32, winner: Provenance)?) -> JSONDocument {
            guard let side else { return .null }
            return .object([
                ("value", shows.values ? .tenths(side.tenths) : .null),
                ("source", .string(side.winner.source.description)),
                ("origin", .string(side.winner.origin)),
            ])
        }
        return .object([
            ("user", .string(line.key.user.description)), ("day", .string(line.key.day.description)),
            ("metric", .string(line.metric.description)), ("before", side(line.before)), ("after", side(line.after)),
        ])
    }

    static let csvHeading =
        "user,day,metric,value_before,source_before,origin_before,value_after,source_after,origin_after"

    /// Every change as a line of CSV (RFC 4180), without an end of line.
    static func csv(_ line: Line) -> String {
        func side(_ side: (tenths: Int32, winner: Provenance)?) -> [String] {
            guard let side else { return ["", "", ""] }
            let value = JSONDocument.tenths(side.tenths).text()
            return [value, side.winner.source.description, quoted(side.winner.origin)]
        }
        return
            ([line.key.user.description, line.key.day.description, line.metric.description]
            + side(line.before) + side(line.after)).joined(separator: ",")
    }

    /// A spreadsheet takes a field that begins with one of these for a formula.
    private static func quoted(_ text: String) -> String {
        let isFormula = text.first.map { "=+-@\t\r".contains($0) } ?? false
        let text = isFormula ? "'" + text : text
        guard text.contains(where: { ",\"\r\n".contains($0) }) else { return text }
        return "\"" + text.replacing("\"", with: "\"\"") + "\""
    }
}

import Domain
import Foundation

/// Days as text and as JSON. Pure.
enum DayText {
    /// The canonical values alone, one a line: for many days at a glance.
    static func summary(_ days: [CalendarDay: CanonicalDay], _ style: TextStyle) -> [String] {
        var table = TextTable([.left("DAY"), .left("METRIC"), .right("VALUE"), .left("UNIT"), .left("FROM"), .left("")])
        for (day, canonical) in days.sorted(by: { $0.key < $1.key }) {
            var isFirst = true
            for metric in canonical.values.mask {
                guard let tenths = canonical.values[metric] else { continue }
                table.add([
                    isFirst ? day.description : "", metric.description, shown(tenths: tenths),
                    MetricLedger[metric].unit.description, canonical.winner(of: metric)?.shown ?? "",
                    isFirst && canonical.isFinal ? "final" : "",
                ])
                isFirst = false
            }
        }
        return table.lines(style)
    }

    /// One day with all candidates.
    static func explained(_ day: DayExplanation, _ style: TextStyle) -> [String] {
        var lines = [style.heading("\(day.day)") + (day.isFinal ? "  final" : "  not final yet")]
        var table = TextTable([
            .left("METRIC"), .right("VALUE"), .left("FROM"), .left("READ AT"), .left("DAY OVER"), .left("OUTCOME"),
        ])
        for value in day.values {
            var name = value.metric.description
            // The winner first, then the others as they stand.
            for candidate in value.candidates.sorted(by: { $0.fate == .won && $1.fate != .won }) {
                table.add([
                    name, shown(tenths: candidate.tenths), candidate.provenance.shown, moment(candidate.observedAt),
                    candidate.isClosed ? "yes" : "no", DayExplanation.words(candidate.fate),
                ])
                name = ""
            }
            if value.candidates.isEmpty { table.add([name, value.tenths.map(shown(tenths:)) ?? "", "", "", "", ""]) }
        }
        lines += table.lines(style, indent: 2)
        let rules = Dictionary(grouping: day.values.filter { $0.candidates.count > 1 }, by: \.rule)
        for (rule, values) in rules.sorted(by: { $0.value[0].metric.rawValue < $1.value[0].metric.rawValue }) {
            let names = values.map(\.metric.description).joined(separator: ", ")
            lines += wrap("\(names): \(rule).", width: HelpText.width, indent: 2)
        }
        for value in day.values where value.hasDrifted {
            let stored = value.tenths.map(shown(tenths:)) ?? "nothing"
            lines.append(
                style.bad(
                    "  \(value.metric): the canonical row says \(stored) from \(value.winner?.shown ?? "nobody"), "
                )
                    + "which is not what the rules make of these rows."
            )
        }
        return lines
    }

    /// `2026-09-02 21:14:05Z`: seconds are enough for people.
    static func moment(_ instant: Instant?) -> String {
        guard let text = instant?.description else { return "" }
        return text.prefix(10) + " " + text.dropFirst(11).prefix(8) + "Z"
    }

    static func json(user: UserID, _ days: [DayExplanation]) -> JSONDocument {
        .object([
            ("user", .string(user.description)),
            ("days", .array(days.map(json))),
        ])
    }

    private static func json(_ day: DayExplanation) -> JSONDocument {
        .object([
            ("date", .string(day.day.description)), ("final", .bool(day.isFinal)),
            ("rule_version", day.ruleVersion.map { .integer(Int($0)) } ?? .null),
            ("values", .array(day.values.map(json))),
        ])
    }

    private static func json(_ value: DayExplanation.Value) -> JSONDocument {
        .object([
            ("metric", .string(value.metric.description)),
            ("unit", .string(MetricLedger[value.metric].unit.description)),
            ("value", value.tenths.map { .tenths($0) } ?? .null),
            ("source", value.winner.map { .string($0.source.description) } ?? .null),
            ("origin", value.winner.map { .string($0.origin) } ?? .null),
            ("rule", .string(MetricLedger[value.metric].rule.rawValue)),
            ("order", .array(MetricLedger[value.metric].order.map { .string($0.description) })),
            ("pin", value.pin.map { .string($0.description) } ?? .null),
            ("drifted", .bool(value.hasDrifted)),
            (
                "candidates",
                .array(
                    value.candidates.map { candidate in
                        .object([
                            ("source", .string(candidate.provenance.source.description)),
                            ("origin", .string(candidate.provenance.origin)),
                            ("value", .tenths(candidate.tenths)), ("closed", .bool(candidate.isClosed)),
                            ("observed_at", candidate.observedAt.map { .string($0.description) } ?? .null),
                            ("outcome", .string(candidate.fate.code)),
                        ])
                    }
                )
            ),
        ])
    }
}

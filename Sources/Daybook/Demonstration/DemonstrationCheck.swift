import Domain
import Foundation

/// Compares what came of the demonstration with what had to. Pure.
struct DemonstrationCheck: Sendable {
    /// One thing that was looked at.
    struct Finding: Hashable, Sendable {
        let isRight: Bool
        let subject: String
        /// What was found, and what should have been where that differs.
        let detail: String
    }

    let demonstration: Demonstration

    /// Whether the canonical days say what they must; false also while records are still on their way.
    func isComplete(_ days: [CalendarDay: CanonicalDay]) -> Bool {
        figures(days).allSatisfy(\.isRight)
    }

    /// A finding for every expected figure, for every figure that nobody expected, and for `final`.
    func figures(_ days: [CalendarDay: CanonicalDay]) -> [Finding] {
        let expected = demonstration.figures.map { figure -> Finding in
            let wanted = "\(shown(tenths: figure.tenths)) from \(figure.source)"
            let found = value(figure.metric, days[figure.day])
            let isRight = found == wanted
            let subject = "\(figure.day) \(figure.metric)"
            guard !isRight else {
                return Finding(isRight: true, subject: subject, detail: "\(found): \(figure.reason)")
            }
            return Finding(isRight: false, subject: subject, detail: "\(found), must be \(wanted): \(figure.reason)")
        }
        let surplus = days.sorted { $0.key < $1.key }.flatMap { day, canonical in
            canonical.values.mask.compactMap { metric -> Finding? in
                let isExpected = demonstration.figures.contains { $0.day == day && $0.metric == metric }
                let detail = "\(value(metric, canonical)), must not be there"
                return isExpected ? nil : Finding(isRight: false, subject: "\(day) \(metric)", detail: detail)
            }
        }
        let finality = demonstration.finality.map { wanted -> Finding in
            let isFinal = days[wanted.day]?.isFinal ?? false
            let words = isFinal ? "final" : "not final yet"
            return Finding(
                isRight: isFinal == wanted.isFinal,
                subject: "\(wanted.day)",
                detail: isFinal == wanted.isFinal ? words : "\(words), must be \(wanted.isFinal ? "final" : "open")"
            )
        }
        return expected + surplus + finality
    }

    /// Whether the answer to a request is the one it had to be.
    func answer(_ step: Demonstration.Step, status: Int, body: Data) -> Finding {
        let subject = "POST: \(step.title)"
        guard status == 202 else {
            return Finding(isRight: false, subject: subject, detail: "status \(status), must be 202")
        }
        guard let answer = DaysAnswer(body) else {
            return Finding(isRight: false, subject: subject, detail: "the answer is not the JSON it should be")
        }
        let skipped = answer.skipped.map { "\($0.index).\($0.field ?? "")" }
        let errors = answer.errors.map(\.index)
        var wrong: [String] = []
        if answer.accepted != step.accepted { wrong.append("accepted \(answer.accepted), must be \(step.accepted)") }
        if skipped != step.skipped { wrong.append("skipped \(skipped), must be \(step.skipped)") }
        if errors != step.errors { wrong.append("errors at \(errors), must be at \(step.errors)") }
        return Finding(
            isRight: wrong.isEmpty,
            subject: subject,
            detail: wrong.isEmpty ? "202, accepted \(answer.accepted)" : wrong.joined(separator: "; ")
        )
    }

    private func value(_ metric: Metric, _ day: CanonicalDay?) -> String {
        guard let day, let tenths = day.values[metric] else { return "missing" }
        return "\(shown(tenths: tenths)) from \(day.winner(of: metric)?.source.description ?? "nobody")"
    }
}

/// The ingest's answer to posted days, as far as the tools look at it.
struct DaysAnswer: Decodable, Hashable, Sendable {
    struct Item: Decodable, Hashable, Sendable {
        let index: Int
        let field: String?
        let code: String?
    }

    let accepted: Int
    let skipped: [Item]
    let errors: [Item]

    init?(_ body: Data) {
        guard let decoded = try? JSONDecoder().decode(Self.self, from: body) else { return nil }
        self = decoded
    }
}

/// A problem document (RFC 9457), as far as the tools look at it.
struct ProblemAnswer: Decodable, Hashable, Sendable {
    let title: String?
    let code: String?
    let errors: [DaysAnswer.Item]?

    init?(_ body: Data) {
        guard let decoded = try? JSONDecoder().decode(Self.self, from: body) else { return nil }
        self = decoded
    }
}

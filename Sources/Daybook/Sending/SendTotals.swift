import DevelopmentStack
import Foundation

/// What came of many requests.
struct SendTotals: Sendable {
    private(set) var requests = 0
    private(set) var accepted = 0
    private(set) var skipped = 0
    private(set) var bytes = 0
    /// How often each refusal came: `422 all_items_bad`, or an item's code.
    private(set) var refusals: [String: Int] = [:]
    private(set) var itemErrors: [String: Int] = [:]
    private(set) var unreachable = 0
    private(set) var lastReason = ""
    private var milliseconds: [Double] = []

    var isFine: Bool { refusals.isEmpty && itemErrors.isEmpty && unreachable == 0 }

    mutating func add(_ result: Result<HTTPCall.Answer, HTTPCall.Failure>, bytes: Int, seconds: Double) {
        requests += 1
        self.bytes += bytes
        milliseconds.append(seconds * 1000)
        switch result {
        case .success(let answer):
            if (200..<300).contains(answer.status), let body = DaysAnswer(answer.body) {
                accepted += body.accepted
                skipped += body.skipped.count
                count(body.errors)
            } else {
                let problem = ProblemAnswer(answer.body)
                let code = problem?.code.map { " " + $0 } ?? ""
                refusals["\(answer.status)\(code)", default: 0] += 1
                count(problem?.errors ?? [])
            }
        case .failure(let failure):
            unreachable += 1
            switch failure {
            case .badURL: lastReason = "the URL can't be read"
            case .timedOut: lastReason = "no answer in time"
            case .unreachable(let reason): lastReason = reason
            }
        }
    }

    private mutating func count(_ items: [DaysAnswer.Item]) {
        for item in items {
            let field = item.field.map { "\($0) " } ?? ""
            itemErrors[field + (item.code ?? "refused"), default: 0] += 1
        }
    }

    func percentile(_ share: Double) -> Double {
        let sorted = milliseconds.sorted()
        guard !sorted.isEmpty else { return 0 }
        return sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }

    func text(seconds: Double, _ style: TextStyle) -> [String] {
        let rate = seconds > 0 ? Int(Double(requests) / seconds) : 0
        var lines = [
            "\(grouped(requests)) requests, \(grouped(accepted)) days accepted, \(grouped(skipped)) skipped",
            "\(grouped(bytes)) bytes in \(tenths(seconds)) s: \(grouped(rate)) requests/s; median "
                + "\(tenths(percentile(0.5))) ms, 95 % within \(tenths(percentile(0.95))) ms",
        ]
        for (code, count) in refusals.sorted(by: { $0.key < $1.key }) {
            lines.append(style.bad("refused: ") + "\(grouped(count)) × \(code)")
        }
        for (code, count) in itemErrors.sorted(by: { $0.key < $1.key }) {
            lines.append(style.warning("item error: ") + "\(grouped(count)) × \(code)")
        }
        if unreachable > 0 {
            lines.append(style.bad("no answer: ") + "\(grouped(unreachable)) requests (\(lastReason))")
        }
        return lines
    }

    func json(seconds: Double) -> JSONDocument {
        func counts(_ counts: [String: Int]) -> JSONDocument {
            .object(counts.sorted { $0.key < $1.key }.map { ($0.key, .integer($0.value)) })
        }
        return .object([
            ("requests", .integer(requests)), ("accepted", .integer(accepted)), ("skipped", .integer(skipped)),
            ("bytes", .integer(bytes)), ("seconds", .number(seconds)), ("refused", counts(refusals)),
            ("item_errors", counts(itemErrors)), ("unanswered", .integer(unreachable)),
            ("p50_ms", .number(percentile(0.5))), ("p95_ms", .number(percentile(0.95))),
        ])
    }
}

/// With one decimal, whatever the locale.
func tenths(_ value: Double) -> String {
    guard value.isFinite, abs(value) < 1e9 else { return "?" }
    let scaled = Int((value * 10).rounded())
    return "\(scaled < 0 ? "-" : "")\(abs(scaled) / 10).\(abs(scaled) % 10)"
}

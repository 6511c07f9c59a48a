import DevelopmentStack
import Foundation
import TestSupport

extension IngestUnderTest {
    /// Answers, as the service counted them, that its own description does not have: `STATUS at ROUTE`. Nil where it can't
    /// be asked any more.
    func undescribedAnswers() -> [String]? {
        guard process.isRunning, let metrics = try? admin("/metrics").text,
            let document = try? connect(seconds: 5).request("GET", "/openapi.json"), document.status == 200
        else { return nil }
        let root = AnswerBody(document.body).object
        let responses = (root["components"] as? [String: Any])?["responses"] as? [String: Any] ?? [:]
        let paths = root["paths"] as? [String: [String: [String: Any]]] ?? [:]
        func isDescribed(_ route: String, _ status: String) -> Bool {
            guard route != "none" else { return responses["Problem\(status)"] != nil }
            // Another method of a path is 405.
            let operations = paths[route]?.values.compactMap { $0["responses"] as? [String: Any] } ?? []
            return operations.contains { $0[status] != nil } || (status == "405" && !operations.isEmpty)
        }
        return metrics.matches(of: /daybook_ingest_requests_total\{route="([^"]*)",status="(\d+)"\} [1-9]/)
            .map { (String($0.output.1), String($0.output.2)) }
            .filter { !isDescribed($0, $1) }
            .map { "\($1) at \($0)" }
    }
}

import DevelopmentStack
import Domain
import Foundation
import Storage

/// Posts the demonstration through the public HTTP interface, waits until it is applied, and shows and checks what
/// came of it.
struct DemonstrationRun {
    let url: String
    let token: String
    let user: UserID
    let console: Console
    let reads: DayReads
    /// Waits a little and looks after the parts; throws when it is time to stop.
    let pause: () throws -> Void

    /// How long the workers may take, in seconds.
    private let limit = 60.0

    /// Whether every answer and every figure was what it had to be.
    func run(_ demonstration: Demonstration) throws -> Bool {
        let check = DemonstrationCheck(demonstration: demonstration)
        let style = console.out
        console.print()
        console.print(style.heading("Demonstration") + ": what phones post, for the new user \(user)")
        var findings: [DemonstrationCheck.Finding] = []
        for (number, step) in demonstration.steps.enumerated() {
            console.print()
            console.print("\(number + 1). \(step.title)")
            console.print("   POST /v1/days  " + step.summary)
            let answer = try post(step)
            console.print("   \(answer.status)  " + Self.shortened(answer.text))
            findings.append(check.answer(step, status: answer.status, body: answer.body))
        }
        let start = monotonicSeconds()
        var days = try canonicalDays(demonstration)
        while !check.isComplete(days), monotonicSeconds() - start < limit {
            try pause()
            days = try canonicalDays(demonstration)
        }
        console.print()
        console.print(
            style.heading("The canonical days in PostgreSQL")
                + ", \(tenths(monotonicSeconds() - start)) s after the last answer"
        )
        console.print()
        for line in DayText.summary(days, style) { console.print("  " + line) }
        console.print()
        findings += check.figures(days)
        return show(findings)
    }

    private func show(_ findings: [DemonstrationCheck.Finding]) -> Bool {
        let style = console.out
        console.print(style.heading("Checked"))
        for finding in findings {
            let mark = finding.isRight ? style.good("right") : style.bad("WRONG")
            console.print("  \(mark)  \(finding.subject): \(finding.detail)")
        }
        let wrong = findings.filter { !$0.isRight }
        if wrong.isEmpty {
            console.print(style.good("  all \(findings.count) answers and figures are what they had to be"))
        } else {
            console.print(
                style.bad("  \(wrong.count) of \(findings.count) are wrong: ")
                    + wrong.map(\.subject).joined(separator: ", ")
            )
        }
        return wrong.isEmpty
    }

    private func post(_ step: Demonstration.Step) throws -> HTTPCall.Answer {
        do throws(HTTPCall.Failure) {
            return try HTTPCall.days(url: url + "/v1/days", token: token, body: step.body).send()
        } catch {
            throw CommandFailure(
                .unavailable,
                "\(url) did not answer the demonstration's request (\(error))",
                next: "`daybook status` shows the parts and their logs."
            )
        }
    }

    private func canonicalDays(_ demonstration: Demonstration) throws -> [CalendarDay: CanonicalDay] {
        var days: [CalendarDay: CanonicalDay] = [:]
        for found in try reads.canonicalDays(of: user, demonstration.days) { days[found.key.day] = found.day }
        return days
    }

    /// In one line, and not longer than a line or two of a terminal.
    static func shortened(_ body: String) -> String {
        let line = body.split(whereSeparator: \.isNewline).joined(separator: " ")
        return line.count <= 200 ? line : line.prefix(199) + "…"
    }
}

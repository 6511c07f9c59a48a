import Configuration
import DevelopmentStack
import Domain
import Foundation
import Storage
import WakeRules

/// Makes a user stale, waits for the wake that reaches the stand-in, answers it as the phone would, and shows what the
/// answer changed.
struct WakeDemonstration {
    let url: String
    let token: String
    let user: UserID
    let brokers: String
    let configuration: ToolConfiguration
    /// A line of JSON for each request that reached the stand-in.
    let standInRecord: String
    let console: Console
    let reads: DayReads
    let reports: WakeReports
    let pause: () throws -> Void

    private static let limit = 60.0
    private static let staleHours = 30

    /// Whether all of it was as it had to be.
    func run(now: Instant) throws -> Bool {
        let style = console.out
        let today = now.day(secondsFromUTC: 0)
        console.print()
        console.print(style.heading("A wake") + ": the phone of the new user \(user) falls silent")
        console.print()
        let device = Self.newDeviceToken()
        let answer = try post("/v1/device-tokens", Self.registration(device))
        console.print("1. it registers for silent pushes")
        console.print("   POST /v1/device-tokens  \(answer.status)")
        try ArchivedRecord(
            user: user,
            receivedAt: now.advanced(bySeconds: -Self.staleHours * 3600),
            day: today,
            values: [.steps: 52_100]
        ).publish(brokers: brokers, configuration)
        console.print()
        console.print(
            "2. its last push is \(Self.staleHours) hours old (a record as an archive would publish it): steps 5,210"
        )
        var findings: [Finding] = [Finding("the token is taken", answer.status == 202)]

        let line = try waitFor("a wake reaches the stand-in") { pushLine(of: device) }
        console.print()
        console.print("3. the wake worker finds it and sends; what reached the stand-in for APNs:")
        for text in Self.described(line) { console.print("   " + text) }
        findings.append(Finding("a background push with priority 5", Self.isBackground(line)))

        let body = #"{"source":"apple_health","time_zone":"UTC","days":[{"date":"\#(today)","steps":8034}]}"#
        let pushed = try post("/v1/days", body)
        console.print()
        console.print("4. the phone answers: POST /v1/days  apple_health {steps 8034}  \(pushed.status)")
        let wake = try waitFor("the answer is applied") {
            try reports.wakes(of: user, limit: 1).first.flatMap { $0.answeredAt == nil || $0.outcome == nil ? nil : $0 }
        }
        let steps = try reads.canonicalDays(of: user, today...today).first?.day.values[.steps]
        let seconds = Double((wake.answeredAt?.microseconds ?? 0) - wake.wakeAt.microseconds) / 1_000_000
        console.print(
            "   woken \(wake.wakeAt.short), \(wake.outcome ?? "open"), answered after \(tenths(seconds)) s, "
                + (wake.broughtData == true
                    ? "with new data: steps 5,210 → \(shown(tenths: steps ?? 0))" : "no new data")
        )
        findings.append(
            Finding("accepted, answered, with new data", wake.outcome == "accepted" && wake.broughtData == true)
        )
        findings.append(Finding("the day has 8,034 steps", steps == 80_340))
        // Whoever has just pushed is not woken again.
        let wakes = try reports.wakes(of: user, limit: 10)
        findings.append(Finding("woken once", wakes.count == 1))
        console.print()
        for finding in findings {
            console.print("  \(finding.isRight ? style.good("right") : style.bad("WRONG"))  \(finding.what)")
        }
        return findings.allSatisfy(\.isRight)
    }

    private struct Finding {
        let what: String
        let isRight: Bool

        init(_ what: String, _ isRight: Bool) {
            self.what = what
            self.isRight = isRight
        }
    }

    private func waitFor<Value>(_ what: String, _ look: () throws -> Value?) throws -> Value {
        let start = monotonicSeconds()
        while monotonicSeconds() - start < Self.limit {
            if let found = try look() { return found }
            try pause()
        }
        throw CommandFailure(
            .failure,
            "waited in vain until \(what), for \(Int(Self.limit)) s",
            next: "`daybook wake explain \(user)` says why; the logs of aggregator and wake say more."
        )
    }

    private func post(_ path: String, _ body: String) throws -> HTTPCall.Answer {
        do throws(HTTPCall.Failure) {
            return try HTTPCall.days(url: url + path, token: token, body: body).send()
        } catch {
            throw CommandFailure(
                .unavailable,
                "\(url) did not answer the demonstration's request (\(error))",
                next: "`daybook status` shows the parts and their logs."
            )
        }
    }

    private func pushLine(of device: String) -> String? {
        guard let data = FileManager.default.contents(atPath: standInRecord) else { return nil }
        return String(decoding: data, as: UTF8.self).split(separator: "\n").first { $0.contains(device) }
            .map(String.init)
    }

    // MARK: Pieces

    /// As Apple's look; nobody has it.
    static func newDeviceToken() -> String {
        (0..<32).map { _ in
            let byte = UInt8.random(in: 0...255)
            return (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }

    private static func registration(_ device: String) -> String {
        #"{"token":"\#(device)","platform":"ios","environment":"sandbox","app_id":"com.example.daybook","#
            + #""app_version":"4.2.0","time_zone":"UTC"}"#
    }

    /// The request in two lines; the token shortened.
    private static func described(_ line: String) -> [String] {
        guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] else {
            return [line]
        }
        let headers = object["headers"] as? [String: String] ?? [:]
        let path = (headers[":path"] ?? "").prefix(22)
        let pairs = headers.filter { $0.key.hasPrefix("apns-") }.sorted { $0.key < $1.key }
        return [
            "POST \(path)…  " + pairs.map { "\($0.key): \($0.value)" }.joined(separator: ", "),
            "\(object["body"] as? String ?? "")  \(object["status"] ?? "")",
        ]
    }

    private static func isBackground(_ line: String) -> Bool {
        line.contains("apns-push-type") && line.contains("background") && line.contains("apns-priority")
            && line.contains("content-available")
    }
}

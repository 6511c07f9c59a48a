import Domain
import Observability
import Push
import ServiceRuntime
import Storage
import Testing
import WakeRules

@testable import WakeWorker

@Suite struct `What a wake's pushes come to` {
    private let now = Instant(microseconds: 1_780_000_000_000_000)

    private func token(_ number: UInt8) -> WakeToken {
        WakeToken(
            user: UserID(high: 0, low: 1),
            hash: DeviceTokenHash(InlineArray(repeating: number)),
            registration: DeviceRegistration(token: "t0ken", platform: .ios, appID: "com.example"),
            registered: Version(rawValue: 1)
        )
    }

    private func end(_ outcomes: [PushOutcome]) -> WakeEnd {
        let tokens = (0..<outcomes.count).map { token(UInt8($0)) }
        let claim = WakeClaim(user: UserID(high: 0, low: 1), wakeAt: 1, number: 1, tokens: tokens)
        var tally = WakeTally(claim)
        for (index, outcome) in outcomes.enumerated() {
            let isLast = tally.take(outcome, of: tokens[index])
            #expect(isLast == (index == outcomes.count - 1))
        }
        return tally.end(now: now)
    }

    @Test func `one phone that was reached is a wake; one that may have been is unknown`() {
        #expect(end([.refused(retryAfter: nil), .accepted, .unknown]).kind == .accepted)
        #expect(end([.deactivate(.unregistered, asOf: now), .unknown]).kind == .unknown)
        #expect(end([.waitsForSpacing, .refused(retryAfter: nil)]).kind == .waits)
    }

    @Test func `W4: a token that was registered after the server called it dead waits for the spacing`() {
        // The tokens here were registered at the beginning of time.
        let before = Version(rawValue: 1).instant.advanced(bySeconds: -1)
        #expect(end([.deactivate(.unregistered, asOf: before)]).kind == .waits)
        #expect(end([.deactivate(.unregistered, asOf: before), .refused(retryAfter: nil)]).kind == .waits)
        #expect(end([.deactivate(.unregistered, asOf: before), .accepted]).kind == .accepted)
    }

    @Test func `W6: what was not processed is not spent, and Retry-After is honoured`() {
        func retrySeconds(_ outcomes: [PushOutcome]) -> Int? {
            guard case .notSpent(let retryAt) = end(outcomes).kind else { return nil }
            return Int((retryAt - now.microseconds) / 1_000_000)
        }
        #expect(retrySeconds([.refused(retryAfter: .seconds(1800))]) == 1800)
        #expect(retrySeconds([.refused(retryAfter: .seconds(1))]) == 60)
        #expect(retrySeconds([.refused(retryAfter: nil)]) == 900)
        #expect(retrySeconds([.deactivate(.unregistered, asOf: now)]) == 0)
        #expect(retrySeconds([.held(.badDeviceToken)]) == 14_400)
        #expect(retrySeconds([.notSent(.leaseEnded)]) == 0)
        #expect(retrySeconds([.notSent(.credentialPaused(until: now.advanced(bySeconds: 1200)))]) == 1200)
        // A dead one says nothing of the other one's time.
        #expect(retrySeconds([.deactivate(.unregistered, asOf: now), .refused(retryAfter: .seconds(1800))]) == 1800)
        #expect(retrySeconds([.refused(retryAfter: .seconds(1800)), .notSent(.malformedToken)]) == 1800)
        #expect(retrySeconds([.notSent(.credentialPaused(until: Instant(microseconds: .min)))]) == 1)
        // The sooner of two.
        #expect(retrySeconds([.failed(.requestRefused), .notSent(.notConfigured)]) == 900)
        #expect(end([.failed(.requestRefused)]).outcome == "failed")
    }

    @Test func `dead tokens come with the time that the server names`() {
        let claim = WakeClaim(
            user: UserID(high: 0, low: 1),
            wakeAt: 1,
            number: 1,
            tokens: [token(1), token(2), token(3)]
        )
        var tally = WakeTally(claim)
        let asOf = now.advanced(bySeconds: -60)
        _ = tally.take(.deactivate(.expiredToken, asOf: asOf), of: token(1))
        _ = tally.take(.held(.badDeviceToken), of: token(2))
        _ = tally.take(.notSent(.malformedToken), of: token(3))
        let dead = tally.dead(now: now)
        #expect(dead.map(\.token.hash) == [token(1).hash, token(3).hash] && dead.map(\.asOf) == [asOf, now])
    }

    @Test func `what was never sent is known by its outcome, each of them`() {
        let causes: [PushOutcome.Cause] = [
            .leaseEnded, .stopped(.clock), .credentialPaused(until: now), .noCredential, .malformedToken,
            .notConfigured, .shuttingDown,
        ]
        let unsent =
            causes.map { end([.notSent($0)]).outcome } + [end([]).outcome, end([.refused(retryAfter: nil)]).outcome]
        #expect(Set(unsent) == Set(WakeReports.unsentOutcomes))
        let taken: [PushOutcome] = [
            .accepted, .unknown, .waitsForSpacing, .failed(.requestRefused), .held(.badDeviceToken),
            .deactivate(.unregistered, asOf: now),
        ]
        for outcome in taken { #expect(!WakeReports.unsentOutcomes.contains(end([outcome]).outcome)) }
    }

    @Test func `how wakes were answered is no figure where none was accepted, and none that is old`() {
        let time = ManualTime()
        let figures = AnswerFigures(time: time)
        let registry = MetricsRegistry()
        figures.register(in: registry)
        func shown() -> Int {
            let text = String(decoding: registry.renderPrometheusText(), as: UTF8.self)
            return text.split(separator: "\n").count { !$0.hasPrefix("#") && $0.contains("answer") }
        }
        #expect(shown() == 0)
        figures.set(WakeReports.Answers(share: 0.5, minutes: ["0.5": 3, "0.9": 9]))
        #expect(shown() == 3)
        time.advance(milliseconds: 899_000)
        #expect(shown() == 3)
        time.advance(milliseconds: 2000)
        #expect(shown() == 0)
        figures.set(WakeReports.Answers(share: 0, minutes: [:]))
        #expect(shown() == 1)
        figures.set(WakeReports.Answers(share: nil, minutes: [:]))
        #expect(shown() == 0)
    }

    @Test func `the metrics are declared as Prometheus wants them`() {
        for metric in WakeMetric.all { #expect(metric.problems.isEmpty, "\(metric.problems)") }
        #expect(Set(WakeMetric.all.map(\.name.description)).count == WakeMetric.all.count)
    }
}

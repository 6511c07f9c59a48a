import Domain
import PushStandIn
import Testing

@testable import Push

/// Every row of the reply table, from the sender's call to what the server saw.
@Suite struct APNsTableTests {
    private typealias Reply = StandInScript.Reply

    @Test func `200 is accepted`() throws {
        let scene = try Scene()
        #expect(scene.outcome(1) == .accepted)
        #expect(PushOutcome.accepted.countsForSpacing && PushOutcome.accepted.expectsAnswer)
    }

    @Test(arguments: [
        ("BadDeviceToken", PushReason.badDeviceToken), ("DeviceTokenNotForTopic", .deviceTokenNotForTopic),
    ])
    func `a bad token is held behind the breaker, and let go once 20 answers show that it is the token's fault`(
        name: String,
        reason: PushReason
    ) throws {
        let bad = Scene.token(1)
        let scene = try Scene(StandInScript(tokens: [bad: [Reply(400, name)]]))
        #expect(scene.outcome(1, token: bad) == .held(reason))
        for id in 2...19 { #expect(scene.outcome(id) == .accepted) }
        #expect(scene.collector.released.isEmpty)
        #expect(scene.outcome(20) == .accepted)
        #expect(scene.collector.wait(released: 1))
        let released = try #require(scene.collector.released.first)
        #expect(released.id == 1 && released.reason == reason && released.token == PushToken(bad))
        #expect(scene.sender.stops.isEmpty)
    }

    /// Case W5.
    @Test func `when every token is bad, with 100 streams in flight, the breaker stops and no token is deactivated`()
        throws
    {
        var bad = Reply(400, "BadDeviceToken")
        bad.gate = 100
        bad.times = 100
        var options = PushStandIn.Options()
        options.mostStreams = 100
        let script = StandInScript(others: [Reply(200), bad, Reply(400, "BadDeviceToken")])
        let scene = try Scene(script, options: options)
        // The first one succeeds, so that the burst begins.
        #expect(scene.outcome(1) == .accepted)
        for id in 2...400 { #expect(scene.send(id)) }
        #expect(scene.collector.wait(ended: 400))
        // 100 were in flight when the first bad answer came; the burst refills as answers come in, until it trips at
        // the 20th.
        #expect((101...120).contains(scene.standIn.received.count))
        #expect(scene.collector.released.isEmpty)
        #expect(scene.collector.alarms.map(\.code) == [.tooManyBadTokens])
        #expect(scene.sender.stops.first?.topic == Scene.topic)
        for (_, outcomes) in scene.collector.outcomes {
            #expect(outcomes.count == 1)
            for outcome in outcomes { if case .deactivate = outcome { Issue.record("a token was deactivated") } }
        }
        #expect(scene.outcome(500) == .notSent(.stopped(.tooManyBadTokens)))
        // Another topic goes on.
        scene.standIn.use(StandInScript())
        #expect(scene.outcome(501, appID: "app.example.other") == .accepted)
        scene.sender.resume()
        #expect(scene.outcome(502) == .accepted)
    }

    @Test(arguments: [
        (400, "BadCollapseId" as String?, PushAlarm.Code.requestRefused), (400, "PayloadEmpty", .requestRefused),
        (400, "SomethingNew", .requestRefused), (400, nil, .requestRefused), (404, "BadPath", .requestRefused),
        (405, "MethodNotAllowed", .requestRefused), (413, "PayloadTooLarge", .requestRefused),
        (403, "InvalidProviderToken", .credentialRefused), (403, "Forbidden", .credentialRefused),
        (403, "SomethingNew", .credentialRefused), (403, nil, .credentialRefused), (418, nil, .requestRefused),
        (301, nil, .requestRefused),
    ])
    func `what is our mistake stops the lane with an alarm: no retry, no pruning`(
        status: Int,
        reason: String?,
        code: PushAlarm.Code
    ) throws {
        let scene = try Scene(StandInScript(others: [Reply(status, reason)]))
        #expect(scene.outcome(1) == .failed(code))
        #expect(scene.outcome(2) == .notSent(.stopped(code)))
        #expect(scene.collector.alarms == [PushAlarm(code, lane: .production, stops: true)])
        #expect(scene.standIn.received.count == 1)
        // The other lane is none of it.
        scene.standIn.use(StandInScript())
        #expect(scene.outcome(3, lane: .sandbox) == .accepted)
        scene.sender.resume()
        #expect(scene.outcome(4) == .accepted)
        #expect(!PushOutcome.failed(code).countsForSpacing)
    }

    @Test(arguments: ["TopicDisallowed", "BadTopic", "MissingTopic"])
    func `a refused topic stops that topic alone`(reason: String) throws {
        let bad = Scene.token(1)
        let scene = try Scene(StandInScript(tokens: [bad: [Reply(400, reason)]]))
        #expect(scene.outcome(1, token: bad, appID: "app.example.other") == .failed(.topicRefused))
        #expect(scene.outcome(2, appID: "app.example.other") == .notSent(.stopped(.topicRefused)))
        #expect(scene.outcome(3) == .accepted)
    }

    @Test func `400 IdleTimeout is tried once more, on a fresh connection`() throws {
        let token = Scene.token(1)
        let scene = try Scene(StandInScript(tokens: [token: [Reply(400, "IdleTimeout"), Reply()]]))
        #expect(scene.outcome(1, token: token) == .accepted)
        #expect(scene.pushConnections == 2)
        let stubborn = try Scene(StandInScript(tokens: [token: [Reply(400, "IdleTimeout")]]))
        #expect(stubborn.outcome(1, token: token) == .refused(retryAfter: nil))
        #expect(stubborn.standIn.received.count == 2)
    }

    /// Case W4.
    @Test(arguments: [
        ("Unregistered", PushReason.unregistered), ("ExpiredToken", .expiredToken), ("New", .unregistered),
    ])
    func `410 deactivates registrations older than the reply's timestamp`(name: String, reason: PushReason) throws {
        let at = Scene.now.advanced(bySeconds: -86_400)
        let reply = Reply(410, name).with { $0.timestamp = at.microseconds / 1000 }
        let scene = try Scene(StandInScript(others: [reply]))
        #expect(scene.outcome(1) == .deactivate(reason, asOf: at))
        #expect(scene.sender.stops.isEmpty && scene.collector.released.isEmpty)
    }

    @Test func `410 never deactivates what is registered later than now, nor anything without a time`() throws {
        let future = Reply(410, "Unregistered").with { $0.timestamp = 9_999_999_999_999 }
        let scene = try Scene(StandInScript(others: [future, Reply(410, "Unregistered"), Reply(410)]))
        guard case .deactivate(.unregistered, let asOf)? = scene.outcome(1) else {
            Issue.record("not deactivated")
            return
        }
        #expect(asOf <= Instant(microseconds: scene.time.wallMicroseconds()))
        #expect(scene.outcome(2) == .waitsForSpacing)
        #expect(scene.outcome(3) == .waitsForSpacing)
    }

    @Test func `429 TooManyRequests makes this token wait for its next spacing`() throws {
        let scene = try Scene(StandInScript(others: [Reply(429, "TooManyRequests"), Reply(429), Reply()]))
        #expect(scene.outcome(1) == .waitsForSpacing)
        #expect(scene.outcome(2) == .waitsForSpacing)
        #expect(scene.outcome(3) == .accepted)
        #expect(!PushOutcome.waitsForSpacing.expectsAnswer)
        #expect(scene.standIn.received.count == 3)
    }

    /// Case W6.
    @Test(arguments: [500, 503, 599])
    func `5xx is tried three times with back-off and is not spent`(status: Int) throws {
        let time = PhaseTime(speed: 50)
        let scene = try Scene(StandInScript(others: [Reply(status, "InternalServerError")]), time: time)
        guard case .refused? = scene.outcome(1) else {
            Issue.record("not refused")
            return
        }
        #expect(scene.standIn.received.count == 3)
        #expect(!PushOutcome.refused(retryAfter: nil).countsForSpacing)
        scene.standIn.use(StandInScript(others: [Reply(status), Reply()]))
        #expect(scene.outcome(2) == .accepted)
    }

    @Test func `503 Shutdown is tried again on a fresh connection`() throws {
        let time = PhaseTime(speed: 50)
        let scene = try Scene(StandInScript(others: [Reply(503, "Shutdown"), Reply()]), time: time)
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.pushConnections == 2)
    }

    /// Case W6.
    @Test func `Retry-After is waited for, and a long one is handed back`() throws {
        let time = PhaseTime(speed: 50)
        let short = Reply(503).with { $0.retryAfter = "10" }
        let scene = try Scene(StandInScript(others: [short, Reply()]), time: time)
        let before = time.monotonicNanoseconds()
        #expect(scene.outcome(1) == .accepted)
        #expect(time.monotonicNanoseconds() - before >= 10_000_000_000)
        let long = Reply(503).with { $0.retryAfter = "900" }
        scene.standIn.use(StandInScript(others: [long, Reply()]))
        guard case .refused(let wait?)? = scene.outcome(2) else {
            Issue.record("not refused")
            return
        }
        #expect(wait >= .seconds(900) && wait <= .seconds(901))
        // Whoever comes meanwhile is told so at once.
        guard case .refused(let left?)? = scene.outcome(3) else {
            Issue.record("not refused")
            return
        }
        #expect(left <= .seconds(900) && left > .seconds(30))
        #expect(scene.standIn.received.count == 3)
    }

    /// Case W9.
    @Test(arguments: ["", "not json", "{", #"{"reason":5}"#, #"{"reason":null}"#, "\u{0}", "[[[[[[[[[[[[", #""text""#])
    func `a reply that is not JSON is handled by its class`(body: String) throws {
        let time = PhaseTime(speed: 50)
        let replies = [200, 429, 410, 503, 503, 503, 400].map { status in Reply(status).with { $0.body = body } }
        let scene = try Scene(StandInScript(others: replies), time: time)
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.outcome(2) == .waitsForSpacing)
        #expect(scene.outcome(3) == .waitsForSpacing)
        guard case .refused? = scene.outcome(4) else {
            Issue.record("not refused")
            return
        }
        #expect(scene.outcome(5) == .failed(.requestRefused))
    }
}

import Domain
import Foundation
import Postgres
import PushStandIn
import Storage
import TestSupport
import Testing

/// The built wake worker with a service account, against a stand-in for Google: the token server, the request, and each
/// row of the table of replies, as far as to what stands in the database afterwards.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `Android phones` {
    private typealias Reply = StandInScript.Reply

    private func isLive(_ test: WakeWorkerUnderTest, _ number: Int) throws -> Bool {
        try test.count("live_device_tokens WHERE user_id = '\(WakeUsers.user(number))'") == 1
    }

    private func outcomes(_ test: WakeWorkerUnderTest, _ numbers: Range<Int>) throws -> [String?] {
        try numbers.map { try test.wakes($0).first?.outcome }
    }

    @Test func `a wake goes to Google under an access token, and each answer has its consequence`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<7)
        let tokens = try test.makeAndroid()
        test.standIn.use(
            StandInScript(tokens: [
                tokens[1]: [Reply.google(404, "NOT_FOUND", code: "UNREGISTERED")],
                tokens[2]: [Reply.google(400, "INVALID_ARGUMENT", code: "INVALID_ARGUMENT", field: "message.token")],
                tokens[3]: [Reply.google(403, "PERMISSION_DENIED", code: "SENDER_ID_MISMATCH")],
                tokens[4]: [Reply.google(retry: 503, after: "1"), Reply()],
                tokens[5]: [Reply.google(retry: 429, after: "1"), Reply()],
                tokens[6]: [Reply.google(401, "UNAUTHENTICATED"), Reply()],
            ])
        )
        let worker = try test.start(try test.google())
        try test.waitForEnds(7, of: worker)
        // What a dead token leads to is written down, too.
        try Eventually.holds("the users without a token are parked") {
            try test.schedule(1).dueAt == .max && test.schedule(2).dueAt == .max
        }
        #expect(try worker.stop() == 0, "\(worker.output)")

        let accepted = "accepted"
        #expect(
            try outcomes(test, 0..<7) == [
                accepted, "unregistered", "invalid_registration", "sender_id_mismatch", accepted, accepted, accepted,
            ]
        )
        for number in 0..<7 {
            #expect(try isLive(test, number) == ![1, 2].contains(number), "\(number)")
            let schedule = try test.schedule(number)
            let isWake = try test.wakes(number).first?.outcome == accepted
            #expect(schedule.unanswered == (isWake ? 1 : 0), "\(number)")
            #expect((schedule.lastWakeAt > 0) == isWake, "\(number)")
        }
        // Refusals and the token that was called expired were tried once more, all others once.
        let tries = tokens.map { token in test.standIn.received.count { $0.token == token } }
        #expect(tries == [1, 1, 1, 1, 2, 2, 2])

        let request = try #require(test.standIn.received.first { $0.token == tokens[0] })
        #expect(request.header(":method") == "POST")
        #expect(request.header(":path") == "/v1/projects/daybook-test/messages:send")
        #expect(test.standIn.received.allSatisfy { $0.header("authorization") == "bearer stand-in" })
        let body = try #require(try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
        let message = try #require(body["message"] as? [String: Any])
        let android = try #require(message["android"] as? [String: Any])
        #expect(message["token"] as? String == tokens[0] && message["notification"] == nil)
        #expect(message["data"] as? [String: String] == ["kind": "wake"])
        #expect(android["priority"] as? String == "NORMAL" && android["collapse_key"] as? String == "wake")
        let ttl = try #require((android["ttl"] as? String).flatMap { Int($0.dropLast()) })
        #expect((4 * 3600 - 60...4 * 3600).contains(ttl))
        for secret in tokens + ["bearer", "PRIVATE KEY"] { #expect(!worker.output.contains(secret)) }
    }

    @Test(arguments: [429, 503])
    func `a long Retry-After is not spent: all of the lane is looked at again behind it`(status: Int) throws {
        let test = try WakeWorkerUnderTest(StandInScript(others: [Reply.google(retry: status, after: "1800")]))
        try test.addStale(0..<3)
        _ = try test.makeAndroid()
        let worker = try test.start(try test.google())
        try test.waitForEnds(3, of: worker)
        #expect(try worker.stop() == 0, "\(worker.output)")
        #expect(try outcomes(test, 0..<3) == ["refused", "refused", "refused"])
        // The first one alone asked.
        #expect(test.standIn.received.count == 1)
        for number in 0..<3 {
            let schedule = try test.schedule(number)
            #expect(schedule.lastWakeAt == 0 && schedule.unanswered == 0)
            let minutes = (schedule.dueAt - WakeWorkerUnderTest.now.microseconds) / 60_000_000
            #expect((28...30).contains(minutes), "\(minutes)")
        }
    }

    @Test(arguments: [
        (StandInScript.Reply.google(404, "NOT_FOUND"), "topic_refused"),
        (StandInScript.Reply.google(403, "PERMISSION_DENIED"), "credential_refused"),
        (StandInScript.Reply.google(400, "INVALID_ARGUMENT", field: "message.android.ttl"), "request_refused"),
    ])
    func `what is our fault stops the lane for all workers, and no token dies of it`(
        reply: StandInScript.Reply,
        code: String
    ) throws {
        let test = try WakeWorkerUnderTest(StandInScript(others: [reply]))
        try test.addStale(0..<20)
        _ = try test.makeAndroid()
        let worker = try test.start(try test.google())
        try test.waitForEnds(20, of: worker)
        #expect(try worker.stop() == 0, "\(worker.output)")
        #expect(try test.count("push_stops WHERE lane = 'fcm' AND topic = '' AND code = '\(code)'") == 1)
        #expect(test.standIn.received.count == 1)
        #expect(try test.count("live_device_tokens") == 20)
        #expect(try test.count("wake_schedule WHERE unanswered > 0 OR last_wake_at > 0") == 0)
    }

    @Test func `a token server that gives no token: nobody is woken or struck`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<2)
        _ = try test.makeAndroid()
        var settings = try test.google()
        // The stand-in answers pushes there, with no access token.
        settings["DAYBOOK_FCM_TOKEN_URL"] = "https://localhost:\(test.standIn.port)/elsewhere"
        let worker = try test.start(settings)
        try test.waitForEnds(2, of: worker)
        #expect(try worker.stop() == 0, "\(worker.output)")
        #expect(try outcomes(test, 0..<2) == ["no_credential", "no_credential"])
        #expect(try test.count("wake_schedule WHERE unanswered > 0 OR last_wake_at > 0") == 0)
        #expect(test.standIn.received.allSatisfy { $0.header(":path") == "/elsewhere" })
    }
}

extension StandInScript.Reply {
    /// As Google words an error: its canonical code, and the details that FCM adds.
    fileprivate static func google(
        _ status: Int,
        _ canonical: String,
        code: String? = nil,
        field: String? = nil
    ) -> Self {
        var details: [String] = []
        if let code {
            details.append(#"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(code)"}"#)
        }
        if let field {
            let violation = #"[{"field":"\#(field)","description":"m"}]"#
            details.append(#"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":\#(violation)}"#)
        }
        let list = details.joined(separator: ",")
        let body = #"{"error":{"code":\#(status),"message":"m","status":"\#(canonical)","details":[\#(list)]}}"#
        return Self(status).with { $0.body = body }
    }

    fileprivate static func google(retry status: Int, after seconds: String) -> Self {
        google(status, status == 429 ? "RESOURCE_EXHAUSTED" : "UNAVAILABLE").with { $0.retryAfter = seconds }
    }
}

extension WakeWorkerUnderTest {
    private static let rsa = DevelopmentKeys.rsa() ?? []

    /// Makes all phones Android ones, with tokens as Google gives them out. In the order of the users' numbers.
    fileprivate func makeAndroid() throws -> [String] {
        try connection.simpleQuery(
            """
            UPDATE device_tokens SET platform = 'android',
                token = 'fcm_' || substr(token, 1, 20) || ':APA91b-' || token,
                token_hash = sha256(('fcm_' || substr(token, 1, 20) || ':APA91b-' || token)::bytea)
            """
        )
        return try WakeUsers.tokens(of: connection).sorted { $0.key < $1.key }.map(\.value)
    }

    /// A service account whose token server is the stand-in; no key of Apple's.
    fileprivate func google() throws -> [String: String] {
        let account: [String: String] = [
            "type": "service_account", "project_id": "daybook-test", "private_key_id": "key-1",
            "private_key": String(decoding: Self.rsa, as: UTF8.self),
            "client_email": "daybook@daybook-test.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.example/token",
        ]
        let file = folder + "/service-account.json"
        try JSONSerialization.data(withJSONObject: account).write(to: URL(fileURLWithPath: file))
        return [
            "DAYBOOK_FCM_SERVICE_ACCOUNT_FILE": file, "DAYBOOK_FCM_HOST": "localhost:\(standIn.port)",
            "DAYBOOK_FCM_TOKEN_URL": "https://localhost:\(standIn.port)/token",
        ]
    }
}

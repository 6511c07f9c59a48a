import Domain
import Foundation
import PushStandIn
import Testing

@testable import Push

/// FCM v1: the request, and every row of its table.
@Suite struct FCMTableTests {
    private typealias Reply = StandInScript.Reply

    private static func reply(_ status: Int, _ canonical: String, code: String? = nil, field: String? = nil) -> Reply {
        var details: [[String: Any]] = []
        if let code {
            details.append(["@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code])
        }
        if let field {
            details.append([
                "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [["field": field]],
            ])
        }
        let error: [String: Any] = ["code": status, "status": canonical, "message": "m", "details": details]
        let body = (try? JSONSerialization.data(withJSONObject: ["error": error])) ?? Data()
        return Reply(status).with { $0.body = String(decoding: body, as: UTF8.self) }
    }

    @Test func `a wake is data only, of normal priority, under an access token from the token server`() throws {
        let scene = try Scene()
        #expect(scene.outcome(1, token: "abc:DEF-_1", lane: .fcm) == .accepted)
        let request = try #require(scene.standIn.received.first)
        #expect(request.header(":method") == "POST")
        #expect(request.header(":path") == "/v1/projects/daybook-test/messages:send")
        #expect(request.header(":authority") == "localhost:\(scene.standIn.port)")
        #expect(request.header("content-type") == "application/json")
        #expect(request.header("authorization") == "bearer stand-in")
        let body = String(decoding: request.body, as: UTF8.self)
        // The expiration is four hours after the scene's beginning, of which some milliseconds are gone.
        #expect(
            body == #"{"message":{"token":"abc:DEF-_1","data":{"kind":"wake"},"android":"#
                + #"{"priority":"NORMAL","ttl":"14399s","collapse_key":"wake"}}}"#
        )
    }

    @Test func `404 UNREGISTERED deactivates what was registered before the send`() throws {
        let scene = try Scene(StandInScript(others: [Self.reply(404, "NOT_FOUND", code: "UNREGISTERED")]))
        guard case .deactivate(.unregistered, let asOf)? = scene.outcome(1, lane: .fcm) else {
            Issue.record("not deactivated")
            return
        }
        #expect(asOf >= Scene.now && asOf <= Instant(microseconds: scene.time.wallMicroseconds()))
    }

    @Test func `a 404 without FcmError is configuration`() throws {
        let scene = try Scene(StandInScript(others: [Self.reply(404, "NOT_FOUND")]))
        #expect(scene.outcome(1, lane: .fcm) == .failed(.topicRefused))
        #expect(scene.outcome(2, lane: .fcm) == .notSent(.stopped(.topicRefused)))
        #expect(scene.standIn.received.count == 1)
    }

    @Test func `400 is our bug, unless it names the registration token as not valid`() throws {
        let blamed = Self.reply(400, "INVALID_ARGUMENT", code: "INVALID_ARGUMENT", field: "message.token")
        let scene = try Scene(
            StandInScript(others: [blamed, Self.reply(400, "INVALID_ARGUMENT", field: "message.android.ttl")])
        )
        guard case .deactivate(.invalidRegistration, _)? = scene.outcome(1, lane: .fcm) else {
            Issue.record("not deactivated")
            return
        }
        #expect(scene.outcome(2, lane: .fcm) == .failed(.requestRefused))
    }

    @Test func `403 SENDER_ID_MISMATCH stands behind the breaker, others are the credential`() throws {
        let mismatch = Self.reply(403, "PERMISSION_DENIED", code: "SENDER_ID_MISMATCH")
        let scene = try Scene(StandInScript(others: [mismatch, Self.reply(403, "PERMISSION_DENIED")]))
        #expect(scene.outcome(1, lane: .fcm) == .held(.senderIDMismatch))
        #expect(scene.outcome(2, lane: .fcm) == .failed(.credentialRefused))
        #expect(scene.collector.released.isEmpty)
    }

    @Test func `401 renews the access token once`() throws {
        let scene = try Scene(StandInScript(others: [Reply(401), Reply(), Reply(401)]))
        #expect(scene.outcome(1, lane: .fcm) == .accepted)
        #expect(scene.outcome(2, lane: .fcm) == .failed(.credentialRefused))
        #expect(scene.standIn.received.count == 4)
    }

    @Test(arguments: [429, 500, 503])
    func `429, 500 and 503 are tried again after Retry-After, and are not spent`(status: Int) throws {
        let time = PhaseTime(speed: 50)
        let short = Reply(status).with { $0.retryAfter = "3" }
        let scene = try Scene(StandInScript(others: [short, Reply()]), time: time)
        let before = time.monotonicNanoseconds()
        #expect(scene.outcome(1, lane: .fcm) == .accepted)
        #expect(time.monotonicNanoseconds() - before >= 3_000_000_000)
        scene.standIn.use(StandInScript(others: [Reply(status)]))
        guard case .refused? = scene.outcome(2, lane: .fcm) else {
            Issue.record("not refused")
            return
        }
        #expect(scene.standIn.received.count == 5)
    }

    @Test func `an Android token that can't be one is not sent`() throws {
        let scene = try Scene()
        for (id, token) in ["", "a b", "a\"b", "a\nb", String(repeating: "x", count: 5000)].enumerated() {
            #expect(scene.outcome(id, token: token, lane: .fcm) == .notSent(.malformedToken))
        }
        #expect(scene.standIn.received.isEmpty)
    }

    @Test func `without a service account nothing goes to Google`() throws {
        let scene = try Scene { configuration, _ in configuration.fcm = nil }
        #expect(scene.outcome(1, lane: .fcm) == .notSent(.notConfigured))
        #expect(scene.outcome(2) == .accepted)
    }

    @Test(arguments: [
        "{}", "[]", "", #"{"project_id":"a/b","client_email":"x","private_key":"y"}"#,
        #"{"project_id":"ab","client_email":"x","private_key":"no key","token_uri":"https://localhost/token"}"#,
        #"{"project_id":"ab","client_email":"x","private_key":"y","token_uri":"ftp://localhost"}"#,
    ])
    func `a broken service account is refused at the start`(json: String) throws {
        var configuration = PushConfiguration()
        configuration.fcm = PushConfiguration.FCM(serviceAccount: Array(json.utf8))
        #expect(throws: PushConfigurationError.self) {
            _ = try PushSender(configuration, tokens: InMemoryProviderTokenStore(), delegate: Collector())
        }
    }
}

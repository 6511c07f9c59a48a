import Authentication
import Domain
import Foundation
import HTTP2
import PushStandIn
import Testing

@testable import Push

/// Case W1: exact headers and body.
@Suite struct APNsRequestTests {
    @Test func `a wake has exactly Apple's headers and body`() throws {
        let scene = try Scene()
        #expect(scene.outcome(7) == .accepted)
        let request = try #require(scene.standIn.received.first)
        let names = request.headers.map(\.name)
        #expect(
            names == [
                ":method", ":scheme", ":authority", ":path", "apns-push-type", "apns-priority", "apns-topic",
                "apns-collapse-id", "apns-expiration", "authorization",
            ]
        )
        #expect(request.header(":method") == "POST")
        #expect(request.header(":scheme") == "https")
        #expect(request.header(":authority") == "localhost:\(scene.standIn.port)")
        #expect(request.header(":path") == "/3/device/" + Scene.token(7))
        #expect(request.header("apns-push-type") == "background")
        #expect(request.header("apns-priority") == "5")
        #expect(request.header("apns-topic") == Scene.topic)
        #expect(request.header("apns-collapse-id") == "wake")
        #expect(request.header("apns-expiration") == "1767240000")
        #expect(String(decoding: request.body, as: UTF8.self) == #"{"aps":{"content-available":1}}"#)
    }

    @Test func `the provider token is ES256 over exactly Apple's claims`() throws {
        let scene = try Scene()
        #expect(scene.outcome(1) == .accepted)
        let authorization = try #require(scene.standIn.received.first?.header("authorization"))
        #expect(authorization.hasPrefix("bearer "))
        let parts = authorization.dropFirst(7).split(separator: ".").map(String.init)
        try #require(parts.count == 3)
        let header = try #require(decode(parts[0]))
        let claims = try #require(decode(parts[1]))
        #expect(header == #"{"alg":"ES256","kid":"ABCDE12345"}"#)
        let issued = try #require(scene.store.credential(keyID: "ABCDE12345").token?.issuedAt)
        #expect(claims == #"{"iss":"TEAM123456","iat":\#(issued.microseconds / 1_000_000)}"#)
        // Raw r and s, 64 bytes: 86 characters.
        #expect(parts[2].count == 86)
    }

    @Test func `the app's own topic and the sandbox are used as the request says`() throws {
        let scene = try Scene()
        #expect(scene.outcome(1, lane: .sandbox, appID: "app.example.other") == .accepted)
        let request = try #require(scene.standIn.received.first)
        #expect(request.header("apns-topic") == "app.example.other")
        #expect(request.header(":authority") == "127.0.0.1:\(scene.standIn.port)")
    }

    @Test func `a topic that is not configured is not sent to, nor what can't be a token`() throws {
        let scene = try Scene { configuration, _ in configuration.apns?.topics = ["app.example.second"] }
        #expect(scene.outcome(1, appID: "app.example.second") == .accepted)
        #expect(scene.outcome(2, appID: "app.example.third") == .notSent(.notConfigured))
        #expect(scene.outcome(3, appID: "a\r\nb") == .notSent(.notConfigured))
        for (number, token) in ["", "xyz", "aa/bb", "aa\r\nx: y", String(repeating: "a", count: 600)].enumerated() {
            #expect(scene.outcome(10 + number, token: token) == .notSent(.malformedToken))
        }
        #expect(scene.standIn.received.count == 1)
    }

    @Test(arguments: [0, 9, 10, 99, 100, 1_767_240_000, 9_223_372_036_854, -5])
    func `an expiration is written in plain digits`(seconds: Int64) throws {
        let scene = try Scene()
        let expiration = Instant(microseconds: seconds.multipliedReportingOverflow(by: 1_000_000).partialValue)
        #expect(scene.outcome(1, expiration: expiration) == .accepted)
        // Others between it and the next with the same: the headers that requests share are made anew each time.
        #expect(scene.outcome(2, expiration: Scene.now) == .accepted)
        #expect(scene.outcome(3, expiration: expiration) == .accepted)
        let sent = scene.standIn.received.map { $0.header("apns-expiration") }
        let digits = String(max(0, seconds))
        #expect(sent == [digits, String(Scene.now.microseconds / 1_000_000), digits])
    }

    @Test func `a token is never shown`() {
        let request = PushRequest(id: 1, token: PushToken("secret-token"), lane: .fcm, appID: "", expiration: Scene.now)
        let token = ProviderToken(jwt: "secret-token", issuedAt: Scene.now)
        let held = PushDeactivation(id: 1, token: request.token, reason: .badDeviceToken, asOf: Scene.now)
        var dumped = ""
        dump(request, to: &dumped)
        dump(token, to: &dumped)
        dump(held, to: &dumped)
        #expect(!"\(request) \(token) \(held) \(String(reflecting: request)) \(dumped)".contains("secret-token"))
    }

    private func decode(_ part: String) -> String? {
        var text = part.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        text += String(repeating: "=", count: (4 - text.count % 4) % 4)
        return Data(base64Encoded: text).map { String(decoding: $0, as: UTF8.self) }
    }
}

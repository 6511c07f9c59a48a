import Authentication
import Domain
import HTTPServer
import MessageContract
import Testing

@testable import IngestService

private let user = UserID(high: 1, low: 2)
private let written = #"202 {"event_id":"01990000-0000-7abc-8000-000000000123","position":""}"#
private let hexToken = String(repeating: "0fA3", count: 16)

struct AccountRouteTests {
    private func account(_ method: String, _ target: String, _ body: String = "") throws -> AccountRecord {
        let decoder = try AccountRecordDecoder()
        let records = try Sending().send(method, target, body).get().records
        #expect(records.count == 1 && records[0].topic == .accounts && records[0].schema == .account1)
        let decoded = try records[0].decode {
            try decoder.decode(key: $0, value: $1, headers: $2, appendTime: nil).get()
        }
        #expect(decoded.user == user)
        #expect(try Sending().outcome(method, target, body) == written)
        return decoded.record
    }

    @Test func `deletion is one record of the caller's account`() throws {
        #expect(try account("DELETE", "/v1/account") == .delete)
    }

    @Test func `every source can be disconnected, with its data or without`() throws {
        for source in Source.allCases {
            let path = "/v1/connections/\(source)"
            #expect(try account("DELETE", path) == .disconnect(source, removesData: false))
            #expect(try account("DELETE", path + "?data=false") == .disconnect(source, removesData: false))
            #expect(try account("DELETE", path + "?data=true") == .disconnect(source, removesData: true))
        }
        #expect(try Sending().outcome("DELETE", "/v1/connections/fitbit") == "404 not_found")
        for query in ["data", "data=1", "data=yes", "data=true&data=true"] {
            #expect(try Sending().outcome("DELETE", "/v1/connections/oura?\(query)") == "400 bad_query")
        }
    }

    @Test func `every metric can be pinned to every source, and unpinned`() throws {
        for metric in Metric.allCases {
            let path = "/v1/preferences/pins/\(metric)"
            #expect(try account("PUT", path, #"{"source":null}"#) == .preference(metric, source: nil))
            for source in Source.allCases {
                let body = #"{"source":"\#(source)"}"#
                #expect(try account("PUT", path, body) == .preference(metric, source: source))
            }
        }
    }

    @Test(arguments: [
        ("steps", "", "400 empty"), ("steps", "7", "400 bad_shape  bad_shape"),
        ("steps", "{}", "400 bad_shape source bad_shape"),
        ("steps", #"{"source":7}"#, "400 bad_shape source bad_shape"),
        ("steps", #"{"source":"fitbit"}"#, "422 invalid source unknown_source"),
        ("steps", #"{"source":"oura","source":"oura"}"#, "422 invalid source duplicate_key"),
        ("mood", #"{"source":"oura"}"#, "404 not_found"),
    ])
    func `a bad pin is a problem`(metric: String, body: String, expected: String) throws {
        #expect(try Sending().outcome("PUT", "/v1/preferences/pins/\(metric)", body) == expected)
    }

    @Test(arguments: [
        ("POST", "/v1/days"), ("POST", "/api/sync/apple-health"), ("POST", "/v1/trainee/health/days"),
        ("POST", "/v1/trainee/health/samples"), ("POST", "/api/v1/wearable/data"), ("POST", "/v1/device-tokens"),
        ("DELETE", "/v1/device-tokens/abcdefgh"), ("PUT", "/v1/preferences/pins/steps"),
        ("DELETE", "/v1/connections/oura"), ("DELETE", "/v1/account"),
    ])
    func `only users act on their own account`(method: String, path: String) throws {
        #expect(try Sending(role: .connector).outcome(method, path, "{}") == "403 forbidden")
        #expect(try Sending(role: .operator).outcome(method, path, "{}") == "403 forbidden")
        #expect(try Sending(token: "x.y.z").outcome(method, path, "{}") == "401 malformed")
    }

    @Test func `a path has its own methods alone`() throws {
        #expect(try Sending().outcome("GET", "/v1/account") == "405 method_not_allowed")
        #expect(try Sending().outcome("POST", "/v1/preferences/pins/steps", "{}") == "405 method_not_allowed")
        #expect(try Sending().outcome("DELETE", "/v1/accounts") == "404 not_found")
    }
}

struct DeviceRouteTests {
    private func device(_ method: String, _ target: String, _ body: String = "") throws -> DecodedDevice {
        let decoder = try DeviceRecordDecoder()
        let records = try Sending().send(method, target, body).get().records
        #expect(records.count == 1 && records[0].topic == .devices && records[0].schema == .device1)
        #expect(try Sending().outcome(method, target, body) == written)
        return try records[0].decode { try decoder.decode(key: $0, value: $1, headers: $2, appendTime: nil).get() }
    }

    private func body(_ fields: String) -> String { "{\(fields)}" }

    @Test func `a registration is kept with what a sender needs, under the token's hash`() throws {
        let found = try device(
            "POST",
            "/v1/device-tokens",
            #"{"token":"\#(hexToken)","platform":"ios","environment":"sandbox","app_id":"com.example.app","#
                + #""app_version":"4.2","os_version":"26.1","time_zone":"Europe/Athens"}"#
        )
        let expected = DeviceRecord.Registration(
            token: hexToken.lowercased(),
            platform: .ios,
            environment: .sandbox,
            appID: "com.example.app",
            appVersion: "4.2",
            osVersion: "26.1",
            timeZone: "Europe/Athens"
        )
        #expect(found.record == DeviceRecord(user: user, registration: expected))
        let digest = try #require(SHA256.digest(of: Array(hexToken.lowercased().utf8)))
        #expect(found.hash == DeviceTokenHash(digest))
    }

    @Test func `SHA-256 is the one of the standard`() throws {
        let digest = try #require(SHA256.digest(of: Array("abc".utf8)))
        #expect(
            String(decoding: DeviceTokenHash(digest).hex, as: UTF8.self)
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        )
    }

    @Test func `a withdrawal carries the caller and no token, under the same hash`() throws {
        let registered = try device(
            "POST",
            "/v1/device-tokens",
            #"{"token":"\#(hexToken)","platform":"ios","app_id":"a"}"#
        )
        for path in [hexToken, hexToken.lowercased(), hexToken.uppercased(), "%30" + hexToken.dropFirst()] {
            let withdrawn = try device("DELETE", "/v1/device-tokens/\(path)")
            #expect(withdrawn.record == DeviceRecord(user: user, registration: nil))
            #expect(withdrawn.hash == registered.hash)
        }
        let android = try device("POST", "/v1/device-tokens", #"{"token":"abc:DEF-g_9","platform":"android"}"#)
        #expect(android.record.registration?.token == "abc:DEF-g_9")
        #expect(android.record.registration?.environment == .production)
        #expect(try device("DELETE", "/v1/device-tokens/abc%3ADEF-g_9").hash == android.hash)
        #expect(try device("DELETE", "/v1/device-tokens/abc:def-g_9").hash != android.hash)
    }

    @Test(arguments: [
        ("", "400 bad_shape token bad_shape"), (#""token":"abcdefgh""#, "400 bad_shape platform bad_shape"),
        (#""token":7,"platform":"ios""#, "400 bad_shape token bad_shape"),
        (#""token":"","platform":"ios""#, "422 invalid token empty"),
        (#""token":"abcdefgh","platform":"palm""#, "422 invalid platform unknown_value"),
        (#""token":"abcdefgh","platform":"ios","app_id":"a""#, "422 invalid token bad_token"),
        (#""token":"abc def gh","platform":"android""#, "422 invalid token bad_token"),
        (#""token":"abcdefgh","platform":"android","environment":"test""#, "422 invalid environment unknown_value"),
        (
            #""token":"abcdefgh","platform":"android","time_zone":"Mars/Base""#,
            "422 invalid time_zone unknown_time_zone"
        ),
        (#""token":"abcdefgh","token":"abcdefgh","platform":"android""#, "422 invalid token duplicate_key"),
        (#""token":"\#(hexToken)","platform":"ios""#, "422 invalid app_id missing_app_id"),
    ])
    func `a bad registration is a problem that does not repeat the token`(fields: String, expected: String) throws {
        #expect(try Sending().outcome("POST", "/v1/device-tokens", body(fields)) == expected)
        guard case .failure(let problem) = try Sending().send("POST", "/v1/device-tokens", body(fields)) else { return }
        let text = String(decoding: problem.response.body, as: UTF8.self)
        #expect(!text.contains("abcdefgh") && !text.contains(hexToken))
    }

    @Test(arguments: ["short", "%zz", "with%20space", "a%2Fb%2Fc%2Fd%2Fe"])
    func `what can't be a token is not withdrawn`(token: String) throws {
        #expect(try Sending().outcome("DELETE", "/v1/device-tokens/\(token)") == "422 invalid token bad_token")
    }
}

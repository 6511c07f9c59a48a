import Authentication
import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import TestSupport
import Testing

/// The built ingest service, on the development broker and, where there is one, on a real Kafka.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `The ingest service` {
    private let today = IngestUnderTest.today

    @Test(arguments: KafkaUnderTest.all)
    func `a 202 means that the topics hold one record a lane, as the contract says`(kafka: KafkaUnderTest) throws {
        let ingest = try IngestUnderTest(on: kafka)
        let old = today.advanced(by: -60)
        let body = """
            {"source":"apple_health","observed_at":"2020-01-01T00:00:00Z","time_zone":"Europe/Athens","days":[\
            {"date":"\(today)","steps":11842,"active_energy_kcal":612.04},\
            {"date":"\(old)","steps":7050},{"date":"\(old.advanced(by: -1))","steps":0}]}
            """
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let answer = try ingest.connect().request(
            "POST",
            "/v1/days",
            token: IngestUnderTest.token(),
            headers: ["traceparent: \(trace)"],
            body: Array(body.utf8)
        )
        #expect(answer.status == 202, "\(answer.body)")
        #expect(answer.header("Content-Type")?.hasPrefix("application/json") == true)
        let said = AnswerBody(answer.body)
        #expect(said.accepted == 2 && said.errors.isEmpty)
        #expect(said.skipped.map { $0["code"] as? String } == ["zero"])
        #expect(said.skipped.first?["field"] as? String == "steps" && said.skipped.first?["index"] as? Int == 2)

        let live = try ingest.records(.live)
        let history = try ingest.records(.history)
        #expect(live.count == 1 && history.count == 1)
        for (record, lane) in zip(live + history, [Lane.live, .history]) {
            #expect(record.key == IngestUnderTest.user.description)
            #expect(Int(record.partition) == Partitioner.partition(of: IngestUnderTest.user, partitions: 2))
            #expect(record.headers["schema"] == "days/1" && record.headers["event-id"] == said.eventID)
            #expect(record.headers["route"] == "/v1/days" && record.headers["traceparent"] == trace)
            let received = try #require(record.headers["received-at"])
            #expect(Instant(rfc3339: received) != nil && received.utf8.count == 27)
            let topic = lane.topic.name(prefix: ingest.prefix)
            #expect(said.positions.contains("\(topic)/\(record.partition)/\(record.offset)"))
            let value = AnswerBody(record.value).object
            #expect(value["source"] as? String == "apple_health" && value["time_zone"] as? String == "Europe/Athens")
            #expect(value["observed_at"] as? String == "2020-01-01T00:00:00.000000Z")
            #expect(value["local_date"] as? String == "2020-01-01")
        }
        let liveDays = AnswerBody(live[0].value).object["days"] as? [[String: Any]]
        #expect(liveDays?.count == 1 && liveDays?.first?["active_energy_kcal"] as? Double == 612)
        let oldDays = AnswerBody(history[0].value).object["days"] as? [[String: Any]]
        #expect(oldDays?.map { $0["date"] as? String } == [old.description])
        #expect(try ingest.process.stop() == 0)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `each kind of bad request gets its problem, and the connection stays usable`(kafka: KafkaUnderTest) throws {
        let ingest = try IngestUnderTest(on: kafka)
        let token = try IngestUnderTest.token()
        let good = Array(IngestUnderTest.body().utf8)
        let connection = try ingest.connect()
        func expect(
            _ status: Int,
            _ code: String,
            _ method: String = "POST",
            _ path: String = "/v1/days",
            token: String?,
            headers: [String] = [],
            body: [UInt8]?
        ) throws {
            let answer = try connection.request(method, path, token: token, headers: headers, body: body)
            let said = AnswerBody(answer.body)
            #expect(answer.status == status && said.code == code, "\(method) \(path): \(answer.head) \(answer.body)")
            #expect(answer.header("Content-Type") == "application/problem+json")
            #expect(said.object["status"] as? Int == status && said.object["type"] is String)
            #expect(said.object["title"] is String)
            // On the same connection.
            let next = try connection.request("POST", "/v1/days", token: IngestUnderTest.token(), body: good)
            #expect(next.status == 202, "after \(status) \(code): \(next.body)")
        }
        try expect(400, "bad_json", token: token, body: Array("{\"source\"".utf8))
        try expect(400, "bad_shape", token: token, body: Array("[]".utf8))
        try expect(401, "missing", token: nil, body: good)
        try expect(401, "malformed", token: "a.b", body: good)
        try expect(401, "expired", token: try IngestUnderTest.token(validFor: 60, issuedAgo: 3600), body: good)
        try expect(
            401,
            "bad_signature",
            token: try IngestUnderTest.token(secret: "another secret, just as long as the right one"),
            body: good
        )
        try expect(403, "forbidden", token: token, body: Array(IngestUnderTest.body(source: .oura).utf8))
        try expect(404, "not_found", "POST", "/v2/days", token: token, body: good)
        try expect(405, "method_not_allowed", "GET", token: token, body: nil)
        try expect(415, "media_type", token: token, headers: ["Content-Type: text/plain"], body: good)
        try expect(422, "invalid", token: token, body: Array(IngestUnderTest.body(steps: -5).utf8))
        let strict = #"{"source":"manual","days":[{"date":"\#(today)","steps":1},{"date":"\#(today)","steps":1.5}]}"#
        try expect(422, "invalid", "POST", "/v1/days?strict=true", token: token, body: Array(strict.utf8))
        try expect(400, "bad_gzip", token: token, headers: ["Content-Encoding: gzip"], body: good)
        let method = try connection.request("GET", "/v1/days", token: token)
        #expect(method.header("Allow") == "POST")
        let unknown = try connection.request("POST", "/v1/days", body: good)
        #expect(unknown.header("WWW-Authenticate") == "Bearer")
    }

    @Test(arguments: KafkaUnderTest.all)
    func `bodies that are not worth reading are refused, framing tricks end the connection`(kafka: KafkaUnderTest)
        throws
    {
        let ingest = try IngestUnderTest(on: kafka)
        let token = try IngestUnderTest.token()
        let good = Array(IngestUnderTest.body().utf8)
        let missing = try ingest.connect().request("POST", "/v1/days", token: token)
        #expect(missing.status == 411 && AnswerBody(missing.body).code == "length_required")
        let long = [UInt8](repeating: 32, count: 1 << 20) + good
        let large = try ingest.connect().request("POST", "/v1/days", token: token, body: long)
        #expect(large.status == 413 && AnswerBody(large.body).code == "body_too_large")
        let unpackable = try ingest.connect().request(
            "POST",
            "/v1/days",
            token: token,
            headers: ["Content-Encoding: br"],
            body: good
        )
        #expect(unpackable.status == 415 && AnswerBody(unpackable.body).code == "content_encoding")
        let twice = try ingest.connect()
        let headers = ["Content-Length: \(good.count)"]
        let tricked = try twice.request("POST", "/v1/days", token: token, headers: headers, body: good)
        #expect(tricked.status == 400 && twice.waitUntilClosed())
        let both = try ingest.connect()
        let smuggled = try both.request(
            "POST",
            "/v1/days",
            token: token,
            headers: ["Transfer-Encoding: chunked", "Content-Length: 5"],
            body: Array("0\r\n\r\n".utf8)
        )
        #expect(smuggled.status == 400 && both.waitUntilClosed())
        #expect(try ingest.records(.live).isEmpty)
        // Chunked alone is fine.
        let chunk = Array(String(good.count, radix: 16).utf8) + [13, 10] + good + Array("\r\n0\r\n\r\n".utf8)
        let chunked = try ingest.connect().request(
            "POST",
            "/v1/days",
            token: token,
            headers: ["Transfer-Encoding: chunked"],
            body: chunk
        )
        #expect(chunked.status == 202, "\(chunked.body)")
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a gzip body is read, and pipelined requests are answered in their order`(kafka: KafkaUnderTest) throws {
        let ingest = try IngestUnderTest(on: kafka)
        let token = try IngestUnderTest.token()
        let packed = storedGzip(Array(IngestUnderTest.body(steps: 7777).utf8))
        let connection = try ingest.connect()
        let headers = ["Content-Encoding: gzip"]
        let answer = try connection.request("POST", "/v1/days", token: token, headers: headers, body: packed)
        #expect(answer.status == 202, "\(answer.body)")
        #expect(try ingest.records(.live).contains { $0.value.contains("7777") })
        let plain = HTTPConnection.bytes("POST", "/v1/days", token: token, body: Array(IngestUnderTest.body().utf8))
        connection.send(plain + HTTPConnection.bytes("GET", "/v1/days") + plain)
        #expect(
            try [connection.answer().status, connection.answer().status, connection.answer().status] == [202, 405, 202]
        )
    }

    @Test(arguments: KafkaUnderTest.all)
    func `it says that it lives, is ready and what it counts, and heartbeats reach every live partition`(
        kafka: KafkaUnderTest
    ) throws {
        let ingest = try IngestUnderTest(on: kafka, partitions: 4)
        #expect(try ingest.admin("/livez").status == 200)
        #expect(try ingest.admin("/readyz").status == 200)
        #expect(try ingest.post(IngestUnderTest.body()).status == 202)
        #expect(try ingest.post(IngestUnderTest.body(), "nonsense").status == 401)
        // Of the refusals only this one speaks against the door.
        let other = try IngestUnderTest.token(secret: "another secret, just as long as the right one")
        #expect(try ingest.post(IngestUnderTest.body(), other).status == 401)
        let metrics = try ingest.admin("/metrics").text
        #expect(metrics.contains(#"daybook_ingest_requests_total{route="/v1/days",status="202"} 1"#))
        #expect(metrics.contains(#"daybook_ingest_refusals_total{reason="malformed"} 1"#))
        #expect(metrics.contains("daybook_ingest_ready 1"))
        let topic = Topic.daysLive.name(prefix: ingest.prefix)
        try Eventually.holds("heartbeats with the counts on every partition", seconds: 10) {
            let beats = try ingest.kafka.records(in: topic, partitions: 4)
                .filter { $0.headers["schema"] == "heartbeat/1" }
            return (0..<4).allSatisfy { partition in
                let values = beats.filter { $0.partition == partition }.map { AnswerBody($0.value).object }
                return values.reduce(0) { $0 + ($1["requests"] as? Int ?? 0) } == 2
                    && values.reduce(0) { $0 + ($1["answered"] as? Int ?? 0) } == 1
            }
        }
    }

    @Test func `wrong settings are all named, and no value is`() throws {
        let process = try ServiceProcess(
            "ingest-service",
            environment: [
                "DAYBOOK_JWT_HS256_SECRET": "too-short-to-be-one", "DAYBOOK_INGEST_LOOPS": "ninety-nine",
                "DAYBOOK_REQUEST_DEADLINE_MS": "-77", "DAYBOOK_NO_SUCH_SETTING": "whatever",
            ]
        )
        #expect(try process.waitForExit(seconds: 10) == 78)
        for key in [
            "DAYBOOK_JWT_HS256_SECRET", "DAYBOOK_INGEST_LOOPS", "DAYBOOK_REQUEST_DEADLINE_MS",
            "DAYBOOK_NO_SUCH_SETTING",
            "DAYBOOK_KAFKA_BROKERS",
        ] { #expect(process.output.contains(key), "\(process.output)") }
        for value in ["too-short-to-be-one", "ninety-nine", "-77", "whatever"] {
            #expect(!process.output.contains(value), "\(process.output)")
        }
    }

    @Test(arguments: KafkaUnderTest.all)
    func `nothing of a body, a token or a value is in what it wrote (D11)`(kafka: KafkaUnderTest) throws {
        let publicKey = NSTemporaryDirectory() + "daybook-key-\(UUID().uuidString).pem"
        try TokenKey.publicKey.write(toFile: publicKey, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: publicKey) }
        let ingest = try IngestUnderTest(
            on: kafka,
            [
                "DAYBOOK_LOG_LEVEL": "debug", "DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000",
                "DAYBOOK_JWT_PEM_FILES": publicKey,
            ]
        )
        try ingest.waitForAllHeartbeats()
        let token = try IngestUnderTest.token()
        let other = try IngestUnderTest.token(secret: "another secret, just as long as the right one")
        // One of another algorithm, and one of a role that other routes are for.
        let signed = try TokenKey.token()
        let tokens = [token, signed, try IngestUnderTest.token(role: .connector), other]
        let secrets = ["86753", "123456789", "187.3", "Leuchtturm", "hrv_sdnn_ms", "observed_at"]
        let day = #"{"date":"\#(today)","steps":86753,"hrv_sdnn_ms":187.3,"sleep_minutes":123456789}"#
        let bodies = [
            #"{"source":"apple_health","origin":"Leuchtturm","days":[{"date":"\#(today)","steps":86753}]}"#,
            #"{"source":"apple_health","origin":"Leuchtturm","observed_at":"2026-01-01T00:00:00Z","days":[\#(day)]}"#,
            #"{"source":"oura","origin":"Leuchtturm","days":[\#(day)]}"#, #"{"source":"Leuchtturm","days":[\#(day)"#,
        ]
        var taken: [(method: String, path: String)] = []
        for body in bodies {
            for token in [token, signed, other] {
                let answer = try ingest.post(body, token)
                #expect(answer.status != 500)
                if answer.status < 300 { taken.append((method: "POST", path: "/v1/days")) }
            }
        }
        #expect(try ingest.post(bodies[0], signed).status == 202)
        // Every other route, with what only it is told.
        let device = "c0ffee0123456789abcdefc0ffee0123456789abcdefc0ffee0123456789abcd"
        let canaries = secrets + [device, "Wachturm-7", "4711.5", "Kadenz"]
        let others = requestsOfOtherRoutes(device: device, day: day)
        var refusedTokens = 0
        for (method, path, body) in others {
            for token in tokens {
                let answer = try ingest.connect().request(method, path, token: token, body: Array(body.utf8))
                #expect(answer.status < 500)
                if answer.status == 401 { refusedTokens += 1 }
                if answer.status < 300 {
                    taken.append((method: method, path: path))
                } else {
                    for word in canaries { #expect(!answer.body.contains(word), "\(path)") }
                }
            }
        }
        // Only the path that is none asks for no token.
        #expect(refusedTokens == others.count - 1)
        let routes = try writingRoutes(ingest)
        #expect(routes.count >= 11)
        for route in routes {
            let isTried = taken.contains { $0.method == route.method && isPath($0.path, of: route.path) }
            #expect(isTried, "\(route.method) \(route.path) was never asked as it should be: add it to the requests")
        }
        for broken in [
            "POST /\(device) HTTP/9.9\r\n\r\n", "GET /v1/device-tokens/\(device)\r\n\r\n",
            "POST /v1/days HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token)\r\nContent-Length: x\r\n\r\nLeuchtturm",
        ] {
            let connection = try ingest.connect()
            connection.send(Array(broken.utf8))
            #expect(try connection.answer().status == 400)
        }
        if let mock = kafka.mock {
            try mock.failProduceRequests(with: [87])
            #expect(try ingest.post(bodies[0]).status == 503)
        }
        let metrics = try ingest.admin("/metrics").text
        #expect(try ingest.process.stop() == 0)
        let written = ingest.process.output
        #expect(written.contains("listening"))
        for word in canaries + [IngestUnderTest.secret] {
            #expect(!written.contains(word) && !metrics.contains(word), "\(word) was written")
        }
        for token in tokens {
            for part in token.split(separator: ".").dropFirst() { #expect(!written.contains(part)) }
        }
    }

    /// Requests on every route but `/v1/days`: each as it should be, and in a way that is refused.
    private func requestsOfOtherRoutes(
        device: String,
        day: String
    ) -> [(method: String, path: String, body: String)] {
        let steps = #"{"date":"\#(today)","steps":86753}"#
        let time = "2026-01-01T00:00:00Z"
        return [
            (
                "POST", "/v1/users/\(IngestUnderTest.user)/days",
                #"{"source":"oura","origin":"Leuchtturm","days":[\#(steps)]}"#
            ),
            (
                "POST", "/v1/users/\(IngestUnderTest.user)/days",
                #"{"source":"oura","origin":"Leuchtturm","days":[\#(day)]}"#
            ),
            ("POST", "/v1/users/Wachturm-7/days", #"{"source":"oura","days":[\#(steps)]}"#),
            ("POST", "/api/sync/apple-health", steps),
            ("POST", "/api/sync/apple-health", #"{"date":"\#(today)","steps":86753,"hrv":4711.5}"#),
            ("POST", "/api/sync/apple-health", #"{"date":"\#(today)","steps":86753,"hrv":"4711.5"}"#),
            ("POST", "/v1/trainee/health/days", #"{"days":[\#(steps)]}"#),
            ("POST", "/v1/trainee/health/days", #"{"days":[{"date":"\#(today)","steps":123456789}]}"#),
            ("POST", "/v1/trainee/health/samples", #"{"samples":[{"type":"Kadenz","value":4711.5}]}"#),
            ("POST", "/v1/trainee/health/samples", #"{"samples":["Kadenz",4711.5]}"#),
            (
                "POST", "/api/v1/wearable/data",
                #"{"device_id":"Wachturm-7","points":[{"timestamp":"\#(time)","data":{"Kadenz":4711.5}}]}"#
            ),
            ("POST", "/api/v1/wearable/data", #"{"device_id":"Wachturm-7","points":[{"timestamp":"Kadenz"}]}"#),
            ("POST", "/v1/device-tokens", #"{"token":"\#(device)","platform":"ios","app_id":"Wachturm-7"}"#),
            ("POST", "/v1/device-tokens", #"{"token":"\#(device)","platform":"Wachturm-7"}"#),
            ("DELETE", "/v1/device-tokens/\(device)", ""), ("DELETE", "/v1/device-tokens/\(device)/\(device)", ""),
            ("PUT", "/v1/preferences/pins/steps", #"{"source":"oura"}"#),
            ("PUT", "/v1/preferences/pins/steps", #"{"source":"Wachturm-7"}"#),
            ("DELETE", "/v1/connections/oura", ""), ("DELETE", "/v1/connections/Wachturm-7", ""),
            ("DELETE", "/v1/account", ""),
        ]
    }

    /// By the interface's description, so that a new one can't be forgotten.
    private func writingRoutes(_ ingest: IngestUnderTest) throws -> [(method: String, path: String)] {
        let document = try ingest.connect().request("GET", "/openapi.json")
        let paths = AnswerBody(document.body).object["paths"] as? [String: [String: Any]] ?? [:]
        var routes: [(method: String, path: String)] = []
        for (path, methods) in paths {
            for method in methods.keys where method != "get" {
                routes.append((method: method.uppercased(), path: path))
            }
        }
        return routes
    }

    /// Whether it is one of the route's, in which `{…}` stands for any segment.
    private func isPath(_ path: String, of route: String) -> Bool {
        let (given, wanted) = (path.split(separator: "/"), route.split(separator: "/"))
        return given.count == wanted.count && zip(given, wanted).allSatisfy { $1.hasPrefix("{") || $0 == $1 }
    }
}

/// A key for ES256, made for these tests alone.
private enum TokenKey {
    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmDCOZttUu4F10VAY1nMMbCqMeAip
        TCX1G+W6JdCVxD2Pz4mHy1/p8zAm64uq5NenPMIZ/99ShNdhi4PirTaVMQ==
        -----END PUBLIC KEY-----
        """
    private static let privateKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgfM41xHlj2McZL91H
        Lwvm9r+CKRv5RdK9LCa3BoiTxFqhRANCAASYMI5m21S7gXXRUBjWcwxsKox4CKlM
        JfUb5bol0JXEPY/PiYfLX+nzMCbri6rk16c8whn/31KE12GLg+KtNpUx
        -----END PRIVATE KEY-----
        """

    static func token() throws -> String {
        try TokenMinter(privateKey: Array(privateKey.utf8), TokenPolicy())
            .mint(subject: IngestUnderTest.user.description, now: .present, validFor: 3600)
    }
}

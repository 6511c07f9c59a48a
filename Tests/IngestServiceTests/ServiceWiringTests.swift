import Authentication
import Domain
import Glibc
import Kafka
import MessageContract
import ServiceRuntime
import Testing

@testable import IngestService

/// So many blanks, as gzip makes them.
private let spaces2000: [UInt8] = [
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x53, 0x50, 0x18, 0x05, 0xa3, 0x60, 0x14, 0x8c,
    0x82, 0x51, 0x30, 0x0a, 0x46, 0xc1, 0x50, 0x07, 0x00, 0x2a, 0xca, 0x16, 0x55, 0xd0, 0x07, 0x00, 0x00,
]
private let spaces3000: [UInt8] = [
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xed, 0xc1, 0x31, 0x01, 0x00, 0x00, 0x00, 0xc2,
    0xa0, 0x2a, 0xeb, 0x9f, 0xd2, 0x1a, 0x1e, 0x40, 0x01, 0x00, 0x00, 0xef, 0x06, 0xac, 0x91, 0xf0, 0x17, 0xb8,
    0x0b, 0x00, 0x00,
]

/// That settings reach what they are for.
@Suite(.serialized)
struct ServiceWiringTests {
    private let user = "00000000-0000-4000-8000-000000000001"

    private func token(_ policy: TokenPolicy, startsIn seconds: Int = 0, holdsFor: Int = 600) throws -> String {
        let now = Instant(microseconds: SystemTime().wallMicroseconds()).advanced(bySeconds: seconds)
        var policy = policy
        policy.hmacKeys = [Array(secretText.utf8)]
        return try TokenMinter(policy).mint(subject: user, now: now, validFor: holdsFor)
    }

    private func code(_ client: Client, _ token: String) throws -> String {
        let answer = try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body())
        let codes = answer.body.split(separator: #""code":""#).dropFirst().first?.prefix { $0 != "\"" }
        return answer.status == 202 ? "202" : "\(answer.status) \(codes ?? "")"
    }

    @Test func `issuer, audience and leeway are asked of every token`() throws {
        let ingest = try IngestUnderTest([
            "DAYBOOK_JWT_ISSUER": "https://id.example", "DAYBOOK_JWT_AUDIENCE": "daybook",
            "DAYBOOK_JWT_LEEWAY_SECONDS": "200",
        ])
        let client = try ingest.connect()
        let good = TokenPolicy(issuer: "https://id.example", audience: "daybook")
        #expect(try code(client, token(good)) == "202")
        let issuer = TokenPolicy(issuer: "https://other", audience: "daybook")
        #expect(try code(client, token(issuer)) == "401 wrong_issuer")
        #expect(try code(client, token(TokenPolicy(audience: "daybook"))) == "401 wrong_issuer")
        let audience = TokenPolicy(issuer: "https://id.example", audience: "others")
        #expect(try code(client, token(audience)) == "401 wrong_audience")
        #expect(try code(client, token(good, startsIn: -400, holdsFor: 300)) == "202")
        #expect(try code(client, token(good, startsIn: -600, holdsFor: 300)) == "401 expired")
        #expect(try code(client, IngestUnderTest.foreignToken()) == "401 bad_signature")
        for reason in ["wrong_issuer", "wrong_audience", "expired", "bad_signature"] {
            #expect(ingest.metrics.contains(#"daybook_ingest_refusals_total{reason="\#(reason)"} "#))
        }
    }

    @Test func `keys that come over the network late open the door, and stay when the network fails`() throws {
        let keys = try KeyServer()
        let ingest = try IngestUnderTest(
            ["DAYBOOK_JWT_HS256_SECRET": "", "DAYBOOK_JWT_JWKS_URL": keys.url],
            waitsUntilReady: false
        )
        let now = Instant(microseconds: SystemTime().wallMicroseconds())
        let token = try TokenMinter(privateKey: Array(TestKeys.firstPrivate.utf8), keyID: "first", TokenPolicy())
            .mint(subject: user, now: now, validFor: 600)
        try waitUntil("asked") { ingest.logLines.contains { $0.contains("the JWKS could not be fetched") } }
        #expect(!ingest.server.isReady)
        #expect(try code(ingest.connect(), token) == "503 not_ready")
        keys.serve(TestKeys.first)
        try waitUntil("ready") { ingest.server.isReady }
        #expect(try code(ingest.connect(), token) == "202")
        #expect(ingest.metrics.contains(#"daybook_ingest_token_keys{algorithm="ES256"} 1"#))
    }

    @Test func `after SIGTERM it says no and serves on for the balancer's time, and then closes`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_DRAIN_DELAY_MS": "1500"])
        let token = try IngestUnderTest.token()
        let admin = try ingest.connectAdmin()
        let start = SystemTime().monotonicNanoseconds()
        ingest.beginStop()
        try waitUntil("not ready") { try admin.request("GET", "/readyz").status == 503 }
        #expect(try admin.request("GET", "/readyz").body.contains("draining: "))
        #expect(try code(ingest.connect(), token) == "202")
        try waitUntil("closed") { (try? ingest.connect()) == nil }
        let milliseconds = (SystemTime().monotonicNanoseconds() - start) / 1_000_000
        #expect((1400...6000).contains(milliseconds), "\(milliseconds)")
        #expect(ingest.finish())
    }

    @Test func `the limits of headers, bodies and what is arriving are those that are set`() throws {
        let ingest = try IngestUnderTest([
            "DAYBOOK_MAX_HEADER_BYTES": "2048", "DAYBOOK_MAX_BODY_BYTES": "4194304",
            "DAYBOOK_MAX_DECOMPRESSED_BYTES": "4194304", "DAYBOOK_MAX_ARRIVING_BYTES": "1048576",
        ])
        let token = try IngestUnderTest.token()
        func status(_ headers: [String], _ body: String) throws -> Int {
            try ingest.connect().request("POST", "/v1/days", token: token, headers: headers, body: body).status
        }
        #expect(try status(["X-Long: " + String(repeating: "x", count: 1000)], IngestUnderTest.body()) == 202)
        #expect(try status(["X-Long: " + String(repeating: "x", count: 2000)], IngestUnderTest.body()) == 431)
        #expect(try status([], String(repeating: " ", count: 4_194_305)) == 413)
        // Less than the longest body, and more than there is memory for.
        #expect(try status([], String(repeating: " ", count: 3_000_000)) == 503)
        #expect(ingest.metrics.contains(#"daybook_ingest_refusals_total{reason="too_much_arriving"} 1"#))
        let other = try IngestUnderTest(["DAYBOOK_MAX_BODY_BYTES": "2048", "DAYBOOK_MAX_DECOMPRESSED_BYTES": "2048"])
        for (bytes, expected) in [(spaces2000, 400), (spaces3000, 413)] {
            let client = try other.connect()
            let head = "POST /v1/days HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token)\r\n"
            let framing = "Content-Encoding: gzip\r\nContent-Length: \(bytes.count)\r\n\r\n"
            client.send(Array((head + framing).utf8) + bytes)
            #expect(try client.answer().status == expected)
        }
    }

    @Test func `the number of headers, the target's length and the time to read an answer are those that are set`()
        throws
    {
        let ingest = try IngestUnderTest([
            "DAYBOOK_MAX_HEADERS": "8", "DAYBOOK_MAX_TARGET_BYTES": "256", "DAYBOOK_ANSWER_READ_TIMEOUT_MS": "200",
        ])
        let token = try IngestUnderTest.token()
        func status(_ path: String, further: Int) throws -> Int {
            let headers = (0..<further).map { "X-Further-\($0): x" }
            let client = try ingest.connect()
            return try client.request("POST", path, token: token, headers: headers, body: IngestUnderTest.body()).status
        }
        // Host, Authorization, Content-Type and Content-Length are four of them.
        #expect(try status("/v1/days", further: 4) == 202)
        #expect(try status("/v1/days", further: 5) == 431)
        let start = "/v1/days?x="
        let longest = start + String(repeating: "x", count: 256 - start.utf8.count)
        #expect(try status(longest, further: 0) == 202)
        #expect(try status(longest + "x", further: 0) == 414)
        // More than the sockets' buffers hold, and nobody who reads it.
        let slow = try ingest.connect()
        slow.send(String(repeating: "GET /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n", count: 1000))
        try withExtendedLifetime(slow) {
            try waitUntil("given up") {
                ingest.metrics.contains(#"daybook_ingest_connections_closed_total{reason="slow_reader"} 1"#)
            }
        }
    }

    @Test func `a compressed request that is refused unread has an id too`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        let body = storedGzip(Array(IngestUnderTest.body().utf8))
        let trace = "0af7651916cd43dd8448eb211c80319c"
        let head = [
            "POST /v1/days HTTP/1.1", "Host: h", "Authorization: Bearer \(try IngestUnderTest.foreignToken())",
            "Content-Encoding: gzip", "traceparent: 00-\(trace)-b7ad6b7169203331-01", "Content-Length: \(body.count)",
        ]
        client.send(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body)
        let answer = try client.answer()
        #expect(answer.status == 401)
        let start = try #require(answer.body.firstRange(of: #""instance":"urn:uuid:"#)).upperBound
        #expect(EventID(String(answer.body[start...].prefix(36))) != nil)
    }

    @Test func `a client that ends its side before the answer has left, and what it sent is stored`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000"])
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 300)
        let client = try ingest.connect()
        client.begin("POST", "/v1/days", token: try IngestUnderTest.token(), body: IngestUnderTest.body())
        try waitUntil("in flight") { ingest.metrics.contains("daybook_ingest_waiting_requests 1") }
        client.finishSending()
        #expect(throws: TimedOut.self) { try client.answer() }
        try waitUntil("stored") { ingest.metrics.contains("daybook_ingest_in_flight_bytes 0") }
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 0)
        #expect(try ingest.records(.live).count == 1)
    }
}

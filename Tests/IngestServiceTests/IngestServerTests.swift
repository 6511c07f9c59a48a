import Authentication
import Domain
import IngestService
import Kafka
import MessageContract
import Observability
import ServiceRuntime
import Testing

/// Each test has a cluster and a service of its own; one after the other, since the mock's clients are many threads.
@Suite(.serialized)
struct IngestServerTests {
    @Test func `an accepted request is in Kafka before it is answered`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let answer = try client.request(
            "POST",
            "/v1/days",
            token: IngestUnderTest.token(),
            headers: ["traceparent: \(trace)"],
            body: IngestUnderTest.body()
        )
        #expect(answer.status == 202)
        #expect(answer.body.hasPrefix(#"{"accepted":1,"skipped":[],"errors":[],"event_id":""#))
        let records = try ingest.records(.live)
        let record = try #require(records.first).get()
        #expect(records.count == 1)
        #expect(record.user == UserID("00000000-0000-4000-8000-000000000001"))
        #expect(record.source == .appleHealth)
        #expect(record.readings.map(\.values) == [[.steps: 84_210]])
        #expect(answer.body.contains(record.event.description))
        #expect(try ingest.records(.history).isEmpty)
    }

    @Test func `a record lies on the partition that its user's bucket names`() throws {
        let ingest = try IngestUnderTest(partitions: 8)
        let client = try ingest.connect()
        for number in 0..<16 {
            let user = UserID(high: UInt64(number) << 32 | 0x4000, low: 0x8000_0000_0000_0000)
            let answer = try client.request(
                "POST",
                "/v1/days",
                token: IngestUnderTest.token(user.description),
                body: IngestUnderTest.body()
            )
            #expect(answer.status == 202)
        }
        var count = 0
        for partition in 0..<8 {
            for record in try ingest.records(.live, on: partition..<(partition + 1)) {
                #expect(try Partitioner.partition(of: record.get().user, partitions: 8) == partition)
                count += 1
            }
        }
        #expect(count == 16)
    }

    @Test func `the first request is as fast as the second`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        let time = SystemTime()
        var spans: [Int64] = []
        for _ in 0..<3 {
            let start = time.monotonicNanoseconds()
            #expect(try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 202)
            spans.append((time.monotonicNanoseconds() - start) / 1_000_000)
        }
        // A topic whose metadata is not known yet costs more than half a second.
        #expect(spans[0] < 400, "\(spans)")
    }

    @Test func `what is wrong with a request is told by its status`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        let body = IngestUnderTest.body()
        func status(
            _ method: String,
            _ path: String,
            token: String? = nil,
            type: String? = "application/json",
            _ body: String? = nil
        ) throws -> Int {
            try client.request(method, path, token: token, type: type, body: body).status
        }
        #expect(try status("POST", "/nowhere", token: token, body) == 404)
        let put = try client.request("PUT", "/v1/account", token: token, body: "{}")
        #expect(put.status == 405 && put.head.contains("Allow: DELETE"))
        #expect(try status("POST", "/v1/users/7/days", token: IngestUnderTest.token(role: .connector), body) == 404)
        #expect(try status("POST", "/v1/days", body) == 401)
        #expect(try status("POST", "/v1/days", token: "a.b.c", body) == 401)
        #expect(try status("POST", "/v1/days", token: token, type: "text/plain", body) == 415)
        #expect(try status("POST", "/v1/days", token: token, type: "Application/JSON; charset=utf-8", body) == 202)
        #expect(try status("POST", "/v1/days", token: token, type: nil, body) == 202)
        #expect(try status("POST", "/v1/days", token: token, "") == 400)
        #expect(try status("POST", "/v1/days", token: token, "{") == 400)
        #expect(try status("POST", "/v1/days", token: token, IngestUnderTest.body(source: "oura")) == 403)
        #expect(try status("POST", "/v1/days", token: token, IngestUnderTest.body(steps: -5)) == 422)
        let wrongMethod = try client.request("GET", "/v1/days", token: token)
        #expect(wrongMethod.status == 405 && wrongMethod.head.contains("Allow: POST"))
        let problem = try client.request("POST", "/v1/days", body: body)
        #expect(problem.head.contains("application/problem+json") && problem.head.contains("WWW-Authenticate: Bearer"))
        #expect(problem.body.contains(#""code":"missing""#))
        let user = "00000000-0000-4000-8000-00000000000f"
        let connector = try IngestUnderTest.token("a-connector", role: .connector)
        let oura = IngestUnderTest.body(source: "oura")
        #expect(try status("POST", "/v1/users/\(user)/days", token: connector, oura) == 202)
        #expect(try status("POST", "/v1/users/\(user)/days", token: token, oura) == 403)
        #expect(try ingest.records(.live).contains { (try? $0.get().user) == UserID(user) })
        #expect(ingest.metrics.contains(#"daybook_ingest_requests_total{route="/v1/days",status="422"} 1"#))
        #expect(ingest.metrics.contains(#"daybook_ingest_refusals_total{reason="media_type"} 1"#))
        #expect(!ingest.logLines.joined().contains(token))
    }

    @Test func `nobody decompresses for a client that is not let in`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        func outcome(_ path: String, token: String?, type: String = "application/json") throws -> String {
            let answer = try client.request(
                "POST",
                path,
                token: token,
                type: type,
                headers: ["Content-Encoding: gzip"],
                body: "no gzip"
            )
            let code = answer.body.split(separator: "\"").drop { $0 != "code" }.dropFirst(2).first ?? ""
            return "\(answer.status) \(code)"
        }
        // What is no gzip is only found by whoever looks into it.
        #expect(try outcome("/v1/days", token: token) == "400 bad_gzip")
        #expect(try outcome("/v1/days", token: nil) == "401 missing")
        #expect(try outcome("/v1/days", token: token + "x") == "401 bad_signature")
        #expect(try outcome("/v1/days", token: IngestUnderTest.token(role: .connector)) == "403 forbidden")
        #expect(try outcome("/v1/days", token: token, type: "text/plain") == "415 media_type")
        #expect(try outcome("/nowhere", token: nil) == "404 not_found")
        #expect(try outcome("/v1/account", token: token) == "405 method_not_allowed")
        #expect(ingest.metrics.contains(#"daybook_ingest_requests_total{route="/v1/days",status="401"} 2"#))
    }

    @Test func `strict refuses the whole request for one bad day`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        let day = IngestUnderTest.today
        let body =
            #"{"source":"manual","days":[{"date":"\#(day)","steps":1},{"date":"\#(day.advanced(by: -1))","steps":-1}]}"#
        #expect(try client.request("POST", "/v1/days?strict=true", token: token, body: body).status == 422)
        #expect(try ingest.records(.live).isEmpty)
        #expect(try client.request("POST", "/v1/days?strict=false&x=1", token: token, body: body).status == 202)
        #expect(try ingest.records(.live).count == 1)
    }

    @Test func `why Kafka did not take a record is told by the error's name, once, and says nothing of the record`()
        throws
    {
        let ingest = try IngestUnderTest(["DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000"])
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        for _ in 0..<3 {
            try ingest.cluster.failProduceRequests(with: [87])
            #expect(try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 503)
        }
        let lines = ingest.logLines.filter { $0.contains("records were not acknowledged") }
        #expect(lines.count == 1)
        #expect(lines.first?.contains(#""code":"INVALID_RECORD""#) == true)
        #expect(lines.first?.contains(#""topic":"daybook.days.live.v1""#) == true)
        #expect(!ingest.logLines.joined().contains("8421"))
    }

    @Test func `a record that Kafka refuses is a 503, and safe to send again`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000"])
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        // INVALID_RECORD is not retried.
        try ingest.cluster.failProduceRequests(with: [87])
        let refused = try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body())
        #expect(refused.status == 503 && refused.head.contains("Retry-After:"))
        #expect(refused.body.contains("not_confirmed"))
        #expect(ingest.metrics.contains(#"daybook_ingest_refusals_total{reason="not_acknowledged"} 1"#))
        #expect(try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 202)
    }

    @Test func `while the broker is away requests get 503 inside the deadline, and 2xx soon after`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_REQUEST_DEADLINE_MS": "500"])
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        try ingest.cluster.setDown(broker: 1)
        let start = Deadline.after(milliseconds: 1500)
        let refused = try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body())
        #expect(refused.status == 503 && !start.hasPassed())
        try ingest.cluster.setUp(broker: 1)
        try waitUntil("accepted again") {
            try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 202
        }
    }

    @Test func `readiness follows the broker's going and coming within seconds`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_REQUEST_DEADLINE_MS": "300"])
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        try ingest.cluster.setDown(broker: 1)
        for _ in 0..<3 {
            #expect(try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 503)
        }
        try waitUntil("not ready") { !ingest.server.isReady }
        #expect(try ingest.connectAdmin().request("GET", "/readyz").body.contains("kafka_unconfirmed: "))
        try ingest.cluster.setUp(broker: 1)
        try waitUntil("ready again") { ingest.server.isReady }
    }

    @Test func `what a failed heartbeat would have told is told by the next`() throws {
        let ingest = try IngestUnderTest(partitions: 1)
        // INVALID_RECORD is not retried.
        try ingest.cluster.failProduceRequests(with: Array(repeating: 87, count: 1000))
        let client = try ingest.connect()
        for _ in 0..<3 {
            let foreign = try IngestUnderTest.foreignToken()
            #expect(try client.request("POST", "/v1/days", token: foreign, body: IngestUnderTest.body()).status == 401)
        }
        let failures = try #require(ingest.heartbeats("failed"))
        try waitUntil("rounds that fail") { try #require(ingest.heartbeats("failed")) >= failures + 3 }
        try ingest.cluster.clearProduceErrors()
        let reader = try KafkaReader(
            properties: [("bootstrap.servers", ingest.cluster.bootstrapServers)],
            log: { _ in }
        )
        try reader.start(TopicPartition(topic: "daybook.days.live.v1", partition: 0), from: .beginning)
        var requests: Int64 = 0
        try waitUntil("all requests are told") {
            guard let record = try reader.next(timeoutMilliseconds: 1000) else { return false }
            let text = record.withValue {
                String(decoding: $0 ?? UnsafeRawBufferPointer(start: nil, count: 0), as: UTF8.self)
            }
            requests += text.split { !$0.isNumber }.first.flatMap { Int64($0) } ?? 0
            return requests == 3
        }
        reader.stop()
    }

    @Test func `after a fatal error the next request works, with a new producer`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000"])
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        // OUT_OF_ORDER_SEQUENCE_NUMBER ends an idempotent producer.
        try ingest.cluster.failProduceRequests(with: [45])
        let refused = try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body())
        try ingest.cluster.clearProduceErrors()
        #expect(refused.status == 503)
        try waitUntil("a new producer") { ingest.metrics.contains("daybook_ingest_producers_replaced_total 1") }
        #expect(try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 202)
    }

    @Test func `the admin address tells who is ready, and why not`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_KAFKA_BROKERS": "127.0.0.1:1"], waitsUntilReady: false)
        let admin = try ingest.connectAdmin()
        #expect(try admin.request("GET", "/livez").status == 200)
        let readiness = try admin.request("GET", "/readyz")
        #expect(readiness.status == 503 && readiness.body.contains("topics_unknown: "))
        #expect(try admin.request("GET", "/metrics").body.contains("daybook_ingest_ready 0"))
        #expect(try admin.request("POST", "/metrics", body: "").status == 405)
        #expect(try admin.request("GET", "/v1/days").status == 404)
        let client = try ingest.connect()
        let refused = try client.request(
            "POST",
            "/v1/days",
            token: IngestUnderTest.token(),
            body: IngestUnderTest.body()
        )
        #expect(refused.status == 503 && refused.body.contains("not_ready"))
        #expect(ingest.metrics.contains(#"daybook_ingest_refusals_total{reason="not_ready"} 1"#))
        #expect(ingest.finish())
        let ready = try IngestUnderTest()
        #expect(try ready.connectAdmin().request("GET", "/readyz").body == #"{"status":"ready","reasons":[]}"#)
        #expect(
            ready.logLines.contains { $0.contains(#""message":"listening""#) && $0.contains(#""address":"127.0.0.1:"#) }
        )
    }

    @Test func `heartbeats reach every live partition and count requests`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        #expect(
            try client.request("POST", "/v1/days", token: IngestUnderTest.token(), body: IngestUnderTest.body()).status
                == 202
        )
        let foreign = try IngestUnderTest.foreignToken()
        #expect(try client.request("POST", "/v1/days", token: foreign, body: IngestUnderTest.body()).status == 401)
        // Whatever writes counts, but for what is the client's own fault: one that loops is no shut door.
        for _ in 0..<5 {
            let token = try IngestUnderTest.token()
            #expect(try client.request("POST", "/v1/days", body: IngestUnderTest.body()).status == 401)
            #expect(try client.request("POST", "/v1/days", token: token, body: "{").status == 400)
            #expect(try client.request("POST", "/v1/days", token: token, type: "a/b", body: "{}").status == 415)
            let negative = IngestUnderTest.body(steps: -1)
            #expect(try client.request("POST", "/v1/days", token: token, body: negative).status == 422)
        }
        #expect(try client.request("DELETE", "/v1/account", token: IngestUnderTest.token()).status == 202)
        #expect(try client.request("GET", "/openapi.json").status == 200)
        #expect(try client.request("GET", "/nowhere").status == 404)
        let reader = try KafkaReader(
            properties: [("bootstrap.servers", ingest.cluster.bootstrapServers)],
            log: { _ in }
        )
        for partition in Int32(0)..<4 {
            var requests: Int64 = 0
            var answered: Int64 = 0
            try reader.start(TopicPartition(topic: "daybook.days.live.v1", partition: partition), from: .beginning)
            try waitUntil("a heartbeat with counts on \(partition)") {
                guard let record = try reader.next(timeoutMilliseconds: 1000),
                    record.header(named: "schema") == Array("heartbeat/1".utf8)
                else { return false }
                let text = record.withValue {
                    String(decoding: $0 ?? UnsafeRawBufferPointer(start: nil, count: 0), as: UTF8.self)
                }
                let numbers = text.split { !$0.isNumber }.compactMap { Int64($0) }
                requests += numbers.first ?? 0
                answered += numbers.last ?? 0
                return requests == 3 && answered == 2
            }
            reader.stop()
        }
    }

    @Test func `a drain answers what is in flight, then ends`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 300)
        client.begin("POST", "/v1/days", token: try IngestUnderTest.token(), body: IngestUnderTest.body())
        try waitUntil("in flight") { ingest.metrics.contains("daybook_ingest_waiting_requests 1") }
        ingest.beginStop()
        let answer = try client.answer()
        #expect(answer.status == 202 && answer.head.contains("Connection: close"))
        #expect(ingest.finish())
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 0)
        #expect(try ingest.records(.live).count == 1)
    }

    @Test func `a drain with the broker away ends all the same, and leaves no request hanging`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_GRACE_PERIOD_MS": "3000", "DAYBOOK_REQUEST_DEADLINE_MS": "60000"])
        let client = try ingest.connect()
        try ingest.cluster.setDown(broker: 1)
        client.begin("POST", "/v1/days", token: try IngestUnderTest.token(), body: IngestUnderTest.body())
        try waitUntil("in flight") { ingest.metrics.contains("daybook_ingest_waiting_requests 1") }
        ingest.beginStop()
        #expect(try client.answer().status == 503)
        #expect(ingest.finish())
    }

    @Test func `several loops share the port and one producer`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_INGEST_LOOPS": "3"])
        let token = try IngestUnderTest.token()
        let clients = try (0..<24).map { _ in try ingest.connect() }
        for client in clients { client.begin("POST", "/v1/days", token: token, body: IngestUnderTest.body()) }
        for client in clients { #expect(try client.answer().status == 202) }
        #expect(try ingest.records(.live).count == 24)
        #expect(ingest.finish())
    }

    @Test func `large bodies and unknown encodings are refused`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_MAX_BODY_BYTES": "2048"])
        let client = try ingest.connect()
        let large = IngestUnderTest.body() + String(repeating: " ", count: 4096)
        #expect(try client.request("POST", "/v1/days", token: IngestUnderTest.token(), body: large).status == 413)
        let other = try ingest.connect()
        let unknown = try other.request(
            "POST",
            "/v1/days",
            token: IngestUnderTest.token(),
            headers: ["Content-Encoding: br"],
            body: IngestUnderTest.body()
        )
        #expect(unknown.status == 415)
    }
}

import Authentication
import Domain
import Kafka
import MessageContract
import ServiceRuntime
import Testing

@testable import IngestService

/// What becomes of requests when Kafka is slow, away or full.
@Suite(.serialized)
struct BackPressureTests {
    private let quiet = ["DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000", "DAYBOOK_RATE_LIMIT_PER_MINUTE": "0"]

    private func ingest(_ settings: [String: String], partitions: Int = 4) throws -> IngestUnderTest {
        try IngestUnderTest(quiet.merging(settings) { $1 }, partitions: partitions)
    }

    private func post(_ client: Client, _ token: String, _ body: String = IngestUnderTest.body()) throws
        -> Client.Answer
    {
        try client.request("POST", "/v1/days", token: token, body: body)
    }

    /// A metric's value as the admin address shows it.
    private func metric(_ name: String, _ ingest: IngestUnderTest) -> Int {
        let line = ingest.metrics.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line.flatMap { $0.split(separator: " ").last }.flatMap { Double($0) }.map { Int($0) } ?? 0
    }

    /// 2xx comes back within two seconds from now.
    private func expectReturn(_ ingest: IngestUnderTest, _ token: String, _ what: String) throws {
        let time = SystemTime()
        let start = time.monotonicNanoseconds()
        let client = try ingest.connect()
        try waitUntil("2xx again after \(what)") { try post(client, token).status == 202 }
        let milliseconds = (time.monotonicNanoseconds() - start) / 1_000_000
        print("\(what): 2xx \(milliseconds) ms after the end of it")
        #expect(milliseconds < 2000, "\(what)")
    }

    private func isAwayProblem(_ answer: Client.Answer, _ code: String) -> Bool {
        answer.status == 503 && answer.head.contains("Retry-After: ") && answer.body.contains(#""code":"\#(code)""#)
    }

    @Test func `with a full queue 500 posts at once get their 503 at once, and memory is bounded (C12)`() throws {
        let ingest = try ingest([
            "DAYBOOK_KAFKA_QUEUE_BUFFERING_MAX_MESSAGES": "100", "DAYBOOK_REQUEST_DEADLINE_MS": "3000",
        ])
        let token = try IngestUnderTest.token()
        try ingest.cluster.setDown(broker: 1)
        let clients = try (0..<500).map { _ in try ingest.connect() }
        let immediate = Deadline.after(milliseconds: 2000)
        for client in clients { client.begin("POST", "/v1/days", token: token, body: IngestUnderTest.body()) }
        let refused = #"daybook_ingest_refusals_total{reason="queue_full"}"#
        try waitUntil("400 are refused") { metric(refused, ingest) == 400 }
        #expect(!immediate.hasPassed())
        #expect(metric("daybook_ingest_waiting_requests", ingest) == 100)
        #expect((1...100_000).contains(metric("daybook_ingest_in_flight_bytes", ingest)))
        var codes: [String: Int] = [:]
        for client in clients {
            let answer = try client.answer()
            for code in ["queue_full", "not_confirmed"] where isAwayProblem(answer, code) {
                codes[code, default: 0] += 1
            }
        }
        #expect(codes == ["queue_full": 400, "not_confirmed": 100])
        #expect(metric(#"daybook_ingest_refusals_total{reason="deadline"}"#, ingest) == 100)
        try ingest.cluster.setUp(broker: 1)
        try expectReturn(ingest, token, "a full queue")
        try waitUntil("nothing in flight") { metric("daybook_ingest_in_flight_bytes", ingest) == 0 }
    }

    /// Records with much in them, and records with nothing, whose senders are told of every zero that was left out.
    @Test(arguments: [false, true])
    func `more bytes than may be in flight are refused at once, and every byte is given back`(areZeros: Bool) throws {
        // Long enough for all to come before the first gives up, under a sanitizer too.
        let ingest = try ingest(["DAYBOOK_MAX_IN_FLIGHT_BYTES": "1048576", "DAYBOOK_REQUEST_DEADLINE_MS": "8000"])
        let token = try IngestUnderTest.token()
        let today = IngestUnderTest.today
        let zeros = MetricLedger.definitions.map { #""\#($0.name)":0"# }.joined(separator: ",")
        let days = (0..<400).map { number in
            areZeros
                ? #"{"date":"\#(today.advanced(by: -number))",\#(zeros)}"#
                : #"{"date":"\#(today.advanced(by: -number))","steps":\#(10_000 + number),"active_energy_kcal":612.5,"#
                    + #""sleep_minutes":431,"distance_m":7421.5,"flights_climbed":12,"water_ml":1500,"hrv_sdnn_ms":43.2}"#
        }
        let body = #"{"source":"apple_health","days":[\#(days.joined(separator: ","))]}"#
        try ingest.cluster.setDown(broker: 1)
        let clients = try (0..<40).map { _ in try ingest.connect() }
        for client in clients { client.begin("POST", "/v1/days", token: token, body: body) }
        try waitUntil("some are refused") {
            metric(#"daybook_ingest_refusals_total{reason="overloaded"}"#, ingest)
                + metric("daybook_ingest_waiting_requests", ingest) == 40
        }
        let inFlight = metric("daybook_ingest_in_flight_bytes", ingest)
        #expect((500_000...1_048_576).contains(inFlight), "\(inFlight)")
        var codes: [String: Int] = [:]
        for client in clients {
            let answer = try client.answer()
            for code in ["overloaded", "not_confirmed"] where isAwayProblem(answer, code) {
                codes[code, default: 0] += 1
            }
        }
        #expect((codes["overloaded"] ?? 0) > 20 && codes.values.reduce(0, +) == 40, "\(codes)")
        try ingest.cluster.setUp(broker: 1)
        try expectReturn(ingest, token, "too many bytes in flight")
        try waitUntil("nothing in flight") { metric("daybook_ingest_in_flight_bytes", ingest) == 0 }
    }

    @Test func `a broker that hangs costs each request its deadline and no more`() throws {
        let ingest = try ingest(["DAYBOOK_REQUEST_DEADLINE_MS": "500"])
        let token = try IngestUnderTest.token()
        let client = try ingest.connect()
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 60_000)
        for _ in 0..<3 {
            let limit = Deadline.after(milliseconds: 1500)
            #expect(isAwayProblem(try post(client, token), "not_confirmed"))
            #expect(!limit.hasPassed())
        }
        #expect(try ingest.connectAdmin().request("GET", "/livez").status == 200)
        // What hung is over when its connections are: answers that were held back would hold back the next ones.
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 0)
        try ingest.cluster.setDown(broker: 1)
        try ingest.cluster.setUp(broker: 1)
        try expectReturn(ingest, token, "a broker that hung")
    }

    @Test func `a partition without a leader refuses its own users alone`() throws {
        let ingest = try ingest(["DAYBOOK_REQUEST_DEADLINE_MS": "700"], partitions: 2)
        let users = (0..<32).map { UserID(high: UInt64($0) << 32 | 0x4000, low: 0x8000_0000_0000_0000) }
        func user(on partition: Int) throws -> String {
            let found = users.first { Partitioner.partition(of: $0, partitions: 2) == partition }
            return try IngestUnderTest.token(try #require(found).description)
        }
        let (orphan, other) = (try user(on: 0), try user(on: 1))
        let place = TopicPartition(topic: Topic.daysLive.name(prefix: ""), partition: 0)
        try ingest.cluster.setLeader(of: place, broker: -1)
        let clients = (try ingest.connect(), try ingest.connect())
        for _ in 0..<3 {
            #expect(isAwayProblem(try post(clients.0, orphan), "not_confirmed"))
            #expect(try post(clients.1, other).status == 202)
        }
        try ingest.cluster.setLeader(of: place, broker: 1)
        try expectReturn(ingest, orphan, "a partition without a leader")
    }

    @Test func `a start while a partition has no leader is a start for everybody else`() throws {
        let place = TopicPartition(topic: Topic.daysLive.name(prefix: ""), partition: 0)
        let limit = Deadline.after(milliseconds: 5000)
        let ingest = try IngestUnderTest(
            ["DAYBOOK_REQUEST_DEADLINE_MS": "700", "DAYBOOK_RATE_LIMIT_PER_MINUTE": "0"],
            partitions: 2
        ) { try $0.setLeader(of: place, broker: -1) }
        #expect(!limit.hasPassed())
        let users = (0..<32).map { UserID(high: UInt64($0) << 32 | 0x4000, low: 0x8000_0000_0000_0000) }
        let other = try #require(users.first { Partitioner.partition(of: $0, partitions: 2) == 1 })
        let token = try IngestUnderTest.token(other.description)
        #expect(try post(ingest.connect(), token).status == 202)
        // Heartbeats go on where there is a leader, at their usual pace.
        let acknowledged = try #require(ingest.heartbeats("acknowledged"))
        let pace = Deadline.after(milliseconds: 5000)
        try waitUntil("five more heartbeats") { try #require(ingest.heartbeats("acknowledged")) >= acknowledged + 5 }
        #expect(!pace.hasPassed() && ingest.server.isReady)
    }

    @Test(arguments: [1, 2])
    func `a fatal error under load costs 503s and no process (C14)`(loops: Int) throws {
        let ingest = try ingest(["DAYBOOK_INGEST_LOOPS": "\(loops)", "DAYBOOK_REQUEST_DEADLINE_MS": "3000"])
        let token = try IngestUnderTest.token()
        let clients = try (0..<32).map { _ in try ingest.connect() }
        for client in clients { #expect(try post(client, token).status == 202) }
        // OUT_OF_ORDER_SEQUENCE_NUMBER ends an idempotent producer.
        try ingest.cluster.failProduceRequests(with: [45])
        for client in clients { client.begin("POST", "/v1/days", token: token, body: IngestUnderTest.body()) }
        for client in clients {
            let answer = try client.answer()
            #expect(answer.status == 202 || isAwayProblem(answer, "not_confirmed"))
        }
        try waitUntil("a new producer") { metric("daybook_ingest_producers_replaced_total", ingest) == 1 }
        try ingest.cluster.clearProduceErrors()
        for client in clients { #expect(try post(client, token).status == 202) }
        #expect(ingest.finish())
    }

    @Test func `a client that leaves while its record is in flight takes nothing with it`() throws {
        let ingest = try ingest([:])
        let token = try IngestUnderTest.token()
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 300)
        for _ in 0..<20 {
            try ingest.connect().begin("POST", "/v1/days", token: token, body: IngestUnderTest.body())
        }
        try waitUntil("all have left") {
            metric(#"daybook_ingest_connections_closed_total{reason="client_left"}"#, ingest) == 20
                && metric("daybook_ingest_waiting_requests", ingest) == 0
        }
        try waitUntil("nothing in flight") { metric("daybook_ingest_in_flight_bytes", ingest) == 0 }
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 0)
        // Who left before the request was whole has sent none.
        #expect(try ingest.records(.live).count <= 20)
        #expect(try post(ingest.connect(), token).status == 202)
        #expect(metric("daybook_ingest_connections", ingest) <= 1)
    }
}

struct LimitTests {
    @Test func `a user who asks too often gets 429 and a time, and others are not touched`() throws {
        let ingest = try IngestUnderTest([
            "DAYBOOK_RATE_LIMIT_PER_MINUTE": "60", "DAYBOOK_RATE_LIMIT_BURST": "3", "DAYBOOK_INGEST_LOOPS": "2",
        ])
        let user = "00000000-0000-4000-8000-00000000000f"
        let token = try IngestUnderTest.token(user)
        var statuses: [Int] = []
        var refused: Client.Answer?
        // On connections that may be any loop's: there is one bucket for all.
        for _ in 0..<8 {
            let answer = try ingest.connect().request("POST", "/v1/days", token: token, body: IngestUnderTest.body())
            statuses.append(answer.status)
            if answer.status == 429 { refused = answer }
        }
        #expect(statuses.prefix(3) == [202, 202, 202] && statuses.suffix(3).contains(429))
        let answer = try #require(refused)
        #expect(answer.head.contains("Retry-After: 1") && answer.body.contains(#""code":"rate_limited""#))
        let client = try ingest.connect()
        #expect(
            try client.request("POST", "/v1/days", token: IngestUnderTest.token(), body: IngestUnderTest.body()).status
                == 202
        )
        let connector = try IngestUnderTest.token("a-connector", role: .connector)
        let body = IngestUnderTest.body(source: "oura")
        for _ in 0..<3 {
            let path = "/v1/users/\(user)/days"
            #expect(try client.request("POST", path, token: connector, body: body).status == 202)
        }
        #expect(ingest.metrics.contains(#"daybook_ingest_refusals_total{reason="rate_limited"}"#))
        try waitUntil("the next one passes") {
            try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 202
        }
    }

    @Test func `whoever asks too often is refused before anything is decompressed, and a body counts once`() throws {
        let ingest = try IngestUnderTest([
            "DAYBOOK_RATE_LIMIT_PER_MINUTE": "1", "DAYBOOK_RATE_LIMIT_BURST": "2",
        ])
        let client = try ingest.connect()
        let token = try IngestUnderTest.token()
        func post(_ body: [UInt8]) throws -> Client.Answer {
            let head = [
                "POST /v1/days HTTP/1.1", "Host: test", "Authorization: Bearer \(token)", "Content-Encoding: gzip",
                "Content-Length: \(body.count)",
            ]
            client.send(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body)
            return try client.answer()
        }
        let day = storedGzip(Array(IngestUnderTest.body().utf8))
        for _ in 0..<2 { #expect(try post(day).status == 202) }
        for body in [day, Array("no gzip".utf8)] {
            let answer = try post(body)
            #expect(answer.status == 429 && answer.head.contains("Retry-After: "))
        }
        // A body that was no good does not let the next one pass.
        let other = try IngestUnderTest.token("00000000-0000-4000-8000-000000000002")
        let plain = try client.request("POST", "/v1/days", token: other, body: IngestUnderTest.body())
        #expect(plain.status == 202)
        #expect(ingest.metrics.contains(#"daybook_ingest_refusals_total{reason="rate_limited"} 2"#))
    }

    @Test func `a refusal has the id under which logs know it`() throws {
        let ingest = try IngestUnderTest(["DAYBOOK_REQUEST_DEADLINE_MS": "300"])
        let client = try ingest.connect()
        try ingest.cluster.setDown(broker: 1)
        let trace = "0af7651916cd43dd8448eb211c80319c"
        let answer = try client.request(
            "POST",
            "/v1/days",
            token: IngestUnderTest.token(),
            headers: ["traceparent: 00-\(trace)-b7ad6b7169203331-01"],
            body: IngestUnderTest.body()
        )
        #expect(answer.status == 503)
        let start = try #require(answer.body.firstRange(of: #""instance":"urn:uuid:"#)).upperBound
        let id = String(answer.body[start...].prefix(36))
        #expect(EventID(id) != nil)
        let line = try #require(ingest.logLines.first { $0.contains(#""message":"request refused""#) })
        #expect(line.contains(#""event_id":"\#(id)""#) && line.contains(#""trace_id":"\#(trace)""#))
    }
}

/// Several event loops on one port.
@Suite(.serialized)
struct LoopsTests {
    private let two = ["DAYBOOK_INGEST_LOOPS": "2", "DAYBOOK_RATE_LIMIT_PER_MINUTE": "0"]

    private func served(_ loop: Int, _ ingest: IngestUnderTest) -> Int {
        let name = #"daybook_ingest_loop_requests_total{loop="\#(loop)"} "#
        let line = ingest.metrics.split(separator: "\n").first { $0.hasPrefix(name) }
        return line.flatMap { Int($0.dropFirst(name.utf8.count)) } ?? 0
    }

    @Test func `both loops serve, every answer reaches its own client, and heartbeats are sent once`() throws {
        let start = SystemTime().monotonicNanoseconds()
        let ingest = try IngestUnderTest(two)
        let clients = try (0..<64).map { _ in try ingest.connect() }
        let tokens = try (0..<64).map { number in
            try IngestUnderTest.token(UserID(high: UInt64(number) << 32 | 0x4000, low: 1 << 63).description)
        }
        for round in 0..<3 {
            for (client, token) in zip(clients, tokens) {
                client.begin("POST", "/v1/days", token: token, body: IngestUnderTest.body(steps: 1000 + round))
            }
            for client in clients { #expect(try client.answer().status == 202) }
        }
        try waitUntil("both loops have told") { served(0, ingest) + served(1, ingest) == 192 }
        #expect(served(0, ingest) > 0 && served(1, ingest) > 0)
        #expect(try ingest.records(.live).count == 192)
        let answered = try (0..<4).map { try heartbeats(ingest, $0) }
        let milliseconds = Int((SystemTime().monotonicNanoseconds() - start) / 1_000_000)
        for beats in answered { #expect((1...(milliseconds / 200 + 2)).contains(beats)) }
        #expect(try ingest.connectAdmin().request("GET", "/readyz").status == 200)
        #expect(ingest.metrics.contains(#"daybook_ingest_loop_lag_seconds_count"#))
    }

    @Test func `a drain answers what is in flight on both loops`() throws {
        let ingest = try IngestUnderTest(two)
        let token = try IngestUnderTest.token()
        let clients = try (0..<32).map { _ in try ingest.connect() }
        for client in clients {
            #expect(try client.request("POST", "/v1/days", token: token, body: IngestUnderTest.body()).status == 202)
        }
        try waitUntil("both loops have served") { served(0, ingest) > 0 && served(1, ingest) > 0 }
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 400)
        for client in clients { client.begin("POST", "/v1/days", token: token, body: IngestUnderTest.body()) }
        try waitUntil("all wait") { ingest.metrics.contains("daybook_ingest_waiting_requests 32") }
        ingest.beginStop()
        for client in clients {
            let answer = try client.answer()
            #expect(answer.status == 202 && answer.head.contains("Connection: close"))
        }
        #expect(ingest.finish())
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 0)
        #expect(try ingest.records(.live).count == 64)
    }

    private func heartbeats(_ ingest: IngestUnderTest, _ partition: Int32) throws -> Int {
        let reader = try KafkaReader(
            properties: [("bootstrap.servers", ingest.cluster.bootstrapServers)],
            log: { _ in }
        )
        let place = TopicPartition(topic: Topic.daysLive.name(prefix: ""), partition: partition)
        let marks = try reader.watermarks(place, timeoutMilliseconds: 5000)
        try reader.start(place, from: .beginning)
        defer { reader.stop() }
        var count = 0
        while let record = try reader.next(timeoutMilliseconds: 5000) {
            if record.header(named: "schema") == Array("heartbeat/1".utf8) { count += 1 }
            if record.offset >= marks.high - 1 { break }
        }
        return count
    }
}

import Authentication
import Domain
import Kafka
import MessageContract
import Observability
import ServiceRuntime
import Testing

@testable import IngestService

/// What `/metrics` says at one moment.
struct ShownMetrics {
    private var samples: [String: Double] = [:]
    /// Those that have a sample; of a histogram its own name.
    private(set) var families: Set<String> = []

    init(_ text: String) {
        var family = ""
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if line.hasPrefix("# TYPE ") { family = String(words[2]) }
            guard !line.hasPrefix("#"), let value = words.last.flatMap({ Double($0) }) else { continue }
            samples[words.dropLast().joined(separator: " ")] = value
            families.insert(family)
        }
    }

    /// 0 where there is no such sample.
    subscript(_ name: String) -> Double { samples[name] ?? 0 }

    /// The sum over all values of labels.
    func sum(_ name: String) -> Double {
        samples.filter { $0.key.hasPrefix(name + "{") }.values.reduce(0, +)
    }
}

extension IngestUnderTest {
    /// Asked of the admin address, as Prometheus does.
    var shown: ShownMetrics {
        get throws { ShownMetrics(try connectAdmin().request("GET", "/metrics").body) }
    }

    fileprivate func post(_ body: String, path: String = "/v1/days", token: String? = nil) throws -> Int {
        let bearer = try token ?? Self.token()
        return try connect().request("POST", path, token: bearer, body: body).status
    }
}

/// That each metric moves when what it counts happens: one case for every name of the catalogue.
@Suite(.serialized)
struct MetricsTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let show: @Sendable (_ name: String) throws -> Void

        var testDescription: String { name }
    }

    /// The system tests show these: they need a process of their own.
    static let shownElsewhere: Set = ["daybook_ingest_accept_pauses_total"]

    static let cases = counted + measured + keys

    /// Heartbeats come once, so that what is made to fail is a request's record.
    fileprivate static let quiet = ["DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000", "DAYBOOK_RATE_LIMIT_PER_MINUTE": "0"]

    @Test func `every metric of the catalogue has its case`() {
        let named = Self.cases.map(\.name)
        #expect(Set(named).count == named.count)
        let catalogue = Set(IngestMetricsCatalogue.all.map(\.name.description))
        #expect(Set(named).union(Self.shownElsewhere) == catalogue)
        #expect(catalogue.count == IngestMetricsCatalogue.all.count)
    }

    @Test(arguments: counted)
    func `it counts its event, and nothing else`(metric: Case) throws {
        try metric.show(metric.name)
    }

    @Test func `what is shown is the catalogue, and nothing else`() throws {
        let server = try KeyServer()
        server.serve(TestKeys.first)
        let ingest = try IngestUnderTest(["DAYBOOK_JWT_JWKS_URL": server.url, "DAYBOOK_DEVELOPMENT_BROKER": "true"])
        #expect(try ingest.post(IngestUnderTest.body()) == 202)
        #expect(try ingest.post(IngestUnderTest.body(), token: "nonsense") == 401)
        try waitUntil("all are shown") {
            let shown = try ingest.shown.families.subtracting(["daybook_build_info"])
            return shown == Set(IngestMetricsCatalogue.all.map(\.name.description))
        }
        #expect(ingest.registry.conflicts.isEmpty)
    }
}

/// The other half, beside it: each case starts a service of its own.
@Suite(.serialized)
struct MeasuredMetricsTests {
    @Test(arguments: MetricsTests.measured + MetricsTests.keys)
    func `it says what is`(metric: MetricsTests.Case) throws {
        try metric.show(metric.name)
    }
}

extension MetricsTests {
    /// What is counted once for each event.
    private static let counted = [
        Case(name: "daybook_ingest_requests_total") { name in
            let ingest = try IngestUnderTest(quiet)
            for _ in 0..<3 { #expect(try ingest.post(IngestUnderTest.body()) == 202) }
            #expect(try ingest.post(IngestUnderTest.body(), token: "nonsense") == 401)
            #expect(try ingest.post(IngestUnderTest.body(), path: "/nowhere") == 404)
            #expect(try ingest.connect().request("BREW", "/v1/days").status == 400)
            let shown = try ingest.shown
            #expect(shown[#"\#(name){route="/v1/days",status="202"}"#] == 3)
            #expect(shown[#"\#(name){route="/v1/days",status="401"}"#] == 1)
            #expect(shown[#"\#(name){route="none",status="404"}"#] == 1)
            #expect(shown[#"\#(name){route="none",status="400"}"#] == 1)
            #expect(shown.sum(name) == 6)
        },
        Case(name: "daybook_ingest_refusals_total") { name in
            let ingest = try IngestUnderTest(quiet)
            #expect(try ingest.post(IngestUnderTest.body()) == 202)
            #expect(try ingest.shown.sum(name) == 0)
            for _ in 0..<2 { #expect(try ingest.post(IngestUnderTest.body(), token: "nonsense") == 401) }
            #expect(try ingest.post("[]") == 400)
            #expect(try ingest.connect().request("POST", "/v1/days").status == 411)
            let shown = try ingest.shown
            #expect(shown[#"\#(name){reason="malformed"}"#] == 2)
            #expect(shown[#"\#(name){reason="bad_shape"}"#] == 1)
            #expect(shown[#"\#(name){reason="length_required"}"#] == 1)
            #expect(shown.sum(name) == 4)
        },
        Case(name: "daybook_ingest_days_total") { name in
            let ingest = try IngestUnderTest(quiet)
            let day = IngestUnderTest.today
            let days = [
                #"{"date":"\#(day)","steps":1}"#, #"{"date":"\#(day.advanced(by: -1))","steps":2,"water_ml":0}"#,
                #"{"date":"\#(day.advanced(by: -2))","steps":0.5}"#,
            ]
            #expect(try ingest.post(#"{"source":"apple_health","days":[\#(days.joined(separator: ","))]}"#) == 202)
            let shown = try ingest.shown
            #expect(shown[#"\#(name){outcome="accepted"}"#] == 2)
            #expect(shown[#"\#(name){outcome="skipped"}"#] == 1)
            #expect(shown[#"\#(name){outcome="error"}"#] == 1)
        },
        Case(name: "daybook_ingest_points_total") { name in
            let ingest = try IngestUnderTest(quiet)
            let points = [
                #"{"timestamp":"2026-09-02T20:00:00Z","steps":3}"#, #"{"timestamp":"2026-09-02T20:01:00Z","steps":4}"#,
                #"{"timestamp":"never","steps":5}"#,
            ]
            let body = #"{"device_id":"w","points":[\#(points.joined(separator: ","))]}"#
            #expect(try ingest.post(body, path: "/api/v1/wearable/data") == 202)
            let shown = try ingest.shown
            #expect(shown[#"\#(name){outcome="accepted"}"#] == 2)
            #expect(shown[#"\#(name){outcome="error"}"#] == 1)
        },
        Case(name: "daybook_ingest_records_total") { name in
            let ingest = try IngestUnderTest(quiet)
            #expect(try ingest.post(IngestUnderTest.body()) == 202)
            #expect(try ingest.connect().request("DELETE", "/v1/account", token: IngestUnderTest.token()).status == 202)
            // INVALID_RECORD: not tried again.
            try ingest.cluster.failProduceRequests(with: [87])
            #expect(try ingest.post(IngestUnderTest.body()) == 503)
            let shown = try ingest.shown
            #expect(shown[#"\#(name){topic="daybook.days.live.v1",outcome="acknowledged"}"#] == 1)
            #expect(shown[#"\#(name){topic="daybook.accounts.v1",outcome="acknowledged"}"#] == 1)
            #expect(shown[#"\#(name){topic="daybook.days.live.v1",outcome="failed"}"#] == 1)
            #expect(shown.sum(name) == 3)
        },
        Case(name: "daybook_ingest_heartbeats_total") { name in
            let ingest = try IngestUnderTest(["DAYBOOK_HEARTBEAT_INTERVAL_MS": "200"])
            let before = try ingest.shown[#"\#(name){outcome="acknowledged"}"#]
            #expect(try ingest.shown[#"\#(name){outcome="failed"}"#] == 0)
            try waitUntil("two more rounds") { try ingest.shown[#"\#(name){outcome="acknowledged"}"#] >= before + 8 }
            try ingest.cluster.failProduceRequests(with: [87, 87])
            try waitUntil("failed ones") { try ingest.shown[#"\#(name){outcome="failed"}"#] > 0 }
        },
        Case(name: "daybook_ingest_producers_replaced_total") { name in
            let ingest = try IngestUnderTest(quiet)
            #expect(try ingest.post(IngestUnderTest.body()) == 202)
            #expect(try ingest.shown[name] == 0)
            // OUT_OF_ORDER_SEQUENCE_NUMBER ends an idempotent producer.
            try ingest.cluster.failProduceRequests(with: [45])
            _ = try ingest.post(IngestUnderTest.body())
            try waitUntil("a new producer") { try ingest.shown[name] == 1 }
        },
        Case(name: "daybook_ingest_received_bytes_total") { name in
            let ingest = try IngestUnderTest(quiet)
            let client = try ingest.connect()
            let token = try IngestUnderTest.token()
            let body = IngestUnderTest.body()
            let head = "POST /v1/days HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(token)\r\n"
            let sent = head + "Content-Length: \(body.utf8.count)\r\nContent-Type: application/json\r\n\r\n" + body
            client.send(sent)
            #expect(try client.answer().status == 202)
            let refused = "GET /nowhere HTTP/1.1\r\nHost: test\r\n\r\n"
            client.send(refused)
            #expect(try client.answer().status == 404)
            let bytes = Double(sent.utf8.count + refused.utf8.count)
            try waitUntil("all bytes are told") { try ingest.shown[name] >= bytes }
            #expect(try ingest.shown[name] == bytes)
        },
        Case(name: "daybook_ingest_record_bytes_total") { name in
            let ingest = try IngestUnderTest(quiet)
            #expect(try ingest.post(IngestUnderTest.body()) == 202)
            #expect(try ingest.connect().request("DELETE", "/v1/account", token: IngestUnderTest.token()).status == 202)
            let shown = try ingest.shown
            for topic in [Topic.daysLive, .accounts] {
                let bytes = try ingest.texts(topic).map { $0.key.utf8.count + $0.value.utf8.count }
                #expect(bytes.count == 1 && shown[#"\#(name){topic="\#(topic.name)"}"#] == Double(bytes[0]))
            }
        },
        Case(name: "daybook_ingest_loop_requests_total") { name in
            let ingest = try IngestUnderTest(quiet.merging(["DAYBOOK_INGEST_LOOPS": "2"]) { $1 })
            for _ in 0..<5 { #expect(try ingest.post(IngestUnderTest.body()) == 202) }
            #expect(try ingest.post(IngestUnderTest.body(), token: "nonsense") == 401)
            try waitUntil("both loops have told") { try ingest.shown.sum(name) >= 6 }
            let shown = try ingest.shown
            #expect(shown[#"\#(name){loop="0"}"#] + shown[#"\#(name){loop="1"}"#] == 6 && shown.sum(name) == 6)
        },
        Case(name: "daybook_ingest_connections_closed_total") { name in
            let ingest = try IngestUnderTest(quiet.merging(["DAYBOOK_IDLE_TIMEOUT_MS": "1000"]) { $1 })
            for _ in 0..<2 { #expect(try ingest.post(IngestUnderTest.body()) == 202) }
            try waitUntil("two have left") { try ingest.shown[#"\#(name){reason="client_done"}"#] == 2 }
            try ingest.connect().send("POST /v1/days HTTP/1.1\r\nHost")
            try waitUntil("one left in the middle") { try ingest.shown[#"\#(name){reason="client_left"}"#] == 1 }
            let idle = try ingest.connect()
            #expect(try idle.request("GET", "/openapi.json").status == 200)
            try waitUntil("one rested too long") { try ingest.shown[#"\#(name){reason="idle"}"#] == 1 }
            #expect(try ingest.shown.sum(name) == 4)
        },
    ]

    /// What is the case just now, and how long things take.
    fileprivate static let measured = [
        Case(name: "daybook_ingest_request_seconds") { name in
            let ingest = try IngestUnderTest(quiet)
            try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 300)
            #expect(try ingest.post(IngestUnderTest.body()) == 202)
            let slow = try ingest.shown
            #expect(slow[name + "_count"] == 1 && (0.3...5).contains(slow[name + "_sum"]))
            #expect(slow[#"\#(name)_bucket{le="0.25"}"#] == 0 && slow[#"\#(name)_bucket{le="+Inf"}"#] == 1)
            #expect(try ingest.post(IngestUnderTest.body(), token: "nonsense") == 401)
            let both = try ingest.shown
            #expect(both[name + "_count"] == 2 && both[#"\#(name)_bucket{le="0.25"}"#] == 1)
        },
        Case(name: "daybook_ingest_acknowledgement_seconds") { name in
            let ingest = try IngestUnderTest(quiet)
            try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 300)
            #expect(try ingest.post(IngestUnderTest.body()) == 202)
            // Nothing of it was handed to Kafka.
            #expect(try ingest.post(IngestUnderTest.body(), token: "nonsense") == 401)
            let shown = try ingest.shown
            #expect(shown[name + "_count"] == 1 && (0.3...5).contains(shown[name + "_sum"]))
        },
        Case(name: "daybook_ingest_queue_records") { name in try whileInFlight { try $0.shown[name] == 1 } },
        Case(name: "daybook_ingest_waiting_requests") { name in try whileInFlight { try $0.shown[name] == 1 } },
        Case(name: "daybook_ingest_in_flight_bytes") { name in
            try whileInFlight { ingest in
                let shown = try ingest.shown
                return shown[name] > 0 && shown[name] == shown.sum("daybook_ingest_record_bytes_total")
            }
        },
        Case(name: "daybook_ingest_loop_lag_seconds") { name in
            // How late is shown by the system tests, which can stop a process.
            let ingest = try IngestUnderTest(quiet)
            let before = try ingest.shown[name + "_count"]
            let start = SystemTime().monotonicNanoseconds()
            try waitUntil("four more looks") { try ingest.shown[name + "_count"] >= before + 4 }
            #expect(SystemTime().monotonicNanoseconds() - start > 700_000_000)
            #expect(try ingest.shown[name + "_sum"] >= 0)
        },
        Case(name: "daybook_ingest_connections") { name in
            let ingest = try IngestUnderTest(quiet)
            #expect(try ingest.shown[name] == 0)
            var clients = try (0..<3).map { _ in try ingest.connect() }
            try waitUntil("three are there") { try ingest.shown[name] == 3 }
            clients.removeLast()
            try waitUntil("one has left") { try ingest.shown[name] == 2 }
            #expect(clients.count == 2)
        },
        Case(name: "daybook_ingest_ready") { name in
            let ingest = try IngestUnderTest(quiet.merging(["DAYBOOK_DRAIN_DELAY_MS": "5000"]) { $1 })
            #expect(try ingest.shown[name] == 1)
            let admin = try ingest.connectAdmin()
            ingest.beginStop()
            try waitUntil("not ready") { ShownMetrics(try admin.request("GET", "/metrics").body)[name] == 0 }
        },
        Case(name: "daybook_ingest_clock_skew_seconds") { name in
            // The mock's append times are near 1970: ours is ahead by all that has passed since.
            let ingest = try IngestUnderTest(
                quiet.merging(["DAYBOOK_DEVELOPMENT_BROKER": "false"]) { $1 },
                waitsUntilReady: false
            )
            try waitUntil("it is told") { try ingest.shown[name] != 0 }
            let now = Double(SystemTime().wallMicroseconds()) / 1e6
            #expect(abs(try ingest.shown[name] - now) < 86_400)
        },
    ]

    fileprivate static let keys = [
        Case(name: "daybook_ingest_token_keys") { name in
            let server = try KeyServer()
            server.serve(TestKeys.first)
            let ingest = try IngestUnderTest(quiet.merging(["DAYBOOK_JWT_JWKS_URL": server.url]) { $1 })
            try waitUntil("the JWKS is read") { try ingest.shown[#"\#(name){algorithm="ES256"}"#] == 1 }
            #expect(try ingest.shown[#"\#(name){algorithm="HS256"}"#] == 1)
            #expect(try ingest.shown[#"\#(name){algorithm="RS256"}"#] == 0)
        },
        Case(name: "daybook_ingest_token_keys_refreshed_timestamp_seconds") { name in
            let server = try KeyServer()
            let ingest = try IngestUnderTest(quiet.merging(["DAYBOOK_JWT_JWKS_URL": server.url]) { $1 })
            let label = #"\#(name){source="jwks_url"}"#
            #expect(try ingest.shown[label] == 0)
            let before = Double(SystemTime().wallMicroseconds()) / 1e6
            server.serve(TestKeys.first)
            try waitUntil("the JWKS is read") { try ingest.shown[label] > 0 }
            let after = Double(SystemTime().wallMicroseconds()) / 1e6
            #expect((before...after).contains(try ingest.shown[label]))
        },
        Case(name: "daybook_ingest_token_keys_failures_total") { name in
            let server = try KeyServer()
            let ingest = try IngestUnderTest(quiet.merging(["DAYBOOK_JWT_JWKS_URL": server.url]) { $1 })
            let label = #"\#(name){source="jwks_url"}"#
            try waitUntil("a look failed") { try ingest.shown[label] == 1 }
            try waitUntil("another one failed") { try ingest.shown[label] == 2 }
        },
    ]

    /// Sends a request whose record Kafka takes half a second for, and holds that something is so only meanwhile.
    private static func whileInFlight(_ holds: (IngestUnderTest) throws -> Bool) throws {
        let ingest = try IngestUnderTest(quiet)
        let client = try ingest.connect()
        #expect(try !holds(ingest))
        try ingest.cluster.setRoundTrip(broker: 1, milliseconds: 500)
        client.begin("POST", "/v1/days", token: try IngestUnderTest.token(), body: IngestUnderTest.body())
        try waitUntil("it is in flight") { try holds(ingest) }
        #expect(try client.answer().status == 202)
        try waitUntil("it is no longer") { try !holds(ingest) }
    }
}

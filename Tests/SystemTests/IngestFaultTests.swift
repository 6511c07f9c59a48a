import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// The built ingest service while something fails.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `The ingest service under faults` {
    private let today = IngestUnderTest.today

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `while the broker is down requests get 503 inside the deadline, and 2xx soon after its return (C11)`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let kafka = try KafkaUnderTest.start(kind)
        defer { kafka.stop() }
        let ingest = try IngestUnderTest(on: kafka, ["DAYBOOK_REQUEST_DEADLINE_MS": "1000"])
        #expect(try ingest.post(IngestUnderTest.body()).status == 202)
        try kafka.takeDown()
        let connection = try ingest.connect()
        let body = Array(IngestUnderTest.body().utf8)
        for _ in 0..<3 {
            let start = monotonicSeconds()
            let answer = try connection.request("POST", "/v1/days", token: IngestUnderTest.token(), body: body)
            #expect(monotonicSeconds() - start < 3)
            #expect(answer.status == 503 && answer.header("Retry-After").flatMap { Int($0) } != nil)
            #expect(AnswerBody(answer.body).code == "not_confirmed")
        }
        #expect(try ingest.admin("/livez").status == 200)
        try kafka.bringBack()
        let start = monotonicSeconds()
        try Eventually.holds("2xx again", seconds: 15) { try ingest.post(IngestUnderTest.body()).status == 202 }
        // The real one is back before it serves: what counts from there on is in the nightly test over three nodes.
        if kind == .mock { #expect(monotonicSeconds() - start < 2) }
        print("C11 on \(kind.rawValue): 2xx \(Int((monotonicSeconds() - start) * 1000)) ms after the broker's return")
        #expect(try ingest.process.stop() == 0)
    }

    @Test func `a record that Kafka refuses after all is a 503 and never a 2xx (C13)`() throws {
        let ingest = try IngestUnderTest(on: .mock(topics: []), ["DAYBOOK_HEARTBEAT_INTERVAL_MS": "60000"])
        defer { ingest.kafka.stop() }
        let mock = try #require(ingest.kafka.mock)
        try ingest.waitForAllHeartbeats()
        // INVALID_RECORD, TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION: none is tried again.
        for code: Int32 in [87, 29, 17] {
            try mock.failProduceRequests(with: [code])
            let answer = try ingest.post(IngestUnderTest.body(steps: 6666))
            #expect(answer.status == 503 && answer.header("Retry-After") != nil, "\(code): \(answer.body)")
            try mock.clearProduceErrors()
            // An unauthorized topic is refused by librdkafka itself until metadata say otherwise, within a second or so.
            try Eventually.holds("2xx again after \(code)", seconds: 10) {
                try ingest.post(IngestUnderTest.body()).status == 202
            }
        }
        #expect(try !ingest.records(.live).contains { $0.value.contains("6666") })
    }

    @Test(arguments: KafkaUnderTest.all)
    func `the first request after readiness is as fast as the second (C16)`(kafka: KafkaUnderTest) throws {
        let ingest = try IngestUnderTest(on: kafka)
        let connection = try ingest.connect()
        let bytes = HTTPConnection.bytes(
            "POST",
            "/v1/days",
            token: try IngestUnderTest.token(),
            body: Array(IngestUnderTest.body().utf8)
        )
        var milliseconds: [Double] = []
        for _ in 0..<21 {
            let start = monotonicSeconds()
            connection.send(bytes)
            #expect(try connection.answer().status == 202)
            milliseconds.append((monotonicSeconds() - start) * 1000)
        }
        let median = milliseconds.dropFirst().sorted()[10]
        print("C16 on \(kafka): the first \(milliseconds[0]) ms, then \(median) ms")
        #expect(milliseconds[0] < 200 && milliseconds[0] < 20 * max(median, 2), "\(milliseconds)")
    }

    @Test(arguments: KafkaUnderTest.all)
    func `after a kill -9 under load every 2xx is in the log (D1)`(kafka: KafkaUnderTest) throws {
        let ingest = try IngestUnderTest(on: kafka)
        let load = try PostingLoad(port: ingest.port, users: users)
        try load.waitForAccepted(300)
        try ingest.process.kill()
        try load.stop()
        try expectInLog(load.outcome, ingest)
        #expect(load.outcome.statuses.keys.allSatisfy { $0 == 202 })
    }

    @Test(arguments: KafkaUnderTest.all)
    func `SIGTERM under load: every request is answered or its connection closed, every 2xx is in the log (C15)`(
        kafka: KafkaUnderTest
    ) throws {
        let ingest = try IngestUnderTest(on: kafka)
        let load = try PostingLoad(port: ingest.port, users: users)
        try load.waitForAccepted(300)
        #expect(try ingest.process.stop(seconds: 15) == 0)
        try load.stop()
        #expect(load.outcome.broken.isEmpty)
        #expect(load.outcome.closed == 4)
        #expect(load.outcome.statuses.keys.allSatisfy { $0 == 202 || $0 == 503 })
        try expectInLog(load.outcome, ingest)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `a broker that hangs costs each request its deadline and no more, and 2xx come back with it (C11)`(
        kafka: KafkaUnderTest
    ) throws {
        let ingest = try IngestUnderTest(on: kafka, ["DAYBOOK_REQUEST_DEADLINE_MS": "700"])
        #expect(try ingest.post(IngestUnderTest.body()).status == 202)
        try kafka.hang()
        for _ in 0..<3 {
            let start = monotonicSeconds()
            let answer = try ingest.post(IngestUnderTest.body())
            #expect(answer.status == 503 && AnswerBody(answer.body).code == "not_confirmed")
            #expect(monotonicSeconds() - start < 1.7)
        }
        #expect(try ingest.admin("/livez").status == 200)
        try kafka.goOn()
        let start = monotonicSeconds()
        try Eventually.holds("2xx again", seconds: 15) { try ingest.post(IngestUnderTest.body()).status == 202 }
        #expect(monotonicSeconds() - start < 2)
        #expect(try ingest.process.stop() == 0)
    }

    @Test(arguments: KafkaUnderTest.all)
    func `with a broker that hangs SIGTERM still ends it in time, and no request hangs (C15)`(
        kafka: KafkaUnderTest
    ) throws {
        let ingest = try IngestUnderTest(
            on: kafka,
            ["DAYBOOK_GRACE_PERIOD_MS": "4000", "DAYBOOK_REQUEST_DEADLINE_MS": "60000"]
        )
        try kafka.hang()
        defer { #expect(throws: Never.self) { try kafka.goOn() } }
        try expectEndsWithoutBroker(ingest)
    }

    @Test func `with the broker down SIGTERM still ends it in time, and no request hangs (C15)`() throws {
        let kafka = try KafkaUnderTest.mock(topics: [])
        defer { kafka.stop() }
        let ingest = try IngestUnderTest(
            on: kafka,
            ["DAYBOOK_GRACE_PERIOD_MS": "4000", "DAYBOOK_REQUEST_DEADLINE_MS": "60000"]
        )
        try kafka.takeDown()
        try expectEndsWithoutBroker(ingest)
    }

    private func expectEndsWithoutBroker(_ ingest: IngestUnderTest) throws {
        let connection = try ingest.connect()
        let body = Array(IngestUnderTest.body().utf8)
        connection.send(HTTPConnection.bytes("POST", "/v1/days", token: try IngestUnderTest.token(), body: body))
        try Eventually.holds("the request waits") {
            try ingest.admin("/metrics").text.contains("daybook_ingest_waiting_requests 1")
        }
        #expect(try ingest.process.stop(seconds: 15) == 0)
        #expect(try connection.answer().status == 503)
    }

    @Test(.enabled(if: KafkaUnderTest.Kind.allAvailable.contains(.real), "needs KAFKA_HOME"))
    func `a record that a topic's limit keeps out is a 413 and never a 2xx (C13)`() throws {
        let kafka = try #require(KafkaUnderTest.all.first { $0.kind == .real })
        let prefix = IngestUnderTest.newPrefix()
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let topics = Topic.allCases.filter { $0 != .deadLetters }.map { topic in
            KafkaTopicSpecification(
                name: topic.name(prefix: prefix),
                partitions: 2,
                settings: [
                    "message.timestamp.type": "LogAppendTime",
                    "max.message.bytes": topic == .daysHistory ? "100" : "1048588",
                ]
            )
        }
        try admin.create(topics, timeoutMilliseconds: 20_000)
        let ingest = try IngestUnderTest(on: kafka, prefix: prefix, makesTopics: false)
        let day = today.advanced(by: -60)
        let old = #"{"source":"apple_health","time_zone":"UTC","days":[{"date":"\#(day)","steps":6666}]}"#
        for _ in 0..<2 {
            let answer = try ingest.post(old)
            #expect(answer.status == 413 && AnswerBody(answer.body).code == "record_too_large", "\(answer.body)")
            #expect(try ingest.post(IngestUnderTest.body()).status == 202)
        }
        #expect(try ingest.records(.history).isEmpty)
    }

    @Test func `one whose clock is not the brokers' is not ready and accepts nothing (C26, with made-up append times)`()
        throws
    {
        // The mock answers an append time of 1970, and here nobody says that it is one to leave aside.
        let ingest = try IngestUnderTest(
            on: .mock(topics: []),
            ["DAYBOOK_DEVELOPMENT_BROKER": "false"],
            waitsUntilReady: false
        )
        defer { ingest.kafka.stop() }
        try expectRefusedForItsClock(ingest)
        #expect(try ingest.process.stop() == 0)
    }

    private static let fakeTime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"

    @Test(
        .enabled(if: KafkaUnderTest.Kind.allAvailable.contains(.real), "needs KAFKA_HOME"),
        .enabled(if: FileManager.default.fileExists(atPath: fakeTime), "needs Debian's libfaketime")
    )
    func `one whose clock is three minutes off is not ready and accepts nothing (C26)`() throws {
        let kafka = try #require(KafkaUnderTest.all.first { $0.kind == .real })
        let ingest = try IngestUnderTest(
            on: kafka,
            ["LD_PRELOAD": Self.fakeTime, "FAKETIME": "+180s", "DONT_FAKE_MONOTONIC": "1"],
            waitsUntilReady: false
        )
        try expectRefusedForItsClock(ingest)
        // Waits on the faked clock last three minutes longer: not worth an orderly end.
        try ingest.process.kill()
    }

    @Test func `with PostgreSQL stopped ingest goes on, and the worker catches up afterwards (D8)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let cluster = try PrivatePostgres.makeCluster(mode: .durable)
        try cluster.start()
        defer { cluster.stop() }
        let url = try cluster.createDatabase(named: "away")
        try Migrator(.init(url: url, applicationName: "setup")).migrate(today: today)
        let ingest = try IngestUnderTest(on: pipeline.kafka, prefix: "", makesTopics: false)
        let worker = try pipeline.startWorker(["DAYBOOK_DATABASE_URL": url])
        #expect(try ingest.post(IngestUnderTest.body(steps: 1000)).status == 202)
        let day = today.advanced(by: -1)
        func steps() throws -> Int32? {
            let reads = try DayReads(.init(url: url, applicationName: "look"))
            return try reads.canonicalDays(of: IngestUnderTest.user, day...day).first?.day.values[.steps]
        }
        try Eventually.holds("the first day is applied", seconds: 60) { try steps() == 10_000 }
        cluster.stop()
        #expect(try ingest.post(IngestUnderTest.body(steps: 1500)).status == 202)
        try Eventually.holds("the worker notices", seconds: 60) { worker.saysDatabaseIsAway }
        for number in 1...20 { #expect(try ingest.post(IngestUnderTest.body(steps: 2000 + number)).status == 202) }
        #expect(try ingest.admin("/readyz").status == 200)
        try cluster.start()
        try Eventually.holds("the worker has caught up", seconds: 60) { try steps() == 20_200 }
        #expect(try worker.stop() == 0)
        #expect(try ingest.process.stop() == 0)
    }

    private var users: [(token: String, body: String)] {
        get throws {
            try (0..<4).map { number in
                let user = UserID(high: 7, low: 0x8000_0000_0000_0000 | UInt64(number))
                return (try IngestUnderTest.token(user), IngestUnderTest.body(steps: 1000 + number))
            }
        }
    }

    private func expectInLog(_ outcome: PostingLoad.Outcome, _ ingest: IngestUnderTest) throws {
        let inLog = Set(try ingest.records(.live).compactMap { $0.headers["event-id"] })
        let missing = outcome.accepted.filter { !inLog.contains($0) }
        print(
            "\(ingest.kafka): \(outcome.accepted.count) accepted, \(inLog.count) in the log, \(missing.count) missing"
        )
        #expect(missing.isEmpty)
        #expect(Set(outcome.accepted).count == outcome.accepted.count)
    }

    private func expectRefusedForItsClock(_ ingest: IngestUnderTest) throws {
        try Eventually.holds("it sees that its clock is off") {
            let answer = try ingest.admin("/readyz")
            return answer.status == 503 && answer.text.contains("clock: ")
        }
        for _ in 0..<5 {
            let answer = try ingest.post(IngestUnderTest.body())
            #expect(answer.status == 503 && answer.header("Retry-After") != nil, "\(answer.body)")
        }
        #expect(try ingest.records(.live).isEmpty)
    }
}

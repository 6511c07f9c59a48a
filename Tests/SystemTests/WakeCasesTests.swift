import Domain
import Foundation
import Glibc
import Postgres
import PushStandIn
import Storage
import TestSupport
import Testing

/// The built wake worker against a database and a stand-in for Apple.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `The wake worker` {
    @Test func `W1: who is stale for 30 h is woken once, by exactly these headers and this body`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<1)
        try WakeUsers.add(
            1..<2,
            pushedAt: WakeWorkerUnderTest.hoursAgo(1),
            dueAt: WakeWorkerUnderTest.hoursAgo(0),
            to: test.connection
        )
        let due = try test.daybook("wake", "due")
        #expect(
            due.status == 0 && due.output.contains("\(WakeUsers.user(0))")
                && due.output.contains("1 would be woken now")
        )
        #expect(!due.output.contains("\(WakeUsers.user(1))"))
        let dry = try test.daybook("wake", "run", "--once", "--dry-run")
        #expect(dry.status == 0 && dry.output.contains("wake") && test.standIn.received.isEmpty, "\(dry.output)")
        let worker = try test.start()
        try test.waitForEnds(1, of: worker)
        // Many scans later it is still the one.
        try Eventually.holds("the fresh one is looked at") {
            try test.schedule(1).dueAt > WakeWorkerUnderTest.now.microseconds
        }
        let before = WakeWorkerUnderTest.now
        #expect(try worker.stop() == 0, "\(worker.output)")
        let requests = test.standIn.received
        #expect(requests.count == 1)
        let request = try #require(requests.first)
        let token = try #require(try WakeUsers.tokens(of: test.connection)[WakeUsers.user(0)])
        #expect(request.header(":method") == "POST" && request.header(":path") == "/3/device/\(token)")
        let headers = Dictionary(request.headers.filter { !$0.name.hasPrefix(":") }.map { ($0.name, $0.value) }) { $1 }
        #expect(headers["apns-push-type"] == "background" && headers["apns-priority"] == "5")
        #expect(headers["apns-topic"] == "com.example" && headers["apns-collapse-id"] == "wake")
        #expect(headers["authorization"]?.hasPrefix("bearer ") == true)
        let expiration = try #require(headers["apns-expiration"].flatMap { Int64($0) })
        let latest = before.microseconds / 1_000_000 + 4 * 3600
        #expect((latest - 60...latest).contains(expiration))
        #expect(String(decoding: request.body, as: UTF8.self) == #"{"aps":{"content-available":1}}"#)
        #expect(try test.wakes(0).map(\.outcome) == ["accepted"])
        #expect(try test.schedule(0).unanswered == 1)
        for secret in [token, "bearer"] { #expect(!worker.output.contains(secret)) }
        let explained = try test.daybook("wake", "explain", "\(WakeUsers.user(0))", "--json")
        let object = try #require(try JSONSerialization.jsonObject(with: Data(explained.output.utf8)) as? [String: Any])
        #expect(
            object["wakes_now"] as? Bool == false && object["next_look"] is String && object["unanswered"] as? Int == 1
        )
        let campaigns = try test.daybook("wake", "campaigns", "--json")
        #expect(campaigns.output.contains(#""accepted": 1"#) && campaigns.output.contains(#""app_version": "4.2""#))
    }

    @Test func `W4: a 410 that is older than the registration keeps the token, a newer one deactivates it`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<2)
        let tokens = try WakeUsers.tokens(of: test.connection)
        func gone(_ hoursAgo: Double) -> StandInScript.Reply {
            StandInScript.Reply(410, "Unregistered").with {
                $0.timestamp = WakeWorkerUnderTest.hoursAgo(hoursAgo).microseconds / 1000
            }
        }
        test.standIn.use(
            StandInScript(tokens: [
                tokens[WakeUsers.user(0)] ?? "": [gone(31)],
                tokens[WakeUsers.user(1)] ?? "": [gone(1)],
            ])
        )
        let worker = try test.start()
        try Eventually.holds("the dead one is parked, the other one waits") {
            try test.schedule(1).dueAt == Int64.max && test.wakes(0).first?.outcome == "unregistered"
        }
        // Scans later it has not been tried again: it answers 410 for ever.
        let scans = try WakeMetricsReader.value("daybook_wake_scan_seconds_count", of: worker)
        try Eventually.holds("twenty more scans") {
            try WakeMetricsReader.value("daybook_wake_scan_seconds_count", of: worker) >= scans + 20
        }
        #expect(try worker.stop() == 0)
        let live = try test.connection.executeUnprepared("SELECT user_id FROM live_device_tokens")
        #expect(live.rowCount == 1)
        // Not spent: no wake and no strike.
        #expect(try test.schedule(1).lastWakeAt == 0 && test.schedule(1).unanswered == 0)
        #expect(test.standIn.received.count == 2)
        let kept = try test.schedule(0)
        #expect(kept.unanswered == 0 && kept.dueAt - kept.lastWakeAt == 4 * 3_600_000_000)
    }

    @Test func `W5: every token answers BadDeviceToken: it stops after about 20, and not one token is deactivated`()
        throws
    {
        let test = try WakeWorkerUnderTest(
            StandInScript(others: [StandInScript.Reply(400, "BadDeviceToken").with { $0.delayMilliseconds = 20 }])
        )
        try test.addStale(0..<400)
        let worker = try test.start()
        try Eventually.holds("the topic is stopped") { try test.count("push_stops") == 1 }
        try test.waitForEnds(400, of: worker)
        #expect(try worker.stop() == 0)
        // A first one alone, then what was in flight when the twentieth was answered.
        #expect(test.standIn.received.count < 400, "\(test.standIn.received.count)")
        #expect(try test.count("live_device_tokens") == 400)
        #expect(try test.count("device_tokens WHERE deactivated_at > 0") == 0)
        #expect(try test.count("wake_schedule WHERE unanswered > 0 OR last_wake_at > 0") == 0)
        let due = try test.daybook("wake", "run", "--once", "--dry-run")
        #expect(due.status == 0)
        // Another worker does not begin anew; an operator lets it.
        let sent = test.standIn.received.count
        try test.connection.simpleQuery("UPDATE wake_schedule SET due_at = 1")
        let second = try test.start()
        try Eventually.holds("all were looked at") { try test.count("wake_schedule WHERE due_at = 1") == 0 }
        #expect(test.standIn.received.count == sent)
        test.standIn.use(StandInScript())
        let resumed = try test.daybook("wake", "resume")
        #expect(resumed.status == 0 && resumed.output.contains("1 stop forgotten"), "\(resumed.output)")
        try test.connection.simpleQuery("UPDATE wake_schedule SET due_at = 1")
        try Eventually.holds("they are woken") { try test.count("push_sends WHERE outcome = 'accepted'") == 400 }
        #expect(try second.stop() == 0)
    }

    @Test func `W6: 429 and 503 are no strike, and Retry-After is honoured`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<2)
        let tokens = try WakeUsers.tokens(of: test.connection)
        test.standIn.use(
            StandInScript(tokens: [
                tokens[WakeUsers.user(0)] ?? "": [StandInScript.Reply(429, "TooManyRequests")],
                tokens[WakeUsers.user(1)] ?? "": [
                    StandInScript.Reply(503, "ServiceUnavailable").with { $0.retryAfter = "1800" }
                ],
            ])
        )
        let worker = try test.start()
        try test.waitForEnds(2, of: worker)
        #expect(try worker.stop() == 0)
        #expect(try test.count("wake_schedule WHERE unanswered > 0") == 0)
        let waits = try test.schedule(0)
        #expect(abs(waits.dueAt - waits.lastWakeAt - 4 * 3_600_000_000) < 1_000_000)
        let refused = try test.schedule(1)
        #expect(refused.lastWakeAt == 0)
        let minutes = (refused.dueAt - WakeWorkerUnderTest.now.microseconds) / 60_000_000
        #expect((28...30).contains(minutes), "\(minutes)")
    }

    @Test func `W9, W12: unknown reasons, no JSON, and connections that break after the push: by class, and no crash`()
        throws
    {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<4)
        let tokens = try WakeUsers.tokens(of: test.connection)
        test.standIn.use(
            StandInScript(tokens: [
                tokens[WakeUsers.user(0)] ?? "": [StandInScript.Reply(500, "SomethingNew")],
                tokens[WakeUsers.user(1)] ?? "": [StandInScript.Reply(500).with { $0.body = "<html>" }],
                tokens[WakeUsers.user(2)] ?? "": [StandInScript.Reply(.close)],
                tokens[WakeUsers.user(3)] ?? "": [StandInScript.Reply()],
            ])
        )
        let worker = try test.start()
        try Eventually.holds("the broken one is settled as unknown, the good one is accepted", seconds: 60) {
            try test.wakes(2).first?.outcome == "unknown" && test.wakes(3).first?.outcome == "accepted"
        }
        #expect(worker.isRunning)
        #expect(try worker.stop() == 0, "\(worker.output)")
        let unknown = try test.schedule(2)
        #expect(unknown.lastWakeAt > 0 && unknown.unanswered == 0)
        let broken = tokens[WakeUsers.user(2)]
        #expect(test.standIn.received.count { $0.token == broken } == 1)
    }

    @Test func `W10: while the workers lag nobody is woken; afterwards only the really stale`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<20)
        try test.catchUp(to: WakeWorkerUnderTest.hoursAgo(5))
        let worker = try test.start()
        try Eventually.holds("it says why") {
            try WakeMetricsReader.value("daybook_wake_held_back_total", of: worker) > 2
        }
        #expect(try test.count("push_sends") == 0 && test.standIn.received.isEmpty)
        // One partition of four lags on: its users wait; of the others half have pushed meanwhile.
        try test.connection.simpleQuery(
            """
            UPDATE connections SET last_push_at = \(WakeWorkerUnderTest.now.microseconds)
            FROM accounts WHERE accounts.user_id = connections.user_id AND bucket % 4 = 1;
            UPDATE consumer_offsets SET applied_through = \(WakeWorkerUnderTest.now.microseconds) WHERE partition > 0
            """
        )
        try test.waitForEnds(10, of: worker)
        try Eventually.holds("all were looked at") {
            try test.count("wake_schedule WHERE due_at <= \(WakeWorkerUnderTest.now.microseconds)") == 0
        }
        #expect(try worker.stop() == 0)
        let woken = try test.connection.executeUnprepared(
            "SELECT bucket % 4 AS place, count(*) FROM push_sends JOIN accounts USING (user_id) GROUP BY 1 ORDER BY 1"
        )
        #expect(try (0..<woken.rowCount).map { try woken.int4($0, 0) } == [2, 3])
        #expect(test.standIn.received.count == 10)
    }

    @Test func `W13: a door that refuses most requests holds everybody back`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<3)
        let minute = WakeWorkerUnderTest.now.microseconds / 60_000_000
        try test.connection.simpleQuery(
            "INSERT INTO door_counts VALUES ('daybook.days.live.v1', 0, \(minute % 16), \(minute), 100, 3)"
        )
        let worker = try test.start()
        try Eventually.holds("all were looked at") {
            try test.count("wake_schedule WHERE due_at <= \(WakeWorkerUnderTest.now.microseconds)") == 0
        }
        #expect(test.standIn.received.isEmpty)
        #expect(try test.daybook("wake", "due", "--json").status == 0)
        try test.connection.simpleQuery("UPDATE door_counts SET answered = 80; UPDATE wake_schedule SET due_at = 1")
        try test.waitForEnds(3, of: worker)
        #expect(try worker.stop() == 0)
        #expect(try test.count("wake_schedule WHERE unanswered > 1") == 0)
    }

    @Test func `a pause stops wakes within a scan, and a resume lets them go on`() throws {
        let test = try WakeWorkerUnderTest()
        #expect(try test.daybook("wake", "pause").status == 0)
        try test.addStale(0..<1)
        let worker = try test.start()
        try Eventually.holds("the user was looked at") {
            try test.schedule(0).dueAt > WakeWorkerUnderTest.now.microseconds
        }
        #expect(test.standIn.received.isEmpty)
        #expect(try test.daybook("wake", "resume").output.contains("wakes run"))
        try test.connection.simpleQuery("UPDATE wake_schedule SET due_at = 1")
        try test.waitForEnds(1, of: worker)
        #expect(try worker.stop() == 0)
    }
}

/// The whole way: the built ingest, aggregator and wake worker.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `Wakes over the whole pipeline` {
    @Test func `W13: while ingest answers 401 to everybody nobody is woken; then the phone is, and answers (W3)`()
        throws
    {
        let kafka = try KafkaUnderTest.mock(topics: PipelineUnderTest.topics(2))
        let pipeline = try PipelineUnderTest(on: kafka, partitions: 2)
        let aggregator = try pipeline.startWorker()
        let ingest = try IngestUnderTest(on: kafka, prefix: "", partitions: 2, makesTopics: false)
        let user = IngestUnderTest.user
        // As after a wrong key was set: a token that is malformed is the client's fault, and says nothing of the door.
        let foreign = try IngestUnderTest.token(secret: "another secret, also longer than 32 bytes")
        for _ in 0..<40 { #expect(try ingest.post("{}", foreign).status == 401) }

        let test = try WakeWorkerUnderTest(databaseURL: pipeline.databaseURL)
        try Eventually.holds("the heartbeats' counts are applied", seconds: 60) {
            try test.count("door_counts WHERE requests >= 20 AND answered = 0") > 0
        }
        // Stale for 30 hours, as an archive would publish it; and a token.
        let publisher = try pipeline.publisher()
        let today = WakeWorkerUnderTest.now.day(secondsFromUTC: 0)
        let then = WakeWorkerUnderTest.hoursAgo(30)
        let day = then.day(secondsFromUTC: 0)
        try publisher.publish(user, .appleHealth, receivedAt: then, localDate: day, [(day, [.steps: 10_000])])
        try publisher.flush()
        try Eventually.holds("the user is on the schedule", seconds: 60) { try test.count("wake_schedule") == 1 }
        let worker = try test.start()
        let device = String(repeating: "ab", count: 32)
        let registration = #"{"token":"\#(device)","platform":"ios","app_id":"com.example"}"#
        #expect(try ingest.post(registration, path: "/v1/device-tokens").status == 202)
        try Eventually.holds("the token is applied", seconds: 60) { try test.count("live_device_tokens") == 1 }
        try Eventually.holds("the user is held back", seconds: 30) {
            try WakeMetricsReader.value(#"daybook_wake_held_back_total{reason="door"}"#, of: worker) > 0
        }
        #expect(test.standIn.received.isEmpty)

        // The key is right again: more good answers than bad ones.
        for _ in 0..<90 { #expect(try ingest.post(registration, path: "/v1/device-tokens").status == 202) }
        try Eventually.holds("the door counts as open", seconds: 60) {
            try test.count(
                "(SELECT FROM door_counts GROUP BY partition HAVING sum(answered) * 2 > sum(requests)) AS open"
            ) > 0
        }
        try test.connection.simpleQuery("UPDATE wake_schedule SET due_at = 1")
        do {
            try Eventually.holds("the user is woken", seconds: 60) {
                try test.count("push_sends WHERE outcome = 'accepted'") == 1
            }
        } catch {
            let explained = try test.daybook("wake", "explain", "\(user)").output
            throw Eventually.TimedOut(what: "\(error)\n\(explained)\n\(worker.output.suffix(2000))")
        }
        #expect(test.standIn.received.map(\.token) == [device])
        let answer = #"{"source":"apple_health","time_zone":"UTC","days":[{"date":"\#(today)","steps":4321}]}"#
        #expect(try ingest.post(answer).status == 202)
        try Eventually.holds("the answer is noted", seconds: 30) {
            try test.count("push_sends WHERE answered_at IS NOT NULL AND brought_data") == 1
        }
        #expect(try test.count("wake_schedule WHERE unanswered = 0") == 1)
        #expect(try worker.stop() == 0 && aggregator.stop() == 0)
    }
}

/// Reads a metric from a process's admin address.
enum WakeMetricsReader {
    /// The sum over all labels.
    static func value(_ name: String, of worker: ServiceProcess) throws -> Double {
        let address = try worker.waitForLog("admin listening", key: "address")
        guard let port = address.split(separator: ":").last.flatMap({ UInt16($0) }) else { return 0 }
        let answer = try HTTPConnection(port: port).request("GET", "/metrics")
        return answer.body.split(separator: "\n").filter { $0.hasPrefix(name) }.reduce(0) { sum, line in
            sum + (line.split(separator: " ").last.flatMap { Double($0) } ?? 0)
        }
    }
}

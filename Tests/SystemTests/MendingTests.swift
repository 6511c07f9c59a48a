import Domain
import Foundation
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// The operator's tools where something stands in their way, or where they are asked for the wrong thing.
@Suite(.serialized, .timeLimit(.minutes(4))) struct `Mending when something is in the way` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now
    private let live = Topic.daysLive.name(prefix: "")

    /// Ids that begin with the time, as many identity servers make them: all alike at their beginning.
    private func user(_ number: Int) -> UserID {
        UserID(
            high: 0x0197_0000_0000_7000 | UInt64(number / 64) << 16,
            low: 0x8000_0000_0000_0000 | UInt64(number) &* 0x9e37_79b9 & 0xffff_ffff
        )
    }

    private func object(_ text: String) throws -> [String: Any] {
        let start = text.firstIndex(of: "{") ?? text.startIndex
        let data = Data(text[start...].utf8)
        return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any], "\(text)")
    }

    private func publish(_ users: Range<Int>, days: Int = 1, over publisher: RecordPublisher) throws {
        for number in users {
            let list = (0..<days).map { (today.advanced(by: -$0), [.steps: Int32(100 + number) * 10] as MetricValues) }
            try publisher.publish(user(number), .garmin, receivedAt: now, localDate: today, list)
        }
        try publisher.flush()
    }

    /// Some users with days, as a worker wrote them.
    private func applied(_ users: Int, partitions: Int = 2) throws -> PipelineUnderTest {
        let pipeline = try PipelineUnderTest(.mock, partitions: partitions)
        try publish(0..<users, over: try pipeline.publisher())
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try worker.stop() == 0)
        return pipeline
    }

    private func tool(_ pipeline: PipelineUnderTest, _ words: String...) throws -> ServiceProcess {
        let environment = pipeline.environment.merging(["DAYBOOK_STATE": "/nonexistent/daybook"]) { $1 }
        return try ServiceProcess("daybook", words, environment: environment)
    }

    @Test func `a sample is of different people all over, also where their ids begin alike`() throws {
        let pipeline = try applied(240)
        defer { pipeline.kafka.stop() }
        // Every second person's day is wrong, whatever their id.
        try pipeline.connection.simpleQuery(
            """
            UPDATE canonical_days SET steps = steps + 1
            WHERE user_id IN (SELECT user_id FROM (SELECT user_id, row_number() OVER (ORDER BY user_id) AS n
                FROM accounts) AS numbered WHERE n % 2 = 0)
            """
        )
        let sample = try pipeline.daybook("verify", "--sample", "80", "--json")
        #expect(sample.status == 1)
        let report = try object(sample.output)
        #expect(report["users"] as? Int == 80, "\(sample.output)")
        let drifted = try #require(report["drifted"] as? Int)
        // Forty are to be expected; these bounds are missed by chance once in ten thousand million times.
        #expect((14...66).contains(drifted), "\(drifted)")
    }

    @Test func `raising the rules waits for who began before, and then sees what they made`() throws {
        let pipeline = try applied(20)
        defer { pipeline.kafka.stop() }
        try pipeline.connection.simpleQuery(
            "UPDATE control SET rule_version = 0; UPDATE canonical_days SET rule_version = 0"
        )
        // A batch of before, whose user nobody else sees yet.
        let hidden = user(9999)
        let late = try PostgresConnection(url: pipeline.databaseURL, applicationName: "late", settings: [])
        try late.simpleQuery(
            """
            BEGIN; INSERT INTO accounts (user_id, bucket) VALUES ('\(hidden)', 1);
            INSERT INTO canonical_days (user_id, day, rule_version, final, winner_sources, steps)
                VALUES ('\(hidden)', '\(today)', 0, false, '\\x01', 5)
            """
        )
        let recompute = try tool(pipeline, "recompute", "--rules", "1", "--json")
        try Eventually.holds("the rules are raised") { recompute.output.contains("version 1 of the rules is active") }
        // It has not begun to walk, and does not end.
        #expect(throws: Eventually.TimedOut.self) {
            try Eventually.holds("it goes on", seconds: 2) {
                let runs = try pipeline.connection.executeUnprepared("SELECT count(*) FROM tool_runs").int8(0, 0)
                return runs > 0 || !recompute.isRunning
            }
        }
        try late.simpleQuery("COMMIT")
        #expect(try recompute.waitForExit(seconds: 60) == 0, "\(recompute.output)")
        let after = try object(try pipeline.daybook("verify", "--json").output)
        #expect(after["other_rules"] as? Int == 0 && after["drifted"] as? Int == 0, "\(after)")
    }

    @Test func `a recompute claims nothing that it has not looked at, unless it is told to go on`() throws {
        let pipeline = try applied(20)
        defer { pipeline.kafka.stop() }
        // A call that was stopped, and had looked at everybody.
        func stopped(_ name: String) throws {
            try pipeline.connection.simpleQuery(
                """
                INSERT INTO tool_runs (run, kind, request, started_at)
                    VALUES ('\(name)', 'recompute', 'rules 1', \(now.microseconds));
                INSERT INTO tool_run_parts (run, part, position, finished, counts)
                    VALUES ('\(name)', '00000000-0000-0000-0000-000000000000..ffffffff-ffff-ffff-ffff-ffffffffffff',
                        'ffffffff-ffff-ffff-ffff-ffffffffffff', true, '{20,20,0,0}')
                """
            )
        }
        try pipeline.connection.simpleQuery("UPDATE canonical_days SET steps = 7")
        try stopped("one")
        let went = try pipeline.daybook("recompute", "--continue", "--json")
        #expect(went.status == 0 && went.output.contains("20 users looked at since then"), "\(went.output)")
        #expect(try object(went.output)["mended"] as? Int == 0)
        try stopped("two")
        let anew = try pipeline.daybook("recompute", "--json")
        #expect(anew.status == 0 && anew.output.contains("beginning anew"), "\(anew.output)")
        #expect(try object(anew.output)["mended"] as? Int == 20)
        let nothing = try pipeline.daybook("recompute", "--continue")
        #expect(nothing.status == 1 && nothing.output.contains("nothing to go on with"), "\(nothing.output)")
    }

    @Test func `a replay whose saved place can't be read says so, instead of leaving a part out`() throws {
        let pipeline = try applied(300)
        defer { pipeline.kafka.stop() }
        let slow = try tool(pipeline, "replay", "--from", "beginning", "--topic", live, "--rate", "40", "--jobs", "1")
        try Eventually.holds("some are saved", seconds: 30) {
            try pipeline.connection.executeUnprepared(
                "SELECT count(*) FROM tool_run_parts WHERE counts[2] > 0"
            ).int8(0, 0) > 0
        }
        slow.send(SIGINT)
        #expect(try slow.waitForExit(seconds: 20) == 75, "\(slow.output)")
        #expect(slow.output.contains("\(live)/1: 0 up to "), "\(slow.output)")
        for damage in ["position = 'x'", "part = 'x'", "counts = '{}'"] {
            try pipeline.connection.simpleQuery("CREATE TABLE kept AS SELECT * FROM tool_run_parts")
            try pipeline.connection.simpleQuery(
                "UPDATE tool_run_parts SET \(damage) WHERE part = (SELECT max(part) FROM tool_run_parts)"
            )
            let refused = try pipeline.daybook("replay", "--from", "beginning", "--topic", live, "--continue")
            #expect(refused.status == 70 && refused.output.contains("not readable"), "\(damage): \(refused.output)")
            try pipeline.connection.simpleQuery(
                "DELETE FROM tool_run_parts; INSERT INTO tool_run_parts SELECT * FROM kept; DROP TABLE kept"
            )
        }
        #expect(try pipeline.daybook("replay", "--from", "beginning", "--topic", live, "--continue").status == 0)
    }

    @Test func `whatever writes or foretells rows first asks whether this build may`() throws {
        let pipeline = try applied(3)
        defer { pipeline.kafka.stop() }
        let hash = try pipeline.hash()
        try pipeline.connection.simpleQuery(
            "UPDATE schema_migrations SET oldest_build = 9999 WHERE version = 1; UPDATE canonical_days SET steps = 1"
        )
        let replay = try pipeline.daybook("replay", "--from", "beginning")
        let preview = try pipeline.daybook("replay", "--from", "beginning", "--preview")
        let recompute = try pipeline.daybook("recompute")
        for answer in [replay, preview, recompute] {
            #expect(answer.status == 78 && answer.output.contains("allows builds from 9999 on"), "\(answer.output)")
        }
        try pipeline.connection.simpleQuery("UPDATE schema_migrations SET oldest_build = 1 WHERE version = 1")
        #expect(try pipeline.daybook("recompute").status == 0)
        #expect(try pipeline.hash() == hash)
    }

    @Test func `a lost connection is made anew, and what was not noted is applied again`() throws {
        let pipeline = try applied(200)
        defer { pipeline.kafka.stop() }
        let hash = try pipeline.hash()
        try pipeline.connection.simpleQuery(
            "DELETE FROM canonical_days; DELETE FROM source_days; DELETE FROM connections"
        )
        let replay = try tool(pipeline, "replay", "--from", "beginning", "--topic", live, "--rate", "60", "--json")
        for round in 1...3 {
            try Eventually.holds("it goes on", seconds: 30) {
                try pipeline.connection.executeUnprepared(
                    "SELECT coalesce(sum(counts[2]), 0)::bigint FROM tool_run_parts"
                ).int8(0, 0) >= Int64(round * 20)
            }
            try pipeline.connection.simpleQuery(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """
            )
        }
        #expect(try replay.waitForExit(seconds: 60) == 0, "\(replay.output)")
        #expect(try object(replay.output)["read"] as? Int == 200, "\(replay.output)")
        #expect(try pipeline.hash() == hash)
    }

    @Test func `a rate is one for all threads`() throws {
        let pipeline = try applied(400, partitions: 4)
        defer { pipeline.kafka.stop() }
        for more in [[], ["--preview"]] {
            let words = ["replay", "--from", "beginning", "--topic", live, "--rate", "200", "--jobs", "4", "--json"]
            let environment = pipeline.environment.merging(["DAYBOOK_STATE": "/nonexistent/daybook"]) { $1 }
            let run = try ServiceProcess("daybook", words + more, environment: environment)
            #expect(try run.waitForExit(seconds: 60) == 0, "\(run.output)")
            let outcome = try object(run.output)
            #expect(outcome["read"] as? Int == 400)
            // Two seconds, and a little of a lead.
            #expect(outcome["seconds"] as? Double ?? 0 >= 1.7, "\(run.output)")
        }
    }

    @Test func `a preview sees all of a user, also where topics have different numbers of partitions`() throws {
        let counts: [Topic: Int] = [.daysLive: 2, .daysHistory: 8, .accounts: 1]
        let kafka = try KafkaUnderTest.mock(topics: Topic.allCases.map { ($0.name(prefix: ""), counts[$0] ?? 2) })
        let pipeline = try PipelineUnderTest(on: kafka, partitions: 2)
        defer { kafka.stop() }
        let publisher = try pipeline.publisher()
        for number in 0..<60 {
            for lane in [Lane.live, .history] {
                let first = lane == .live ? 0 : 50
                let days = (0..<3).map { (today.advanced(by: -first - $0), [.steps: 10] as MetricValues) }
                try publisher.publish(user(number), .garmin, receivedAt: now, localDate: today, lane: lane, days)
            }
            if number.isMultiple(of: 3) { try publisher.publish(user(number), .delete, receivedAt: now) }
        }
        try publisher.flush()
        let preview = try pipeline.daybook("replay", "--from", "beginning", "--preview", "--jobs", "8", "--json")
        #expect(preview.status == 0, "\(preview.output)")
        let told = try object(preview.output)
        #expect(try pipeline.daybook("replay", "--from", "beginning").status == 0)
        let rows = try pipeline.connection.executeUnprepared(
            "SELECT count(*), count(DISTINCT user_id) FROM canonical_days"
        )
        #expect(try rows.int8(0, 0) == 240 && rows.int8(0, 1) == 40)
        #expect(told["days_changed"] as? Int == 240 && told["users_changed"] as? Int == 40, "\(told)")
    }

    @Test func `a preview ends after its time, and a file that is in the way is found before the work`() throws {
        let pipeline = try applied(4, partitions: 1)
        defer { pipeline.kafka.stop() }
        let late = try pipeline.daybook("replay", "--from", "beginning", "--preview", "--rate", "1", "--max-time", "1s")
        #expect(late.status == 75 && late.output.contains("--max-time"), "\(late.output)")
        let path = FileManager.default.temporaryDirectory.path + "/preview-\(UUID().uuidString).csv"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let words = ["replay", "--from", "beginning", "--preview", "--csv", path]
        func preview() throws -> (status: Int32, output: String) {
            let environment = pipeline.environment.merging(["DAYBOOK_STATE": "/nonexistent/daybook"]) { $1 }
            let run = try ServiceProcess("daybook", words, environment: environment)
            return (try run.waitForExit(seconds: 30), run.output)
        }
        #expect(try preview().status == 0)
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        try "mine".write(toFile: path, atomically: false, encoding: .utf8)
        let refused = try preview()
        #expect(refused.status == 73 && refused.output.contains("exists already"), "\(refused.output)")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
    }

    @Test func `a device's dead letter is its user's: exported without a token, and gone with a deletion (D7, D11)`()
        throws
    {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let secret = "5ec2e7" + String(repeating: "d1", count: 29)
        let ann = user(1)
        let devices = try RecordPublisher(bootstrapServers: pipeline.kafka.bootstrapServers, topics: [.devices])
        let hash = String(repeating: "ab", count: 32)
        let hourAgo = now.advanced(bySeconds: -3600)
        let good = DeviceRecord(user: ann, registration: .init(token: secret, platform: .android))
        try devices.publish(raw: good.encoded(), key: hash, schema: "device/1", receivedAt: hourAgo)
        // Of a platform that nobody knows.
        let bad = #"{"kind":"register","user":"\#(ann)","token":"\#(secret)","platform":"abacus"}"#
        try devices.publish(raw: Array(bad.utf8), key: hash, schema: "device/1", receivedAt: hourAgo)
        try devices.flush()
        try publish(1..<2, over: try pipeline.publisher())
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        func export() throws -> [String: Any] {
            let answer = try pipeline.daybook("user", "export", ann.description, "--search")
            #expect(answer.status == 0 && !answer.output.contains(secret), "\(answer.output)")
            return try object(answer.output)
        }
        func states() throws -> [String?] {
            (try export()["dead_letters"] as? [[String: Any]] ?? []).map { $0["state"] as? String }
        }
        let found = try export()
        #expect(try states() == ["open"], "\(found)")
        let listed = try pipeline.daybook("dead-letters", "list", "--each")
        #expect(listed.status == 0 && !listed.output.contains(secret))
        let shown = try pipeline.daybook("user", "devices", ann.description)
        #expect(shown.status == 0 && !shown.output.contains(secret), "\(shown.output)")
        #expect(try pipeline.daybook("user", "delete", ann.description, "--yes").status == 0)
        #expect(try states() == ["deleted"])
        let sent = try pipeline.daybook("dead-letters", "redrive", "all", "--json")
        #expect(try object(sent.output)["sent"] as? Int == 0)
        #expect(try worker.stop() == 0)
        #expect(!worker.output.contains(secret))
    }
}

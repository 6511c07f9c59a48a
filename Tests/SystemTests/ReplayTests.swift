import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// A side replay and its preview, beside a worker and without one.
@Suite(.serialized, .timeLimit(.minutes(4))) struct `Replaying beside the workers` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now
    private let live = Topic.daysLive.name(prefix: "")

    private func user(_ number: Int) -> UserID { UserID(high: 7, low: UInt64(number)) }

    private func object(_ text: String) throws -> [String: Any] {
        let start = text.firstIndex(of: "{") ?? text.startIndex
        let data = Data(text[start...].utf8)
        return try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any], "\(text)")
    }

    /// Records by chance, so that several meet on one day, late and early ones, of several sources.
    private func publish(
        _ count: Int,
        users: Int,
        from start: Instant,
        over publisher: RecordPublisher,
        _ generator: inout some RandomNumberGenerator
    ) throws {
        let sources: [Source] = [.appleHealth, .healthConnect, .garmin, .manual, .checkin]
        for _ in 0..<count {
            let lane: Lane = Int.random(in: 0..<5, using: &generator) == 0 ? .history : .live
            let first = lane == .live ? 0 : 40
            let days = (0..<Int.random(in: 1...8, using: &generator)).map { offset -> (CalendarDay, MetricValues) in
                var values: MetricValues = [.steps: Int32.random(in: 1...400, using: &generator) * 10]
                if Bool.random(using: &generator) {
                    values[.sleepMinutes] = Int32.random(in: 300...500, using: &generator) * 10
                }
                if Bool.random(using: &generator) { values[.water] = Int32.random(in: 0...9, using: &generator) * 1000 }
                return (today.advanced(by: -first - offset), values)
            }
            let received = start.advanced(bySeconds: Int.random(in: 0...3000, using: &generator))
            try publisher.publish(
                user(Int.random(in: 0..<users, using: &generator)),
                sources[Int.random(in: 0..<sources.count, using: &generator)],
                receivedAt: received,
                observedAt: received.advanced(bySeconds: -Int.random(in: 0...40_000, using: &generator)),
                localDate: today,
                lane: lane,
                days
            )
        }
        try publisher.flush()
    }

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `a replay of everything beside live traffic leaves hash, positions and dead letters as they were (C1)`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let pipeline = try PipelineUnderTest(kind)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        var generator = SystemRandomNumberGenerator()
        let hourAgo = now.advanced(bySeconds: -3600)
        try publish(800, users: 60, from: hourAgo, over: publisher, &generator)
        try publisher.publish(user(1), .delete, receivedAt: hourAgo.advanced(bySeconds: 1500))
        try publisher.publish(user(2), .preference(.steps, source: .garmin), receivedAt: hourAgo)
        for _ in 0..<3 {
            try publisher.publish(raw: Array("}{".utf8), key: user(3).description, schema: "days/1", receivedAt: now)
        }
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        let hash = try pipeline.hash()
        let positions = try pipeline.positions()
        let fresh = try freshness(pipeline)
        let plain = try pipeline.daybook("replay", "--from", "beginning", "--json")
        #expect(plain.status == 0, "\(plain.output)")
        let counts = try object(plain.output)
        #expect(counts["applied"] as? Int == 802 && (counts["poison"] as? [String: Int])?["bad_json"] == 3)
        #expect(counts["source_rows"] as? Int == 0 && counts["canonical_days"] as? Int == 0, "\(counts)")
        #expect(try pipeline.hash() == hash && pipeline.positions() == positions)
        // A replay makes nobody fresh, and nobody due.
        #expect(try freshness(pipeline) == fresh && !fresh.isEmpty)
        #expect(try pipeline.deadLetters().count == 3)

        // Twice at once, while new records of the same users are applied.
        let environment = pipeline.environment.merging(["DAYBOOK_STATE": "/nonexistent/daybook"]) { $1 }
        let replays = try (0..<2).map { number in
            try ServiceProcess(
                "daybook",
                ["replay", "--from", "beginning", "--rate", "\(1500 + number)", "--json"],
                environment: environment
            )
        }
        try publish(600, users: 60, from: now, over: publisher, &generator)
        for replay in replays { #expect(try replay.waitForExit(seconds: 60) == 0, "\(replay.output)") }
        try pipeline.waitUntilApplied(worker: worker)
        let after = try pipeline.hash()
        #expect(after != hash)
        #expect(try pipeline.daybook("verify").status == 0)
        // The same records without any replay.
        let calm = try PipelineUnderTest(on: pipeline.kafka, partitions: pipeline.partitions)
        let undisturbed = try calm.startWorker(["DAYBOOK_CONSUMER_GROUP": "undisturbed"])
        try calm.waitUntilApplied(worker: undisturbed)
        #expect(try calm.hash() == after)
        #expect(try undisturbed.stop() == 0 && worker.stop() == 0)
    }

    /// Who pushed when, and who is due when.
    private func freshness(_ pipeline: PipelineUnderTest) throws -> [String] {
        let result = try pipeline.connection.executeUnprepared(
            """
            SELECT user_id::text || source::text || origin || ' ' || last_push_at::text FROM connections
            UNION ALL SELECT user_id::text || ' due ' || due_at::text FROM wake_schedule ORDER BY 1
            """
        )
        return try (0..<result.rowCount).map { try result.text($0, 0) }
    }

    /// Canonical values as `user,day,metric` → `value,source,origin`.
    private func canonical(_ pipeline: PipelineUnderTest) throws -> [String: String] {
        let result = try pipeline.connection.executeUnprepared(
            """
            SELECT user_id::text, day::text, metric, value::numeric::text, source, origin FROM canonical_values
            """
        )
        var values: [String: String] = [:]
        for row in 0..<result.rowCount {
            let key = try (0..<3).map { try result.text(row, $0) }.joined(separator: ",")
            values[key] = try (3..<6).map { try result.text(row, $0) }.joined(separator: ",")
        }
        return values
    }

    @Test(arguments: [1, 2])
    func `a preview says exactly what the replay then does, and writes nothing`(jobs: Int) throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        var generator = SystemRandomNumberGenerator()
        try publish(300, users: 25, from: now.advanced(bySeconds: -7200), over: publisher, &generator)
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try worker.stop() == 0)
        // What nobody has applied yet: readings, pins and a deletion, some of them undoing others.
        try publish(300, users: 30, from: now.advanced(bySeconds: -3600), over: publisher, &generator)
        let inBetween = now.advanced(bySeconds: -2000)
        for number in 0..<10 {
            try publisher.publish(user(number), .preference(.steps, source: .manual), receivedAt: inBetween)
        }
        try publisher.publish(user(0), .preference(.steps, source: nil), receivedAt: now)
        try publisher.publish(user(11), .delete, receivedAt: inBetween)
        try publisher.publish(user(12), .disconnect(.garmin, removesData: true), receivedAt: inBetween)
        try publisher.flush()
        let before = try canonical(pipeline)
        let hash = try pipeline.hash()
        let csv = FileManager.default.temporaryDirectory.path + "/preview-\(UUID().uuidString).csv"
        defer { try? FileManager.default.removeItem(atPath: csv) }
        // Somebody holds every account: a preview does not wait.
        let holder = try PostgresConnection(url: pipeline.databaseURL, applicationName: "holder", settings: [])
        try holder.simpleQuery("BEGIN; SELECT * FROM accounts FOR UPDATE")
        let preview = try pipeline.daybook(
            "replay",
            "--from",
            "beginning",
            "--preview",
            "--csv",
            csv,
            "--jobs",
            "\(jobs)",
            "--json"
        )
        try holder.simpleQuery("ROLLBACK")
        #expect(preview.status == 0, "\(preview.output)")
        #expect(try pipeline.hash() == hash)
        let replay = try pipeline.daybook("replay", "--from", "beginning", "--json")
        #expect(replay.status == 0, "\(replay.output)")
        let after = try canonical(pipeline)

        var expected: Set<String> = []
        for key in Set(before.keys).union(after.keys) where before[key] != after[key] {
            expected.insert("\(key),\(before[key] ?? ",,"),\(after[key] ?? ",,")")
        }
        let lines = try String(contentsOfFile: csv, encoding: .utf8).split(separator: "\r\n").dropFirst()
        let said = Set(lines.map(String.init))
        #expect(!expected.isEmpty && said == expected, "\(said.symmetricDifference(expected).prefix(5))")
        let told = try object(preview.output)
        let did = try object(replay.output)
        for count in ["read", "applied", "source_rows"] where jobs == 1 {
            #expect(told[count] as? Int == did[count] as? Int, "\(count)")
        }
        #expect(told["days_changed"] as? Int ?? 0 > 0)
        let again = try pipeline.daybook("replay", "--from", "beginning", "--preview")
        #expect(again.status == 0 && again.output.contains("no canonical day would change"), "\(again.output)")
        #expect(try pipeline.daybook("verify").status == 0)
    }

    @Test func `it takes only what is asked for, and goes on where it was stopped`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        for number in 0..<400 {
            let source: Source = number.isMultiple(of: 2) ? .oura : .garmin
            try publisher.publish(user(number % 40), source, receivedAt: now, localDate: today, [(today, [.steps: 10])])
        }
        try publisher.flush()
        #expect(try pipeline.daybook("replay").status == 64)
        #expect(try pipeline.daybook("replay", "--from", "17").status == 64)
        #expect(try pipeline.daybook("replay", "--from", "2h").status == 69)
        let unknown = try pipeline.daybook("replay", "--from", "beginning", "--topic", "daybook.days.life.v1")
        #expect(unknown.status == 64 && unknown.output.contains("Did you mean '\(live)'"), "\(unknown.output)")
        let one = try pipeline.daybook("replay", "--from", "beginning", "--user", user(7).description, "--json")
        #expect(try object(one.output)["applied"] as? Int == 10, "\(one.output)")
        let oura = try pipeline.daybook("replay", "--from", "beginning", "--source", "oura", "--json")
        #expect(try object(oura.output)["applied"] as? Int == 200)
        #expect(try pipeline.reads.tableHashes().sources.rows == 21)
        let first = try pipeline.daybook(
            "replay",
            "--from",
            "0",
            "--to",
            "5",
            "--topic",
            live,
            "--partition",
            "0",
            "--json"
        )
        #expect(try object(first.output)["read"] as? Int == 5)
        try pipeline.daybook("user", "pin", user(1).description, "steps", "oura", "--no-wait")
        let pins = try pipeline.daybook("replay", "--from", "beginning", "--route", "daybook user pin", "--json")
        #expect(try object(pins.output)["applied"] as? Int == 1)

        let words = ["replay", "--from", "beginning", "--topic", live, "--json"]
        let environment = pipeline.environment.merging(["DAYBOOK_STATE": "/nonexistent/daybook"]) { $1 }
        let slow = try ServiceProcess("daybook", words + ["--rate", "60", "--jobs", "1"], environment: environment)
        try Eventually.holds("some are saved", seconds: 30) {
            try pipeline.connection.executeUnprepared(
                "SELECT count(*) FROM tool_run_parts AS part JOIN tool_runs USING (run) WHERE finished_at IS NULL "
                    + "AND part.counts[2] > 0"
            ).int8(0, 0) > 0
        }
        slow.send(SIGINT)
        #expect(try slow.waitForExit(seconds: 20) == 75, "\(slow.output)")
        let stopped = try object(slow.output)["read"] as? Int ?? 0
        #expect(stopped > 0 && stopped < 400)
        let rest = try pipeline.daybook("replay", "--from", "beginning", "--topic", live, "--json", "--continue")
        #expect(rest.status == 0 && rest.output.contains("going on with what began"), "\(rest.output)")
        #expect(try object(rest.output)["read"] as? Int == 400)
        // Nothing is left to go on with, and nothing is taken for another stretch.
        #expect(try pipeline.daybook("replay", "--from", "beginning", "--topic", live, "--continue").status == 1)
        try publisher.publish(user(1), .oura, receivedAt: now, localDate: today, [(today, [.steps: 10])])
        try publisher.flush()
        let anew = try pipeline.daybook("replay", "--from", "beginning", "--topic", live, "--json")
        #expect(try object(anew.output)["read"] as? Int == 401 && !anew.output.contains("going on"))
    }
}

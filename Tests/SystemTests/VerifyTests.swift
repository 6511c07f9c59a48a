import Domain
import Foundation
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// `daybook verify`, `recompute` and `status`, over tables that a worker wrote.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `Verifying and recomputing` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now

    private func user(_ number: Int) -> UserID {
        // Spread over the whole range, as random ids are.
        UserID(
            high: UInt64(number) &* 0x9e37_79b9_7f4a_7c15 & ~0xf000 | 0x4000,
            low: 0x8000_0000_0000_0000 | UInt64(number)
        )
    }

    private func publish(_ users: Range<Int>, days: Int, at received: Instant, over publisher: RecordPublisher) throws {
        var generator = SystemRandomNumberGenerator()
        for number in users {
            for source in [Source.appleHealth, .garmin] {
                let list = (0..<days).map { offset -> (CalendarDay, MetricValues) in
                    let steps = Int32.random(in: 1...2000, using: &generator) * 10
                    return (today.advanced(by: -offset), [.steps: steps, .distance: steps])
                }
                try publisher.publish(user(number), source, receivedAt: received, localDate: today, list)
            }
        }
        try publisher.flush()
    }

    private func object(_ text: String) throws -> [String: Any] {
        let start = text.firstIndex(of: "{") ?? text.startIndex
        return try #require(
            try JSONSerialization.jsonObject(with: Data(text[start...].utf8)) as? [String: Any],
            "\(text)"
        )
    }

    @Test func `drift is found by metric and mended, and days of older rules are counted apart and moved`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        try publish(0..<60, days: 10, at: now, over: try pipeline.publisher())
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        let hash = try pipeline.hash()
        let clean = try pipeline.daybook("verify", "--json")
        #expect(clean.status == 0)
        #expect(try object(clean.output)["days"] as? Int == 600 && object(clean.output)["users"] as? Int == 60)
        let sample = try pipeline.daybook("verify", "--sample", "12", "--json")
        #expect(sample.status == 0)
        #expect(try object(sample.output)["users"] as? Int == 12)
        // More than there are: each once.
        #expect(try object(try pipeline.daybook("verify", "--sample", "500", "--json").output)["users"] as? Int == 60)

        let damage = """
            UPDATE canonical_days SET steps = steps + 1 WHERE user_id = '\(user(3))' AND day = '\(today)';
            UPDATE canonical_days SET winner_sources = '\\x0606' WHERE user_id = '\(user(5))' AND day = '\(today)';
            DELETE FROM canonical_days WHERE user_id = '\(user(6))' AND day = '\(today)';
            INSERT INTO canonical_days (user_id, day, rule_version, final, winner_sources, steps)
                VALUES ('\(user(7))', '\(today.advanced(by: 1))', 1, false, '\\x01', 5),
                    ('\(user(999))', '\(today)', 1, false, '\\x01', 5)
            """
        try pipeline.connection.simpleQuery(damage)
        let found = try pipeline.daybook("verify", "--json")
        #expect(found.status == 1)
        let report = try object(found.output)
        #expect(report["drifted"] as? Int == 5, "\(found.output)")
        let steps = try #require((report["metrics"] as? [String: [String: Int]])?["steps"])
        #expect(steps["value"] == 1 && steps["missing"] == 1 && steps["surplus"] == 2 && steps["source"] == 1)
        let text = try pipeline.daybook("verify")
        #expect(text.status == 1 && text.output.contains("daybook day show \(user(3)) \(today)"), "\(text.output)")
        let mended = try pipeline.daybook("recompute", "--json")
        #expect(mended.status == 0)
        #expect(try object(mended.output)["mended"] as? Int == report["drifted"] as? Int)
        #expect(try pipeline.daybook("verify").status == 0)

        // As after an upgrade: what is stored was made by rules before the active ones.
        #expect(try pipeline.hash() == hash)
        try pipeline.connection.simpleQuery(
            "UPDATE control SET rule_version = 0; UPDATE canonical_days SET rule_version = 0"
        )
        #expect(try pipeline.daybook("verify").status == 0)
        let refused = try pipeline.daybook("recompute", "--rules", "99")
        #expect(refused.status == 64, "\(refused.output)")
        try pipeline.connection.simpleQuery("UPDATE control SET rule_version = 1")
        let older = try object(try pipeline.daybook("verify", "--json").output)
        #expect(older["other_rules"] as? Int == 600 && older["drifted"] as? Int == 0)
        try pipeline.connection.simpleQuery("UPDATE control SET rule_version = 0")
        let moved = try pipeline.daybook("recompute", "--rules", "1", "--json")
        #expect(moved.status == 0 && moved.output.contains("version 1 of the rules is active now"), "\(moved.output)")
        #expect(try object(moved.output)["moved"] as? Int == 600)
        let after = try object(try pipeline.daybook("verify", "--json").output)
        #expect(after["other_rules"] as? Int == 0 && after["drifted"] as? Int == 0)
        #expect(try pipeline.hash() == hash)
        #expect(try worker.stop() == 0)
    }

    @Test func `recomputing beside workers that write the same users leaves no drift, and can be stopped`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        try publish(0..<300, days: 20, at: now.advanced(bySeconds: -600), over: publisher)
        let worker = try pipeline.startWorker(["DAYBOOK_BATCH_RECORDS": "20"])
        try pipeline.waitUntilApplied(worker: worker)
        try pipeline.connection.simpleQuery(
            "UPDATE control SET rule_version = 0; UPDATE canonical_days SET rule_version = 0"
        )
        // The load goes on while the rules are raised and the users are walked; half of it are people who are new.
        try publish(0..<600, days: 20, at: now, over: publisher)
        let environment = pipeline.environment.merging(["DAYBOOK_STATE": "/nonexistent/daybook"]) { $1 }
        let first = try ServiceProcess(
            "daybook",
            ["recompute", "--rules", "1", "--jobs", "1"],
            environment: environment
        )
        try Eventually.holds("some users are done", seconds: 30) {
            let done = try pipeline.connection.executeUnprepared(
                "SELECT count(*) FROM tool_run_parts WHERE counts[1] > 0 AND finished"
            )
            return try done.int8(0, 0) > 2 || !first.isRunning
        }
        first.send(SIGINT)
        let status = try first.waitForExit(seconds: 30)
        #expect(status == 75 || status == 0, "\(first.output)")
        let words = status == 75 ? ["recompute", "--json", "--continue"] : ["recompute", "--json"]
        let rest = try ServiceProcess("daybook", words, environment: environment)
        #expect(try rest.waitForExit(seconds: 60) == 0, "\(rest.output)")
        if status == 75 { #expect(rest.output.contains("going on with what began")) }
        #expect(try object(rest.output)["users"] as? Int ?? 0 >= 300)
        try pipeline.waitUntilApplied(worker: worker)
        let verified = try pipeline.daybook("verify", "--json")
        #expect(verified.status == 0, "\(verified.output)")
        #expect(try object(verified.output)["other_rules"] as? Int == 0)
        #expect(try pipeline.deadLetters().isEmpty)
        #expect(try worker.stop() == 0)
    }

    @Test func `status tells lag in records and seconds, rates, the brake, the wake queue and the database`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        try publish(0..<20, days: 1, at: now, over: publisher)
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        let fine = try pipeline.daybook("status", "--all")
        #expect(fine.status == 0 && fine.output.contains("lag: 0 records"), "\(fine.output)")
        #expect(fine.output.contains("rules 1") && fine.output.contains("of 20 scheduled"), "\(fine.output)")
        #expect(!fine.output.contains("\u{1B}"))
        let watched = try pipeline.daybook("status", "--watch", "--count", "2", "--interval", "1s", "--all")
        #expect(watched.status == 0 && watched.output.contains("records/s applied"), "\(watched.output)")
        #expect(!watched.output.contains("\u{1B}"))
        #expect(try worker.stop() == 0)
        for _ in 0..<120 {
            let hourAgo = now.advanced(bySeconds: -3600)
            try publisher.publish(raw: [0x78], key: user(1).description, schema: "days/1", receivedAt: hourAgo)
        }
        try publisher.flush()
        let lagging = try object(try pipeline.daybook("status", "--json").output)
        #expect(lagging["lag"] as? Int == 120 && lagging["lag_seconds"] is Int)
        #expect(lagging["lag_seconds"] as? Int ?? 0 >= 3600)
        // Nobody comes to them.
        let late = try pipeline.daybook("status")
        #expect(late.status == 1 && late.output.contains("do the workers run?"), "\(late.output)")
        #expect(try pipeline.daybook("status", "--max-lag", "2h").status == 0)
        let again = try pipeline.startWorker()
        let name = PartitionName(topic: Topic.daysLive.name(prefix: ""), partition: 0)
        try Eventually.holds("the brake is on") { try OffsetsStore(pipeline.connection).look(name)?.brakedAt != nil }
        let braked = try pipeline.daybook("status")
        #expect(braked.status == 1 && braked.output.contains("brake: 1 partition stands still"), "\(braked.output)")
        #expect(try again.stop() == 0)
    }
}

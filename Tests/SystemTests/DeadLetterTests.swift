import Domain
import Foundation
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// Dead letters from the worker that puts them aside to the operator who decides about them.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `Dead letters and their operator` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)
    private let bob = UserID(high: 0xB0B0_0000_0000_4000, low: 0x8000_0000_0000_0002)
    private let live = Topic.daysLive.name(prefix: "")

    private func object(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any], "\(text)")
    }

    private func counts(_ pipeline: PipelineUnderTest) throws -> [String: Int] {
        let listed = try pipeline.daybook("dead-letters", "list", "--all", "--json")
        #expect(listed.status == 0, "\(listed.output)")
        let groups = try object(listed.output)["groups"] as? [[String: Any]] ?? []
        var sum: [String: Int] = [:]
        for group in groups {
            for state in ["open", "redriven", "dropped", "deleted"] {
                sum[state, default: 0] += group[state] as? Int ?? 0
            }
        }
        return sum.filter { $0.value > 0 }
    }

    /// As a writer of tomorrow: the reader of today takes its records for poison.
    private func publish(schema: String, _ user: UserID, _ steps: Int, over publisher: RecordPublisher) throws {
        let value = #"{"source":"oura","local_date":"\#(today)","days":[{"date":"\#(today)","steps":\#(steps)}]}"#
        try publisher.publish(raw: Array(value.utf8), key: user.description, schema: schema, receivedAt: now)
    }

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `what is redriven arrives as it was, fails again as the next attempt, and can be dropped`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let pipeline = try PipelineUnderTest(kind)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        for number in 0..<5 { try publish(schema: "days/9", alice, 1000 + number, over: publisher) }
        try publisher.publish(raw: Array("}{".utf8), key: bob.description, schema: "days/1", receivedAt: now)
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        let listed = try pipeline.daybook("dead-letters", "list")
        #expect(listed.status == 0 && listed.output.contains("unknown_schema") && listed.output.contains("bad_json"))
        #expect(try counts(pipeline) == ["open": 6])
        let each = try pipeline.daybook("dead-letters", "list", "--each", "--reason", "bad_json", "--json")
        let letters = try object(each.output)["letters"] as? [[String: Any]] ?? []
        #expect(letters.count == 1 && letters.first?["attempt"] as? Int == 1)
        let name = try #require(letters.first?["letter"] as? String)
        let shown = try pipeline.daybook("dead-letters", "show", name)
        #expect(shown.status == 0 && shown.output.contains("reason: bad_json") && !shown.output.contains("}{"))
        #expect(try pipeline.daybook("dead-letters", "show", name, "--value").output.contains("}{"))
        #expect(try pipeline.daybook("dead-letters", "show", "\(live)/0/99999").status == 1)

        let dry = try pipeline.daybook("dead-letters", "redrive", "all", "--reason", "unknown_schema", "--dry-run")
        #expect(dry.status == 0 && dry.output.contains("5 records would be sent"), "\(dry.output)")
        #expect(try counts(pipeline) == ["open": 6])
        // Nothing was mended: each comes back as its second attempt.
        let sent = try pipeline.daybook("dead-letters", "redrive", "all", "--reason", "unknown_schema", "--json")
        #expect(sent.status == 0, "\(sent.output)")
        #expect(try object(sent.output)["sent"] as? Int == 5)
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try counts(pipeline) == ["open": 6, "redriven": 5])
        let again = try pipeline.deadLetters().filter { $0["attempt"] == "2" }
        #expect(again.count == 5)
        for letter in again {
            #expect(letter["received-at"] == now.description && letter["schema"] == "days/9")
            #expect(letter["origin-topic"] == live && letter["event-id"] != nil)
        }
        let records = try pipeline.kafka.records(in: live, partitions: pipeline.partitions)
        #expect(records.filter { $0.headers["attempt"] == "1" }.allSatisfy { $0.key == alice.description })
        let first = records.filter { $0.headers["schema"] == "days/9" && $0.headers["attempt"] == nil }
        let second = records.filter { $0.headers["attempt"] == "1" }
        #expect(Set(first.map(\.value)) == Set(second.map(\.value)) && second.count == 5)
        #expect(Set(first.compactMap { $0.headers["event-id"] }) == Set(second.compactMap { $0.headers["event-id"] }))

        #expect(try pipeline.daybook("dead-letters", "drop", "all").status == 64)
        #expect(try pipeline.daybook("dead-letters", "drop", "all", "--because", " . ").status == 64)
        let dropped = try pipeline.daybook("dead-letters", "drop", name, "--because", "a fuzzer of ours")
        #expect(dropped.status == 0 && dropped.output.contains("1 letter dropped"), "\(dropped.output)")
        #expect(try counts(pipeline) == ["open": 5, "redriven": 5, "dropped": 1])
        #expect(try pipeline.daybook("dead-letters", "show", name).output.contains("a fuzzer of ours"))
        let refused = try pipeline.daybook("dead-letters", "redrive", name)
        #expect(refused.status == 1 && refused.output.contains("--again"), "\(refused.output)")
        #expect(try pipeline.daybook("dead-letters", "redrive", name, "--again").status == 0)
        let kept = try pipeline.connection.executeUnprepared(
            "SELECT count(*) FROM dead_letter_marks WHERE state = 'redriven' AND reason = 'a fuzzer of ours'"
        )
        #expect(try kept.int8(0, 0) == 1)
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try worker.stop() == 0)
        #expect(!worker.output.contains("}{"))
    }

    @Test func `redriven once the cause is gone, records count as if they had been applied at once (D3)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        // The database is what refuses them: a value that a table of a bad deploy does not take.
        try pipeline.connection.simpleQuery(
            "ALTER TABLE source_days ADD CONSTRAINT of_a_bad_deploy CHECK (steps IS DISTINCT FROM 4321)"
        )
        for number in 0..<20 {
            let user = UserID(high: 6, low: UInt64(number))
            let steps: Int32 = number.isMultiple(of: 4) ? 43_210 : 10_000
            try publisher.publish(user, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: steps])])
        }
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.tableHashes().sources.rows == 15)
        #expect(try counts(pipeline) == ["open": 5])
        try pipeline.connection.simpleQuery("ALTER TABLE source_days DROP CONSTRAINT of_a_bad_deploy")
        // Newer readings have come meanwhile: what was put aside must not win over them.
        let later = now.advanced(bySeconds: 60)
        let first = UserID(high: 6, low: 0)
        try publisher.publish(first, .appleHealth, receivedAt: later, localDate: today, [(today, [.steps: 50_000])])
        try publisher.flush()
        try pipeline.waitUntilApplied(worker: worker)
        let sent = try pipeline.daybook("dead-letters", "redrive", "all", "--rate", "50")
        #expect(sent.status == 0 && sent.output.contains("5 records sent"), "\(sent.output)")
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try counts(pipeline) == ["redriven": 5])
        let steps = try (0..<20).map { number in
            let user = UserID(high: 6, low: UInt64(number))
            return try pipeline.reads.canonicalDays(of: user, today...today).first?.day.values[.steps]
        }
        #expect(steps[0] == 50_000 && steps[4] == 43_210 && steps[1] == 10_000)
        #expect(try pipeline.daybook("verify").status == 0)
        #expect(try worker.stop() == 0)
    }

    @Test func `a poison that was too large to be kept is fetched from where it stood`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        let bubble = Array(repeating: UInt8(ascii: "x"), count: 3_000_000)
        try publisher.publish(raw: bubble, key: alice.description, schema: "days/1", receivedAt: now)
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        let shown = try pipeline.daybook("dead-letters", "show", "\(live)/0/0")
        #expect(shown.status == 0 && shown.output.contains("too large to be kept"), "\(shown.output)")
        #expect(shown.output.contains("schema: days/1"))
        // A good letter beside it goes, whatever stands in the way of this one.
        try publish(schema: "days/9", alice, 5, over: publisher)
        try publisher.flush()
        try pipeline.waitUntilApplied(worker: worker)
        let sent = try pipeline.daybook("dead-letters", "redrive", "all", "--json")
        #expect(sent.status == 1, "\(sent.output)")
        let outcome = try object(sent.output)
        #expect(outcome["sent"] as? Int == 1 && outcome["meant"] as? Int == 2)
        #expect((outcome["left"] as? [String: Int])?.values.reduce(0, +) == 1)
        #expect(try worker.stop() == 0)
    }

    @Test func `a deletion reaches the tables, the dead letters and every replay (D7)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        let hourAgo = now.advanced(bySeconds: -3600)
        for user in [alice, bob] {
            let value = #"{"source":"oura","days":[{"date":"\#(today)","steps":777}]}"#
            try publisher.publish(raw: Array(value.utf8), key: user.description, schema: "days/9", receivedAt: hourAgo)
            for lane in [Lane.live, .history] {
                let days = (0..<5).map {
                    (today.advanced(by: -$0 - (lane == .live ? 0 : 50)), [.steps: 90] as MetricValues)
                }
                try publisher.publish(user, .garmin, receivedAt: hourAgo, localDate: today, lane: lane, days)
            }
        }
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        try pipeline.daybook("user", "pin", alice.description, "steps", "garmin")
        let before = try object(try pipeline.daybook("user", "export", alice.description, "--search").output)
        #expect((before["source_days"] as? [Any])?.count == 10 && (before["canonical_days"] as? [Any])?.count == 10)
        #expect((before["connections"] as? [Any])?.count == 1 && (before["dead_letters"] as? [Any])?.count == 1)
        let places = try #require(before["log"] as? [[String: Any]])
        #expect(places.reduce(0) { $0 + (($1["offsets"] as? [Any])?.count ?? 0) } == 4)

        #expect(try pipeline.daybook("user", "delete", alice.description, "--yes").status == 0)
        func checkNothingIsBack(_ when: String) throws {
            let after = try object(try pipeline.daybook("user", "export", alice.description).output)
            for table in ["source_days", "canonical_days", "connections"] {
                #expect((after[table] as? [Any])?.isEmpty == true, "\(table) \(when)")
            }
            #expect((after["other_rows"] as? [String: Any])?.isEmpty == true, "\(when)")
            let account = try #require(after["account"] as? [String: Any])
            #expect(account["deleted_until"] is String && (account["pins"] as? [Any])?.isEmpty == true)
            let letters = after["dead_letters"] as? [[String: Any]] ?? []
            #expect(letters.allSatisfy { $0["state"] as? String == "deleted" } && letters.count == 1, "\(when)")
        }
        try checkNothingIsBack("after the deletion")
        #expect(try counts(pipeline) == ["deleted": 1, "open": 1])
        let sent = try pipeline.daybook("dead-letters", "redrive", "all", "--json")
        #expect(try object(sent.output)["sent"] as? Int == 1)
        #expect(try pipeline.daybook("rewind", "all", "--to", "beginning").status == 0)
        try pipeline.waitUntilApplied(worker: worker)
        try checkNothingIsBack("after a replay and a redrive")
        #expect(try pipeline.reads.canonicalDays(of: bob, today...today).count == 1)
        #expect(try worker.stop() == 0)
    }

    @Test func `an export goes into a file that only its maker can read, and never over another`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let path = FileManager.default.temporaryDirectory.path + "/export-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: path) }
        #expect(try pipeline.daybook("user", "export", alice.description, "--output", path).status == 0)
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(try object(String(contentsOfFile: path, encoding: .utf8))["account"] is NSNull)
        let again = try pipeline.daybook("user", "export", alice.description, "--output", path)
        #expect(again.status == 73 && again.output.contains("exists already"))
    }
}

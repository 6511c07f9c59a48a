import Domain
import Foundation
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// What operators do while the worker runs.
@Suite struct `The operator's commands` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)
    private let bob = UserID(high: 0xB0B0_0000_0000_4000, low: 0x8000_0000_0000_0002)
    private let live = Topic.daysLive.name(prefix: "")

    /// A worker that owns nothing in the database.
    private func startPlainWorker(_ pipeline: PipelineUnderTest) throws -> ServiceProcess {
        let separator = pipeline.databaseURL.contains("?") ? "&" : "?"
        let url = pipeline.databaseURL + separator + "options=-c%20role%3Ddaybook_worker"
        return try pipeline.startWorker(["DAYBOOK_DATABASE_URL": url])
    }

    private func epochs(_ pipeline: PipelineUnderTest) throws -> [PartitionName: Int64] {
        Dictionary(uniqueKeysWithValues: try OffsetsStore(pipeline.connection).all().map { ($0.name, $0.state.epoch) })
    }

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `replayed twice from the beginning while the worker runs, the tables mean the same (C1, D3)`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let pipeline = try PipelineUnderTest(kind)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        var generator = SystemRandomNumberGenerator()
        let sources: [Source] = [.appleHealth, .healthConnect, .garmin, .manual]
        for _ in 0..<500 {
            let days = (0..<10).map { offset -> (CalendarDay, MetricValues) in
                let steps = Int32.random(in: 0...5, using: &generator) * 10
                return (today.advanced(by: -offset), [.steps: steps, .activeEnergy: steps])
            }
            try publisher.publish(
                UserID(high: 2, low: UInt64.random(in: 0..<25, using: &generator)),
                sources[Int.random(in: 0..<4, using: &generator)],
                receivedAt: now,
                observedAt: now.advanced(bySeconds: -Int.random(in: 0...86_400, using: &generator)),
                localDate: today,
                days
            )
        }
        try publisher.flush()
        let worker = try startPlainWorker(pipeline)
        try pipeline.waitUntilApplied(worker: worker)
        let hash = try pipeline.daybook("hash")
        #expect(hash.status == 0 && hash.output.contains("source_days"))
        let before = try epochs(pipeline)
        let dry = try pipeline.daybook("rewind", live, "--to", "beginning", "--dry-run")
        #expect(dry.status == 0 && dry.output.contains("dry run"), "\(dry.output)")
        #expect(try epochs(pipeline) == before)
        for round in 1...2 {
            let moved = try pipeline.daybook("rewind", live, "--to", "beginning")
            #expect(moved.status == 0 && moved.output.contains("500 records are applied once more"), "\(moved.output)")
            try pipeline.waitUntilApplied(worker: worker)
            #expect(try pipeline.daybook("hash").output == hash.output, "round \(round)")
        }
        // Once by the operator, and once by the lane that took it over.
        for (name, epoch) in try epochs(pipeline) where name.topic == live {
            #expect(epoch >= (before[name] ?? 0) + 4)
        }
        let place = kind == .mock ? "0" : "1h"
        let choice = kind == .mock ? "\(live)/0" : "all"
        let again = try pipeline.daybook("rewind", choice, "--to", place)
        #expect(again.status == 0, "\(again.output)")
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.daybook("hash").output == hash.output)
        if kind == .mock {
            let time = try pipeline.daybook("rewind", live, "--to", "1h")
            #expect(time.status == 69 && time.output.contains("can't look up a time"))
        }
        let offsets = try pipeline.daybook("offsets")
        #expect(offsets.status == 0 && offsets.output.contains("\(live)/1"))
        #expect(try pipeline.deadLetters().isEmpty)
        #expect(try worker.stop() == 0)
    }

    @Test func `a partition that the brake has stopped goes on when it is released`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        for _ in 0..<150 {
            try publisher.publish(raw: Array("x".utf8), key: alice.description, schema: "days/1", receivedAt: now)
        }
        try publisher.publish(alice, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 10])])
        try publisher.flush()
        let worker = try pipeline.startWorker()
        let name = PartitionName(topic: live, partition: 0)
        let offsets = OffsetsStore(pipeline.connection)
        try Eventually.holds("the brake is on") { try offsets.look(name)?.brakedAt != nil }
        #expect(try pipeline.daybook("offsets").output.contains("stopped by the brake"))
        #expect(try pipeline.daybook("dead-letters", "release", "\(live)/7").status == 1)
        let released = try pipeline.daybook("dead-letters", "release", "\(name)")
        #expect(released.status == 0 && released.output.contains("\(name): released"), "\(released.output)")
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.canonicalDays(of: alice, today...today).count == 1)
        #expect(try pipeline.deadLetters().count == 150)
        #expect(try pipeline.daybook("dead-letters", "release", "all").output.contains("stopped nothing"))
        #expect(try worker.stop() == 0)
    }

    @Test func `a deleted user's rows go and a replay does not bring them back (D7)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        let hourAgo = now.advanced(bySeconds: -3600)
        try publisher.publish(bob, .appleHealth, receivedAt: hourAgo, localDate: today, [(today, [.steps: 50])])
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        let without = try pipeline.hash()
        for (lane, offset) in [(Lane.live, 1), (.history, 60)] {
            let days = (0..<20).map { (today.advanced(by: -$0 - offset), [.steps: 70_000] as MetricValues) }
            try publisher.publish(alice, .oura, receivedAt: hourAgo, localDate: today, lane: lane, days)
        }
        try publisher.flush()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.tableHashes().sources.rows == 41)
        #expect(try pipeline.daybook("user", "delete", alice.description).status == 64)
        let deleted = try pipeline.daybook("user", "delete", alice.description, "--yes", "--json")
        #expect(deleted.status == 0 && deleted.output.contains("\"applied\": true"), "\(deleted.output)")
        #expect(try pipeline.hash() == without)
        #expect(try pipeline.reads.connections(of: alice).isEmpty)
        let moved = try pipeline.daybook("rewind", "all", "--to", "beginning")
        #expect(moved.status == 0, "\(moved.output)")
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.hash() == without)
        // What comes after the deletion counts. By the clock: that one is the command's, and the suite may have begun long ago.
        let later = Instant.present.advanced(bySeconds: 600)
        try publisher.publish(alice, .oura, receivedAt: later, localDate: today, [(today, [.steps: 20])])
        try publisher.flush()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.canonicalDays(of: alice, today...today).first?.day.values == [.steps: 20])
        #expect(try pipeline.deadLetters().isEmpty)
        #expect(try worker.stop() == 0)
    }

    @Test func `a pin recomputes all days, and taking it away restores them (C27)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        for lane in [Lane.live, .history] {
            let days = (0..<30).map { today.advanced(by: -$0 - (lane == .live ? 0 : 40)) }
            for (source, steps) in [(Source.appleHealth, Int32(90_000)), (.garmin, 80_000)] {
                let readings = days.map { ($0, [.steps: steps] as MetricValues) }
                try publisher.publish(alice, source, receivedAt: now, localDate: today, lane: lane, readings)
            }
        }
        try publisher.flush()
        let worker = try startPlainWorker(pipeline)
        try pipeline.waitUntilApplied(worker: worker)
        let unpinned = try pipeline.hash()
        func steps() throws -> Set<Int32> {
            let days = try pipeline.reads.canonicalDays(of: alice, today.advanced(by: -100)...today)
            #expect(days.count == 60)
            return Set(days.compactMap { $0.day.values[.steps] })
        }
        #expect(try steps() == [90_000])
        let pinned = try pipeline.daybook("user", "pin", alice.description, "steps", "garmin")
        #expect(pinned.status == 0 && pinned.output.contains("steps pinned to garmin"), "\(pinned.output)")
        #expect(try steps() == [80_000])
        #expect(try pipeline.reads.drift(of: alice).drifted == 0)
        #expect(try pipeline.daybook("user", "pin", alice.description, "steps", "none").status == 0)
        #expect(try pipeline.hash() == unpinned)
        let gone = try pipeline.daybook("user", "disconnect", alice.description, "apple_health", "--data")
        #expect(gone.status == 0 && gone.output.contains("its data removed"), "\(gone.output)")
        #expect(try steps() == [80_000])
        #expect(try pipeline.reads.drift(of: alice).drifted == 0)
        let slip = try pipeline.daybook("user", "pin", alice.description, "stepz", "garmin")
        #expect(slip.status == 64 && slip.output.contains("Did you mean 'steps'?"))
        #expect(try worker.stop() == 0)
    }

    @Test func `without a worker a deletion is durable, and says that it waits`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let waiting = try pipeline.daybook("user", "delete", alice.description, "--yes", "--wait", "1s")
        #expect(waiting.status == 75 && waiting.output.contains("not applied yet"), "\(waiting.output)")
        let recorded = try pipeline.daybook("user", "delete", alice.description, "--yes", "--no-wait")
        #expect(recorded.status == 0 && recorded.output.contains("recorded"), "\(recorded.output)")
        let records = try pipeline.kafka.records(in: Topic.accounts.name(prefix: ""), partitions: 2)
        #expect(records.count == 2 && Set(records.map(\.key)) == [alice.description])
        #expect(
            records.allSatisfy { $0.headers["schema"] == "account/1" && $0.headers["route"] == "daybook user delete" }
        )
        let partition = Partitioner.partition(of: alice, partitions: 2)
        #expect(records.allSatisfy { $0.partition == Int32(partition) })
    }

    @Test func `migrate --check tells what is missing, and its status does`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let check = { try pipeline.daybook("migrate", "--check", "--skip-topics") }
        #expect(try check().status == 0)
        let month = today.firstOfMonth.description.prefix(7)
        try pipeline.connection.simpleQuery(
            "DROP TABLE source_days_y\(month.prefix(4))m\(month.suffix(2)); DELETE FROM schema_migrations WHERE version = 2"
        )
        let lacking = try check()
        #expect(lacking.status == 1)
        #expect(lacking.output.contains("missing 2 roles") && lacking.output.contains("no partitions for \(month)"))
        try pipeline.connection.simpleQuery("UPDATE schema_migrations SET checksum = 1")
        let changed = try check()
        #expect(changed.status == 1 && changed.output.contains("applied with another text"))
    }
}

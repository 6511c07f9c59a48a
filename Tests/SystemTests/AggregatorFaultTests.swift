import DevelopmentStack
import Domain
import Foundation
import Glibc
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// One fault at a time, with the built worker; the torture suite mixes them.
@Suite struct `The aggregator worker under a fault` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)
    private let live = PartitionName(topic: Topic.daysLive.name(prefix: ""), partition: 0)

    @Test func `a batch that is tried again and again sends its dead letters once (D9)`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let blocker = try PostgresConnection(url: pipeline.databaseURL, applicationName: "blocker", settings: [])
        try blocker.simpleQuery("BEGIN; LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        let publisher = try pipeline.publisher()
        try publisher.publish(raw: Array("}{".utf8), key: alice.description, schema: "days/1", receivedAt: now)
        try publisher.publish(alice, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 50_000])])
        try publisher.flush()
        let worker = try pipeline.startWorker(["DAYBOOK_DATABASE_LOCK_TIMEOUT_MS": "300"])
        try Eventually.holds("it was tried three times in vain", seconds: 60) {
            try worker.metric(#"daybook_aggregator_retries_total{why="lock_timeout"}"#) ?? 0 >= 3
        }
        #expect(try pipeline.deadLetters().count == 1)
        try blocker.simpleQuery("ROLLBACK")
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.deadLetters().map { $0["reason"] } == ["bad_json"])
        #expect(try worker.metric(#"daybook_aggregator_dead_letters_total{reason="bad_json"}"#) == 1)
        #expect(try pipeline.reads.tableHashes().sources.rows == 1)
        #expect(try worker.stop() == 0)
    }

    /// Between two round trips, and in the middle of sending one.
    @Test(arguments: [DatabaseProxy.Fault.holdTransaction, .holdCommit])
    func `frozen in the middle of its transaction it loses its locks, and another goes on (C5, D2)`(
        moment: DatabaseProxy.Fault
    ) throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let database = try ProxiedDatabase(pipeline)
        defer { database.proxy.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<40, over: publisher)
        database.proxy.arm(moment)
        let frozen = try pipeline.startWorker(database.environment)
        try database.waitUntilFired(moment)
        frozen.send(SIGSTOP)
        let begun = Date()
        let other = try pipeline.startWorker()
        try Eventually.holds("its transaction is open") { try pipeline.idleTransactions() == 1 }
        try Eventually.holds("its locks are gone", seconds: 15) { try pipeline.idleTransactions() == 0 }
        #expect(Date().timeIntervalSince(begun) < 12)
        try pipeline.waitUntilApplied(worker: other)
        #expect(try pipeline.reads.tableHashes().sources.rows == 40)
        // The zombie wakes up, and sends the rest of what it wanted to.
        database.proxy.release()
        frozen.send(SIGCONT)
        try pipeline.publish(0..<80, steps: 2000, over: publisher)
        try pipeline.waitUntilApplied(worker: other)
        #expect(try pipeline.reads.tableHashes().sources.rows == 80)
        #expect(try pipeline.deadLetters().isEmpty)
        for worker in [frozen, other] { #expect(try worker.stop() == 0) }
        #expect(try pipeline.positions()[live] == 120)
    }

    @Test func `stalled past its session it writes nothing over its successor (C5, D2)`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<10, over: publisher)
        let stalled = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: stalled)
        stalled.send(SIGSTOP)
        let other = try pipeline.startWorker()
        try pipeline.publish(10..<60, over: publisher)
        try pipeline.waitUntilApplied(worker: other)
        let epoch = try #require(try OffsetsStore(pipeline.connection).look(live)).epoch
        stalled.send(SIGCONT)
        try pipeline.publish(0..<60, steps: 3000, over: publisher)
        try pipeline.waitUntilApplied(worker: other)
        #expect(epoch >= 2)
        #expect(try pipeline.reads.tableHashes().sources.rows == 60)
        for worker in [stalled, other] { #expect(try worker.stop() == 0) }
    }

    @Test(arguments: [DatabaseProxy.Fault.cutAfterCommit, .cutDuringCommit, .cutBeforeCommit])
    func `a connection that is cut around COMMIT: applied once (C6, D2)`(fault: DatabaseProxy.Fault) throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let database = try ProxiedDatabase(pipeline)
        defer { database.proxy.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<30, days: 3, over: publisher)
        database.proxy.arm(fault)
        let worker = try pipeline.startWorker(database.environment.merging(["DAYBOOK_BATCH_RECORDS": "10"]) { $1 })
        try pipeline.waitUntilApplied(worker: worker)
        #expect(database.proxy.fired(fault) == 1)
        #expect(try pipeline.reads.tableHashes().sources.rows == 90)
        #expect(try pipeline.positions()[live] == 30)
        // Its COMMIT counted although nobody said so: it goes on from the row, and writes nothing twice.
        if fault == .cutAfterCommit { #expect(worker.output.contains("the position was moved")) }
        #expect(try pipeline.deadLetters().isEmpty)
        #expect(try worker.stop() == 0)
    }

    @Test func `COMMIT answered with ROLLBACK is a failure, and the batch is tried again (C7)`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let database = try ProxiedDatabase(pipeline)
        defer { database.proxy.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<20, over: publisher)
        database.proxy.arm(.rollbackForCommit)
        let worker = try pipeline.startWorker(database.environment)
        try pipeline.waitUntilApplied(worker: worker)
        #expect(database.proxy.fired(.rollbackForCommit) == 1)
        #expect(try pipeline.reads.tableHashes().sources.rows == 20)
        #expect(try worker.stop() == 0)
    }

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `a position below the log's start stops the partition, or goes on behind the gap, by policy (C10)`(
        kind: KafkaUnderTest.Kind
    ) throws {
        // The development broker keeps 5 MiB of a partition; this makes a real one do the same.
        let pipeline = try PipelineUnderTest(
            kind,
            partitions: 1,
            broker: ["log.retention.check.interval.ms=500", "log.initial.task.delay.ms=500"],
            topics: ["segment.bytes": "1048576", "retention.bytes": "4194304"]
        )
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<5, over: publisher)
        let early = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: early)
        #expect(try early.stop() == 0)
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<9 {
            let noise = (0..<900_000).map { _ in UInt8.random(in: 0...255, using: &generator) }
            try publisher.publish(raw: noise, key: alice.description, schema: "days/1", receivedAt: now)
            try publisher.flush()
        }
        try publisher.publish(alice, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 10])])
        try publisher.flush()
        let admin = try KafkaAdmin(properties: pipeline.kafka.properties(), log: { _ in })
        try Eventually.holds("the log starts later", seconds: 60) {
            let log = TopicPartition(topic: Topic.daysLive.name(prefix: ""), partition: 0)
            return try admin.watermarks(log, timeoutMilliseconds: 5000).low > 5
        }
        let stopped = try pipeline.startWorker()
        try Eventually.holds("it says so", seconds: 60) {
            stopped.output.contains("records were dropped by retention before they were read")
        }
        try Eventually.holds("the partition stands still") { stopped.output.contains("stopped by policy") }
        #expect(try pipeline.positions()[live] == 5)
        #expect(try pipeline.reads.canonicalDays(of: alice, today...today).isEmpty)
        // The loss is on record, although the policy is to stop; it is counted once, however often it is met.
        let first = try lost(pipeline)
        #expect(first.records > 0 && first.records == first.through - 5)
        #expect(try stopped.metric("daybook_aggregator_lost_records_total") == Double(first.records))
        #expect(try stopped.stop() == 0)
        let again = try pipeline.startWorker()
        try Eventually.holds("the partition stands still again") { again.output.contains("stopped by policy") }
        let second = try lost(pipeline)
        #expect(second.records >= first.records && second.records == second.through - 5)
        if kind == .mock { #expect(try again.metric("daybook_aggregator_lost_records_total") == 0) }
        #expect(try again.stop() == 0)
        let resumed = try pipeline.startWorker(["DAYBOOK_LOST_LOG_POLICY": "resume"])
        try pipeline.waitUntilApplied(worker: resumed)
        #expect(try pipeline.reads.canonicalDays(of: alice, today...today).count == 1)
        let third = try lost(pipeline)
        #expect(third.records >= second.records && third.records == third.through - 5)
        #expect(try resumed.stop() == 0)
    }

    private func lost(_ pipeline: PipelineUnderTest) throws -> (records: Int64, through: Int64) {
        let row = try pipeline.connection.executeUnprepared(
            "SELECT lost_records, lost_through FROM consumer_offsets WHERE topic = '\(live.topic)' AND partition = 0"
        )
        return (try row.int8(0, 0), try row.int8(0, 1))
    }

    @Test func `SIGTERM ends it in time under load, in a rebalance and with the broker down (C15)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<3000, days: 4, over: publisher)
        let busy = try pipeline.startWorker(["DAYBOOK_BATCH_RECORDS": "10"])
        try Eventually.holds("it works", seconds: 60) { try pipeline.positions().values.contains { $0 > 0 } }
        #expect(try busy.stop(seconds: 15) == 0)
        #expect(try pipeline.positions().values.reduce(0, +) < 3000)
        let staying = try pipeline.startWorker(["DAYBOOK_BATCH_RECORDS": "10"])
        try Eventually.holds("it works", seconds: 60) { staying.output.contains("partitions assigned") }
        // The group rebalances for the second one, and the first one leaves meanwhile.
        let joining = try pipeline.startWorker()
        _ = try joining.waitForLog("admin listening", key: "address")
        #expect(try staying.stop(seconds: 15) == 0)
        try pipeline.waitUntilApplied(worker: joining)
        #expect(try pipeline.reads.tableHashes().sources.rows == 12_000)
        try pipeline.kafka.takeDown()
        #expect(try joining.stop(seconds: 15) == 0)
    }

    @Test func `SIGTERM ends it in time with the database down (C15)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let cluster = try PrivatePostgres.makeCluster()
        try cluster.start()
        defer { cluster.stop() }
        let url = try cluster.createDatabase(named: "away")
        try Migrator(.init(url: url, applicationName: "setup")).migrate(today: today)
        let worker = try pipeline.startWorker(["DAYBOOK_DATABASE_URL": url])
        try Eventually.holds("it has joined", seconds: 60) { worker.output.contains("partitions assigned") }
        cluster.stop()
        try pipeline.publish(0..<10, over: try pipeline.publisher())
        try Eventually.holds("it notices", seconds: 60) {
            worker.output.contains("database is away") || worker.output.contains("could not be claimed")
        }
        #expect(try worker.stop(seconds: 15) == 0)
    }

    @Test func `killed while a pin recomputes: afterwards all days follow the pin (C27, D6)`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let database = try ProxiedDatabase(pipeline)
        defer { database.proxy.stop() }
        let publisher = try pipeline.publisher()
        for (source, steps) in [(Source.appleHealth, Int32(70_000)), (.garmin, 60_000)] {
            let days = (0..<380).map { (today.advanced(by: -$0), [.steps: steps] as MetricValues) }
            try publisher.publish(alice, source, receivedAt: now, localDate: today, lane: .history, days)
        }
        try publisher.flush()
        let first = try pipeline.startWorker(database.environment)
        try pipeline.waitUntilApplied(worker: first)
        database.proxy.arm(.holdCommit)
        try publisher.publish(alice, .preference(.steps, source: .garmin), receivedAt: now)
        try publisher.flush()
        try database.waitUntilFired(.holdCommit)
        try first.kill()
        database.proxy.release()
        let before = try pipeline.reads.canonicalDays(of: alice, today.advanced(by: -400)...today)
        // The COMMIT that was held may still arrive when it is let go: all days follow the pin, or none.
        #expect(before.count == 380 && Set(before.map(\.day.values)).count == 1)
        let second = try pipeline.startWorker(database.environment)
        try pipeline.waitUntilApplied(worker: second)
        let after = try pipeline.reads.canonicalDays(of: alice, today.advanced(by: -400)...today)
        #expect(after.count == 380 && after.allSatisfy { $0.day.values == [.steps: 60_000] })
        #expect(try pipeline.reads.drift(of: alice).drifted == 0)
        #expect(try second.stop() == 0)
    }
}

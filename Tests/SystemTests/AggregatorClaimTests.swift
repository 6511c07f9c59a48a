import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// Taking partitions over, and losing and finding what a worker depends on, with the built worker.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `The aggregator worker and what it depends on` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now
    private let live = PartitionName(topic: Topic.daysLive.name(prefix: ""), partition: 0)

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `SIGTERM ends it in time while the broker hangs and partitions are not claimed (C15)`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let pipeline = try PipelineUnderTest(kind)
        defer { pipeline.kafka.stop() }
        let blocker = try PostgresConnection(url: pipeline.databaseURL, applicationName: "blocker", settings: [])
        try blocker.simpleQuery("BEGIN; LOCK TABLE consumer_offsets IN ACCESS EXCLUSIVE MODE")
        let worker = try pipeline.startWorker(["DAYBOOK_DATABASE_LOCK_TIMEOUT_MS": "300"])
        try Eventually.holds("a claim was tried in vain", seconds: 60) {
            worker.lines("\"live-0\"", "could not be claimed") > 0
        }
        try pipeline.kafka.hang()
        let tries = worker.lines("\"live-0\"", "the database answers again")
        // With it the next claim begins, by asking the broker that hangs.
        try Eventually.holds("it claims again") {
            worker.lines("\"live-0\"", "the database answers again") > tries
        }
        let begun = Date()
        #expect(try worker.stop(seconds: 15) == 0)
        print("ended \(Date().timeIntervalSince(begun)) s after SIGTERM on \(kind.rawValue)")
        try blocker.simpleQuery("ROLLBACK")
    }

    @Test func `a partition without a leader is asked again alone; the others are neither held up nor claimed anew`()
        throws
    {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let mock = try #require(pipeline.kafka.mock)
        let leaderless = TopicPartition(topic: live.topic, partition: 1)
        try mock.setLeader(of: leaderless, broker: -1)
        let worker = try pipeline.startWorker()
        let tries = { worker.lines("\"live-0\"", "could not be asked where its log begins") }
        try Eventually.holds("it is asked in vain", seconds: 60) { tries() >= 1 }
        let offsets = OffsetsStore(pipeline.connection)
        try Eventually.holds("the other is claimed") { try offsets.look(live) != nil }
        try Eventually.holds("it is asked again", seconds: 30) { tries() >= 2 }
        #expect(try offsets.look(live)?.epoch == 1)
        try mock.setLeader(of: leaderless, broker: 1)
        let name = PartitionName(topic: live.topic, partition: 1)
        try Eventually.holds("it is claimed once it can be", seconds: 30) { try offsets.look(name) != nil }
        try pipeline.publish(0..<40, over: try pipeline.publisher())
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.tableHashes().sources.rows == 40)
        #expect(try offsets.look(live)?.epoch == 1)
        #expect(try worker.stop() == 0)
    }

    @Test func `one that is not let in any more says why, and goes on when it is`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let role = "let_in_\(UInt32.random(in: 0...UInt32.max))"
        try pipeline.connection.simpleQuery("CREATE ROLE \(role) LOGIN IN ROLE daybook_worker")
        let rest = try #require(pipeline.databaseURL.firstIndex(of: "@"))
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<10, over: publisher)
        let worker = try pipeline.startWorker([
            "DAYBOOK_DATABASE_URL": "postgres://\(role)\(pipeline.databaseURL[rest...])"
        ])
        try pipeline.waitUntilApplied(worker: worker)
        try pipeline.connection.simpleQuery(
            "ALTER ROLE \(role) NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '\(role)'"
        )
        try pipeline.publish(0..<10, steps: 2000, over: publisher)
        let said = { worker.lines("\"live-0\"", "\"level\":\"error\"", "the database can't be used", "28000") }
        try Eventually.holds("it says why") { said() > 0 }
        try Eventually.holds("it is not ready") { try worker.readiness() == 503 }
        try pipeline.connection.simpleQuery("ALTER ROLE \(role) LOGIN")
        try pipeline.waitUntilApplied(worker: worker)
        #expect(said() <= 2)
        #expect(try worker.stop() == 0)
        try pipeline.connection.simpleQuery("DROP ROLE \(role)")
    }

    @Test func `with a database that takes no writes it is not ready, and then exact, without dead letters (C8)`()
        throws
    {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<20, over: publisher)
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        try Eventually.holds("it is ready") { try worker.readiness() == 200 }
        let name = try pipeline.connection.executeUnprepared("SELECT current_database()::text").text(0, 0)
        // As a failover does: sessions end, and new ones take no writes.
        try pipeline.connection.simpleQuery(
            """
            ALTER DATABASE "\(name)" SET default_transaction_read_only = on;
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """
        )
        try pipeline.publish(20..<40, steps: 2000, over: publisher)
        try Eventually.holds("it is not ready") { try worker.readiness() == 503 }
        var statuses: [Int] = []
        try Eventually.holds("it says why, and stays so while it tries again") {
            statuses.append(try worker.readiness())
            return statuses.count > 50 && worker.lines("\"live-0\"", "takes no writes", "25006") > 0
        }
        #expect(Set(statuses) == [503])
        #expect(worker.isRunning)
        try pipeline.connection.simpleQuery("ALTER DATABASE \"\(name)\" RESET default_transaction_read_only")
        try pipeline.waitUntilApplied(worker: worker)
        for number in 0..<40 {
            let user = UserID(high: 5, low: UInt64(number))
            let values: MetricValues = [.steps: number < 20 ? 10_000 : 20_000]
            #expect(try pipeline.reads.canonicalDays(of: user, today...today).first?.day.values == values)
        }
        #expect(try pipeline.positions()[live] == 40)
        #expect(try pipeline.deadLetters().isEmpty)
        try Eventually.holds("it is ready again") { try worker.readiness() == 200 }
        #expect(try worker.stop() == 0)
    }

    @Test func `a schema that asks for a newer build ends a worker that runs, and it says which`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        try pipeline.publish(0..<10, over: publisher)
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        try pipeline.connection.simpleQuery("UPDATE schema_migrations SET oldest_build = 99 WHERE version = 1")
        try pipeline.publish(10..<20, over: publisher)
        #expect(try worker.waitForExit(seconds: 20) == 70)
        #expect(worker.lines("\"level\":\"error\"", "allows builds from 99 on", "deploy a newer worker") > 0)
        #expect(try pipeline.positions()[live] == 10)
        #expect(try pipeline.reads.tableHashes().sources.rows == 10)
    }

    @Test func `the lag of a partition that stands still goes on growing`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        for _ in 0..<100 {
            try publisher.publish(raw: Array("x".utf8), key: "nobody", schema: "days/1", receivedAt: now)
        }
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try Eventually.holds("the brake is on", seconds: 60) {
            try OffsetsStore(pipeline.connection).look(live)?.brakedAt != nil
        }
        for end in [130, 150] {
            try pipeline.publish(0..<(end == 130 ? 30 : 20), over: publisher)
            try Eventually.holds("\(end - 100) records wait", seconds: 20) {
                try worker.metric("daybook_aggregator_lag_records{topic=\"\(live.topic)\",partition=\"0\"}")
                    == Double(end - 100)
            }
        }
        #expect(try worker.stop() == 0)
    }

    /// Its cluster is the same, and its end lies beyond the position: only the record that was read last tells.
    @Test(
        .enabled(if: KafkaUnderTest.Kind.allAvailable.contains(.real), "needs KAFKA_HOME"),
        arguments: [false, true]
    )
    func `a topic that is deleted and made anew is read from its beginning (C20)`(isRunning: Bool) throws {
        let pipeline = try PipelineUnderTest(.real, partitions: 1)
        defer { pipeline.kafka.stop() }
        let settings = ["DAYBOOK_KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "500"]
        try pipeline.publish(0..<30, over: try pipeline.publisher())
        var worker = try pipeline.startWorker(settings)
        try pipeline.waitUntilApplied(worker: worker)
        if !isRunning { #expect(try worker.stop() == 0) }
        try pipeline.makeAnew(live.topic) {
            // A worker that runs has to see that it is gone: see "Positions" in the design.
            if isRunning {
                try Eventually.holds("it notices") { worker.lines("\"live-0\"", "a partition cannot be read") > 0 }
            }
        }
        try pipeline.publish(100..<160, over: try pipeline.publisher())
        if !isRunning { worker = try pipeline.startWorker(settings) }
        try Eventually.holds("no record of the new log is passed over", seconds: 60) {
            try pipeline.reads.tableHashes().sources.rows == 90
        }
        try Eventually.holds("its position is the new log's end") { try pipeline.positions()[live] == 60 }
        #expect(worker.lines("another log") > 0)
        #expect(try worker.stop() == 0)
    }
}

extension PipelineUnderTest {
    /// Deletes a topic of the real broker and makes it again, empty.
    fileprivate func makeAnew(_ topic: String, meanwhile: () throws -> Void) throws {
        try kafka.real?.deleteTopic(topic)
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        try Eventually.holds("the topic is gone") {
            do throws(KafkaError) {
                _ = try admin.describe(topic, timeoutMilliseconds: 5000)
                return false
            } catch {
                return error.isUnknownTopic
            }
        }
        try meanwhile()
        let specification = KafkaTopicSpecification(
            name: topic,
            partitions: Int32(clamping: partitions),
            settings: ["message.timestamp.type": "LogAppendTime"]
        )
        try admin.create([specification], timeoutMilliseconds: 20_000)
    }
}

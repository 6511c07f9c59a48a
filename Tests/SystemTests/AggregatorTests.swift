import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// The built worker, on the development broker and, where there is one, on a real Kafka.
@Suite(.serialized, .timeLimit(.minutes(Nightly.isOn ? 8 : 3))) struct `The aggregator worker` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)

    @Test(arguments: KafkaUnderTest.Kind.allAvailable)
    func `poison becomes dead letters with their origin, and its neighbours are applied (C2, D9)`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let pipeline = try PipelineUnderTest(kind)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        for number in 0..<100 {
            let user = UserID(high: 1, low: UInt64(number))
            if number == 50 {
                try publisher.publish(raw: Array("}{".utf8), key: alice.description, schema: "days/1", receivedAt: now)
                try publisher.publish(raw: Array("{}".utf8), key: alice.description, schema: "days/9", receivedAt: now)
            }
            try publisher.publish(user, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 50_000])])
        }
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.tableHashes().sources.rows == 100)
        let letters = try pipeline.deadLetters()
        #expect(letters.count == 2)
        #expect(Set(letters.compactMap { $0["reason"] }) == ["bad_json", "unknown_schema"])
        try expectWhole(pipeline)
        #expect(try worker.stop() == 0)
        #expect(!worker.output.contains("50000") && !worker.output.contains("}{"))
    }

    /// Every letter is its record as it stands in the log, with where that is, and nothing else.
    private func expectWhole(_ pipeline: PipelineUnderTest) throws {
        let live = Topic.daysLive.name(prefix: "")
        let admin = try KafkaAdmin(properties: pipeline.kafka.properties(), log: { _ in })
        let cluster = try admin.clusterID(timeoutMilliseconds: 10_000)
        let version = try ServiceProcess("aggregator-worker", ["--version"], environment: [:])
        #expect(try version.waitForExit(seconds: 10) == 0)
        let build = try #require(version.output.firstMatch(of: /aggregator-worker (\S+) \(build (\d+)\)/))
        let records = try pipeline.kafka.records(in: live, partitions: pipeline.partitions)
        let letters = try pipeline.kafka.records(
            in: Topic.deadLetters.name(prefix: ""),
            partitions: pipeline.partitions
        )
        for letter in letters {
            let origin = try #require(
                records.first {
                    letter.headers["origin-partition"] == "\($0.partition)"
                        && letter.headers["origin-offset"] == "\($0.offset)"
                }
            )
            var expected = origin.headers
            #expect(Set(expected.keys) == ["schema", "event-id", "received-at"])
            expected["origin-topic"] = live
            expected["origin-partition"] = "\(origin.partition)"
            expected["origin-offset"] = "\(origin.offset)"
            expected["origin-timestamp"] = "\(origin.timestampMilliseconds)"
            expected["cluster-id"] = cluster
            expected["reason"] = origin.value == "}{" ? "bad_json" : "unknown_schema"
            expected["build"] = "\(build.1)+\(build.2)"
            expected["attempt"] = "1"
            #expect(letter.headers == expected)
            #expect(letter.key == origin.key && letter.value == origin.value)
        }
    }

    @Test func `poison as large as the topics take, and larger, stops nothing (D9)`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        var generator = SystemRandomNumberGenerator()
        let noise = (0..<1_040_000).map { _ in UInt8.random(in: 0...255, using: &generator) }
        // Large only once it is decompressed.
        let bubble = Array(repeating: UInt8(ascii: "x"), count: 3_000_000)
        for value in [noise, bubble] {
            try publisher.publish(raw: value, key: alice.description, schema: "days/1", receivedAt: now)
        }
        try publisher.publish(alice, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 10])])
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        let letters = try pipeline.deadLetters()
        #expect(letters.map { $0["origin-offset"] } == ["0", "1"])
        #expect(letters.first?["omitted-bytes"] == nil && letters.last?["omitted-bytes"] != nil)
        #expect(try pipeline.reads.canonicalDays(of: alice, today...today).count == 1)
        #expect(try worker.stop() == 0)
    }

    @Test func `a flood of poison stops the partition at the limit (C3)`() throws {
        let pipeline = try PipelineUnderTest(.mock, partitions: 1)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        for _ in 0..<500 {
            try publisher.publish(raw: Array("x".utf8), key: alice.description, schema: "days/1", receivedAt: now)
        }
        try publisher.flush()
        let worker = try pipeline.startWorker()
        let name = PartitionName(topic: Topic.daysLive.name(prefix: ""), partition: 0)
        let offsets = OffsetsStore(pipeline.connection)
        try Eventually.holds("the brake is on") { try offsets.look(name)?.brakedAt != nil }
        #expect(try offsets.look(name)?.nextOffset == 100)
        #expect(try worker.stop() == 0)
        // A restart does not forget.
        let again = try pipeline.startWorker()
        try Eventually.holds("the partition is claimed again") { (try offsets.look(name)?.epoch ?? 0) >= 2 }
        #expect(try again.stop() == 0)
        #expect(try offsets.look(name)?.nextOffset == 100)
        #expect(try pipeline.deadLetters().count == 100)
    }

    /// The torture suite does it to real nodes.
    @Test(arguments: Nightly.isOn ? KafkaUnderTest.Kind.allAvailable : [.mock])
    func `killed ten times in the middle of a load, it ends with the hash of one that was not (C4, D2)`(
        kind: KafkaUnderTest.Kind
    ) throws {
        let pipeline = try PipelineUnderTest(kind)
        defer { pipeline.kafka.stop() }
        let load = DaysLoad(pipeline, most: 3000)
        defer { load.end() }
        let offsets = OffsetsStore(pipeline.connection)
        let applied = { try Int(offsets.all().reduce(0) { $0 + $1.state.nextOffset }) }
        var before = 0
        for kill in 0..<10 {
            // A group of its own: nobody waits for the session of the one before.
            let worker = try pipeline.startWorker([
                "DAYBOOK_BATCH_RECORDS": "10", "DAYBOOK_CONSUMER_GROUP": "killed-\(kill)",
            ])
            try Eventually.holds("worker \(kill) gets on", seconds: 60) {
                let now = try applied()
                load.allow(now + 250)
                return now > before && load.published > now
            }
            try worker.kill()
            before = try applied()
        }
        load.end()
        try #require(load.failure == nil)
        #expect(before < load.published)
        let last = try pipeline.startWorker()
        try pipeline.waitUntilApplied(seconds: 90, worker: last)
        #expect(try last.stop() == 0)

        let calm = try PipelineUnderTest(on: pipeline.kafka, partitions: pipeline.partitions)
        let undisturbed = try calm.startWorker(["DAYBOOK_CONSUMER_GROUP": "undisturbed"])
        try calm.waitUntilApplied(seconds: 90, worker: undisturbed)
        #expect(try undisturbed.stop() == 0)
        let hashes = (killed: try pipeline.hash(), calm: try calm.hash())
        print("after ten kills on \(kind.rawValue), \(load.published) records: \(hashes.killed), \(hashes.calm)")
        #expect(hashes.killed == hashes.calm)
        for user in DaysLoad.users { #expect(try pipeline.reads.drift(of: user).drifted == 0) }
    }

    @Test func `a broker that comes back as another log is read from its beginning (C20)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        let port = try #require(UInt16(pipeline.kafka.bootstrapServers.split(separator: ":").last ?? ""))
        let publisher = try pipeline.publisher()
        for number in 0..<30 {
            let user = UserID(high: 3, low: UInt64(number))
            try publisher.publish(user, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 10])])
        }
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        pipeline.kafka.stop()
        // As many records as before and more: the old position lies inside the new log.
        let reborn = try KafkaUnderTest.mock(topics: PipelineUnderTest.topics(2), port: port)
        defer { reborn.stop() }
        #expect(reborn.bootstrapServers == pipeline.kafka.bootstrapServers)
        let second = try RecordPublisher(bootstrapServers: reborn.bootstrapServers)
        for number in 0..<60 {
            let user = UserID(high: 4, low: UInt64(number))
            try second.publish(user, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 20])])
        }
        try second.flush()
        try Eventually.holds("no record of the new log is passed over", seconds: 90) {
            try pipeline.reads.tableHashes().sources.rows == 90
        }
        #expect(worker.output.contains("another log"))
        #expect(try worker.stop() == 0)
    }

    @Test func `a day read before and after midnight becomes final once, and re-sends change nothing (C21, B7)`() throws
    {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let yesterday = today.advanced(by: -1)
        let publisher = try pipeline.publisher()
        let evening = now.advanced(bySeconds: -9 * 3600)
        try publisher.publish(
            alice,
            .appleHealth,
            receivedAt: evening,
            localDate: yesterday,
            [(yesterday, [.steps: 61_000])]
        )
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.canonicalDays(of: alice, yesterday...yesterday).first?.day.isFinal == false)
        let before = try places(of: yesterday, pipeline)
        func readAfterMidnight(_ minutes: Range<Int>) throws {
            for minute in minutes {
                try publisher.publish(
                    alice,
                    .appleHealth,
                    receivedAt: evening.advanced(bySeconds: 8 * 3600 + minute * 60),
                    localDate: today,
                    [(yesterday, [.steps: 61_000])]
                )
            }
            try publisher.flush()
            try pipeline.waitUntilApplied(worker: worker)
        }
        func expectFinal() throws {
            let days = try pipeline.reads.canonicalDays(of: alice, yesterday...yesterday)
            #expect(days.count == 1 && days.first?.day.isFinal == true && days.first?.day.values == [.steps: 61_000])
        }
        try readAfterMidnight(0..<1)
        try expectFinal()
        let after = try places(of: yesterday, pipeline)
        #expect(zip(before, after).allSatisfy { $0 != $1 }, "\(before), then \(after)")
        let push = try #require(try pipeline.reads.connections(of: alice).first).lastPushAt
        try readAfterMidnight(1..<21)
        try expectFinal()
        // Neither row was written, not even with what it said before; the connection's was.
        #expect(try places(of: yesterday, pipeline) == after)
        let pushes = try pipeline.reads.connections(of: alice).map { $0.lastPushAt }
        #expect(pushes == [push + 20 * 60 * 1_000_000])
        #expect(try worker.stop() == 0)
    }

    /// Where alice's source row and canonical row of a day lie, and which transactions wrote them: a row that is written
    /// lies elsewhere afterwards, or another transaction wrote it.
    private func places(of day: CalendarDay, _ pipeline: PipelineUnderTest) throws -> [String] {
        var places: [String] = []
        for table in ["source_days", "canonical_days"] {
            let rows = try pipeline.connection.executeUnprepared(
                "SELECT ctid::text || ' ' || xmin::text FROM \(table) WHERE user_id = '\(alice)' AND day = '\(day)'"
            )
            try #require(rows.rowCount == 1)
            places.append("\(table) \(try rows.text(0, 0))")
        }
        return places
    }

    @Test func `partitions of a month that nobody made are made by need, and nothing becomes a dead letter (C22)`()
        throws
    {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        let old = (0..<12).map { (today.advanced(by: -60 - $0 * 28), [.steps: 10] as MetricValues) }
        try publisher.publish(alice, .garmin, receivedAt: now, localDate: today, lane: .history, old)
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.reads.canonicalDays(of: alice, today.advanced(by: -400)...today).count == 12)
        #expect(try pipeline.deadLetters().isEmpty)
        #expect(try worker.stop() == 0)
    }

    @Test(.enabled(if: KafkaUnderTest.Kind.allAvailable.contains(.real), "needs KAFKA_HOME"))
    func `a record from an hour ahead of the broker is a dead letter (C23)`() throws {
        let pipeline = try PipelineUnderTest(.real)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        let ahead = Instant.present.advanced(bySeconds: 3600)
        try publisher.publish(alice, .appleHealth, receivedAt: ahead, localDate: today, [(today, [.steps: 10])])
        try publisher.publish(alice, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 20])])
        try publisher.flush()
        let worker = try pipeline.startWorker()
        try pipeline.waitUntilApplied(worker: worker)
        #expect(try pipeline.deadLetters().map { $0["reason"] } == ["clock"])
        #expect(try pipeline.reads.canonicalDays(of: alice, today...today).first?.day.values == [.steps: 20])
        #expect(try worker.stop() == 0)
    }

    @Test func `with the database down it stays alive, says so, and catches up alone (C8, D8)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let cluster = try PrivatePostgres.makeCluster(mode: .durable)
        try cluster.start()
        defer { cluster.stop() }
        let url = try cluster.createDatabase(named: "away")
        let setup = try PostgresConnection(url: url, applicationName: "setup")
        try Migrator(setup).migrate(today: today)
        let worker = try pipeline.startWorker(["DAYBOOK_DATABASE_URL": url])
        let ingest = try IngestUnderTest(on: pipeline.kafka, prefix: "", makesTopics: false)
        let publisher = try pipeline.publisher()
        try publisher.publish(alice, .appleHealth, receivedAt: now, localDate: today, [(today, [.steps: 10])])
        try publisher.flush()
        try Eventually.holds("the first record is applied", seconds: 60) {
            try DayReads(setup).canonicalDays(of: alice, today...today).count == 1
        }
        cluster.stop()
        let later = now.advanced(bySeconds: 60)
        try publisher.publish(alice, .appleHealth, receivedAt: later, localDate: today, [(today, [.steps: 20])])
        try publisher.flush()
        try Eventually.holds("it notices", seconds: 60) { worker.saysDatabaseIsAway }
        try Eventually.holds("it is not ready") { try worker.readiness() == 503 }
        let steps = try acceptedMeanwhile(ingest, worker)
        #expect(worker.isRunning)
        try cluster.start()
        let back = try PostgresConnection(url: url, applicationName: "back")
        try Eventually.holds("the second record is applied", seconds: 60) {
            try DayReads(back).canonicalDays(of: alice, today...today).first?.day.values == [.steps: 20]
        }
        let posted = today.advanced(by: -1)
        try Eventually.holds("the last that ingest accepted is applied", seconds: 60) {
            try DayReads(back).canonicalDays(of: IngestUnderTest.user, posted...posted).first?.day.values
                == [.steps: Int32(steps) * 10]
        }
        try Eventually.holds("it is ready again") { try worker.readiness() == 200 }
        #expect(try pipeline.deadLetters().isEmpty)
        #expect(try worker.stop() == 0)
        #expect(try ingest.process.stop() == 0)
    }

    /// Posts while the database is away: for three minutes every night, and in the gate until twenty were accepted. The
    /// worker lives and is not ready meanwhile, and ingest takes everything.
    ///
    /// - Returns: the steps of what was accepted last.
    private func acceptedMeanwhile(_ ingest: IngestUnderTest, _ worker: ServiceProcess) throws -> Int {
        let seconds = Nightly.isOn ? 180 : 0
        let begun = Date()
        var next = begun
        var steps = 1000
        var statuses: Set<Int> = []
        var readiness: Set<Int> = []
        try Eventually.holds("ingest accepts while the database is away", seconds: seconds + 60) {
            // Not as fast as it can: the development broker keeps 5 MiB of a partition.
            guard Date() >= next else { return false }
            next = Date().addingTimeInterval(0.1)
            steps += 1
            statuses.insert(try ingest.post(IngestUnderTest.body(steps: steps)).status)
            readiness.insert(try worker.readiness())
            return Date().timeIntervalSince(begun) >= Double(seconds) && steps >= 1020
        }
        #expect(statuses == [202] && readiness == [503])
        return steps
    }
}

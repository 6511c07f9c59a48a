import Aggregation
import AggregatorWorker
import Domain
import Kafka
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// A replay and a preview at their limits, over a real PostgreSQL.
@Suite struct `A side replay that has to wait` {
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)
    private let bob = UserID(high: 0xB0B0_0000_0000_4000, low: 0x8000_0000_0000_0002)

    private let received = Instant(microseconds: 1_780_000_300_000_000)
    /// The day of that instant.
    private let day = CalendarDay(daysSinceEpoch: 20_601)

    /// What a replay reads: one day of Alice's, from a log of its own.
    private func batch(_ steps: Int32) throws -> ReplayBatch {
        let topic = Topic.daysLive.name(prefix: "")
        let kafka = try KafkaUnderTest.mock(topics: [(topic, 1), (Topic.daysHistory.name(prefix: ""), 1)])
        defer { kafka.stop() }
        let publisher = try RecordPublisher(bootstrapServers: kafka.bootstrapServers, topics: [.daysLive])
        try publisher.publish(alice, .garmin, receivedAt: received, localDate: day, [(day, [.steps: steps])])
        try publisher.flush()
        let reader = try KafkaReader(properties: kafka.properties(), log: { _ in })
        try reader.start(TopicPartition(topic: topic, partition: 0), from: .beginning)
        defer { reader.stop() }
        var batch = try ReplayBatch(.daysLive, ReplayFilter(), believesAppendTimes: false)
        var counts = ReplayCounts()
        let found = try reader.next(timeoutMilliseconds: 20_000)
        batch.take(try #require(found), &counts)
        #expect(batch.days.count == 1, "\(counts)")
        return batch
    }

    /// One that gives up on a lock at once, and is told before each wait.
    private func replay(_ database: AggregationDatabase, pause: @escaping (Int) -> Bool) throws -> SideReplay {
        let settings =
            PostgresConnection.recommendedSettings + BatchStore.sessionSettings + [("lock_timeout", "10")]
        return SideReplay(
            try PostgresConnection(url: database.url, applicationName: "test replay", settings: settings),
            connect: { () throws(PostgresError) in
                try PostgresConnection(url: database.url, applicationName: "test months")
            },
            pause: pause
        )
    }

    @Test func `somebody who holds a lock is waited out, and not for ever`() throws {
        let database = try AggregationDatabase()
        try database.apply([record(alice, .garmin, minute: 0, [(0, [.steps: 10])])])
        let holder = try PostgresConnection(url: database.url, applicationName: "holder", settings: [])
        try holder.simpleQuery("BEGIN; SELECT * FROM accounts FOR UPDATE")
        var waits: [Int] = []
        let newer = try batch(20)
        let patient = try replay(database) { milliseconds in
            waits.append(milliseconds)
            return false
        }
        do {
            var batch = newer
            try patient.apply(&batch)
            Issue.record("applied under a lock")
        } catch let failure as SideReplay.GaveUp {
            #expect(!failure.isDatabaseAway)
        }
        // Slower and slower, some minutes in all.
        #expect(waits.count >= 30 && waits.reduce(0, +) > 60_000 && waits.allSatisfy { $0 <= 5000 }, "\(waits)")
        // Told to stop, it waits no longer.
        #expect(throws: SideReplay.Stopped.self) {
            var batch = newer
            try replay(database) { _ in true }.apply(&batch)
        }
        // Let go in between, it goes on.
        let lucky = try replay(database) { _ in
            _ = try? holder.simpleQuery("ROLLBACK")
            return false
        }
        var batch = newer
        try lucky.apply(&batch)
        #expect(lucky.counts.applied == 1 && lucky.counts.retries >= 1)
        #expect(try database.drift(of: [alice]) == 0)
        #expect(try database.reads.canonicalDays(of: alice, day...day).first?.day.values == [.steps: 20])
    }

    @Test func `a preview keeps no more than it may, and says so`() throws {
        let database = try AggregationDatabase()
        let store = BatchStore(database.connection)
        _ = try store.beginSnapshot()
        defer { store.rollback() }
        let runner = PreviewRunner(store: store, dayLimit: 5)
        _ = try runner.run([record(alice, .garmin, minute: 0, (0..<5).map { ($0, [.steps: 10]) })])
        #expect(runner.changes.count == 5)
        // The same days again are no more days.
        _ = try runner.run([record(alice, .garmin, minute: 1, (0..<5).map { ($0, [.steps: 20]) })])
        #expect(throws: PreviewRunner.TooMuch.self) {
            try runner.run([record(bob, .garmin, minute: 2, [(0, [.steps: 10])])])
        }
    }
}

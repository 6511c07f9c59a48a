import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import Postgres
import Storage
import Synchronization
import TestSupport
import Testing

/// Partitions are doubled as docs/SCALING.md says, under load. The development broker can't change its topics.
@Suite(.serialized, .timeLimit(.minutes(5)), .enabled(if: RealKafka.home != nil, "needs KAFKA_HOME"))
struct `Doubling partitions` {
    private static let before = 2
    private static let after = 4
    private static let live = Topic.daysLive.name(prefix: "")
    /// What SCALING.md says.
    private static let ingestLimit = 30.0
    private static let workerLimit = 90.0
    /// How often workers ask for the topics' partitions: every minute, unless told otherwise.
    private static let impatient =
        Nightly.isOn ? [:] : ["DAYBOOK_KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "5000"]
    private let today = PipelineUnderTest.today

    private func user(_ number: Int) -> UserID {
        UserID(high: UInt64(number) &* 0x9e37_79b9_7f4a_7c15 & ~0xf000 | 0x4000, low: 0x8000_0000_0000_0000)
    }

    /// Everybody posts one after the other; each day's newest figure is the round in which it was accepted last.
    private final class Round {
        let ingest: IngestUnderTest
        let users: [(user: UserID, token: String)]
        private let today: CalendarDay
        private var connection: HTTPConnection
        private(set) var number = 0
        private(set) var accepted: [UserID: Int] = [:]
        /// Partitions of the live topic that records went to.
        private(set) var partitions: Set<Int> = []

        init(_ ingest: IngestUnderTest, _ users: [UserID], today: CalendarDay) throws {
            self.ingest = ingest
            self.users = try users.map { ($0, try IngestUnderTest.token($0)) }
            self.today = today
            connection = try ingest.connect()
        }

        func post() throws {
            number += 1
            for (user, token) in users {
                let body = """
                    {"source":"apple_health","time_zone":"UTC","days":[{"date":"\(today.advanced(by: -1))","steps":\(number)},
                    {"date":"\(today.advanced(by: -60))","steps":\(number)}]}
                    """
                let answer = try connection.request("POST", "/v1/days", token: token, body: Array(body.utf8))
                // Nothing of it is worth a refusal.
                #expect(answer.status == 202, "\(answer.body)")
                guard answer.status == 202 else { continue }
                accepted[user] = number
                for position in AnswerBody(answer.body).positions
                where position.hasPrefix(`Doubling partitions`.live + "/") {
                    let parts = position.split(separator: "/")
                    if parts.count == 3, let partition = Int(parts[1]) { partitions.insert(partition) }
                }
            }
        }
    }

    private func positions(_ pipeline: PipelineUnderTest) throws -> [PartitionName: PartitionState] {
        Dictionary(uniqueKeysWithValues: try OffsetsStore(pipeline.connection).all().map { ($0.name, $0.state) })
    }

    @Test func `under load nothing is lost, nothing drifts, and positions go on (D1, D2, D3)`() throws {
        let pipeline = try PipelineUnderTest(.real, partitions: Self.before)
        defer { pipeline.kafka.stop() }
        let real = try #require(pipeline.kafka.real)
        let ingest = try IngestUnderTest(
            on: pipeline.kafka,
            prefix: "",
            partitions: Self.before,
            ["DAYBOOK_INGEST_LOOPS": "2"],
            makesTopics: false
        )
        let workers = [try pipeline.startWorker(Self.impatient), try pipeline.startWorker(Self.impatient)]
        let users = (0..<48).map(user)
        let round = try Round(ingest, users, today: today)
        for _ in 0..<5 { try round.post() }
        try pipeline.waitUntilApplied(worker: workers[0])
        #expect(round.partitions == [0, 1])
        let old = try positions(pipeline)

        // The tool takes some seconds; the load goes on meanwhile.
        let altered = Mutex<Result<Void, any Error>?>(nil)
        Thread.detachNewThread {
            let result = Result {
                try real.alterPartitions(
                    of: #"daybook\.(days\.live|days\.history|accounts|devices|points)\.v1"#,
                    to: Self.after
                )
            }
            altered.withLock { $0 = result }
        }
        while altered.withLock({ $0 == nil }) { try round.post() }
        try altered.withLock { try $0?.get() }
        let started = monotonicSeconds()
        try Eventually.holds("ingest writes to the new partitions", seconds: Int(Self.ingestLimit) + 30) {
            try round.post()
            return round.partitions == [0, 1, 2, 3]
        }
        let ingestSeconds = monotonicSeconds() - started
        try Eventually.holds("workers apply the new partitions", seconds: Int(Self.workerLimit) + 60) {
            try round.post()
            let states = try positions(pipeline)
            return [2, 3].allSatisfy { states[PartitionName(topic: Self.live, partition: $0)]?.nextOffset ?? 0 > 0 }
        }
        let workerSeconds = monotonicSeconds() - started
        print(
            "    2 → 4 partitions under load: ingest after \(Int(ingestSeconds)) s, workers after \(Int(workerSeconds)) s, "
                + "\(round.number) rounds of \(users.count) users"
        )
        #expect(ingestSeconds <= Self.ingestLimit && workerSeconds <= Self.workerLimit)
        for _ in 0..<5 { try round.post() }
        #expect(try ingest.process.stop() == 0)
        try pipeline.waitUntilApplied(seconds: 90, worker: workers[0], partitions: Self.after)

        // Somebody moved, and their newest reading counts, wherever the older ones lay.
        let moved = users.filter {
            Partitioner.partition(of: $0, partitions: Self.before)
                != Partitioner.partition(of: $0, partitions: Self.after)
        }
        #expect(moved.count > 10 && moved.count < 38)
        #expect(round.accepted.count == users.count)
        for user in users {
            for age in [1, 60] {
                let day = today.advanced(by: -age)
                let steps = try pipeline.reads.canonicalDays(of: user, day...day).first?.day.values[.steps]
                #expect(steps == round.accepted[user].map { Int32($0) * 10 }, "\(user) \(age)")
            }
        }
        let verified = try pipeline.daybook("verify")
        #expect(verified.status == 0 && verified.output.contains("no drift"), "\(verified.output)")
        #expect(try pipeline.deadLetters().isEmpty)
        // Positions go on where they were; the new partitions began at their beginning, of the same log.
        let new = try positions(pipeline)
        for (name, state) in old {
            let now = try #require(new[name])
            #expect(now.nextOffset >= state.nextOffset && now.clusterID == state.clusterID, "\(name)")
        }
        #expect(new.keys.count { $0.topic == Self.live } == Self.after)
        for worker in workers {
            #expect(!worker.output.contains("another log") && !worker.output.contains("a partition stops"))
            #expect(try worker.stop() == 0)
        }
        try expectTheSame(pipeline)
    }

    /// What the tools say of a log that was doubled, and what somebody makes of it who reads it for the first time.
    private func expectTheSame(_ pipeline: PipelineUnderTest) throws {
        let hash = try pipeline.hash()
        let threads = try pipeline.daybook("replay", "--from", "beginning", "--preview", "--jobs", "4")
        #expect(threads.status == 1 && threads.output.contains("--jobs 1"), "\(threads.output)")
        let preview = try pipeline.daybook("replay", "--from", "beginning", "--preview", "--jobs", "1")
        #expect(preview.status == 0 && preview.output.contains("no canonical day would change"), "\(preview.output)")
        #expect(try pipeline.daybook("replay", "--from", "beginning").status == 0)
        #expect(try pipeline.hash() == hash)
        let check = try pipeline.daybook("migrate", "--check")
        #expect(check.output.contains("\(Self.live): \(Self.after) partitions"), "\(check.output)")
        let calm = try PipelineUnderTest(on: pipeline.kafka, partitions: Self.after)
        let worker = try calm.startWorker(["DAYBOOK_CONSUMER_GROUP": "undisturbed"])
        try calm.waitUntilApplied(worker: worker)
        #expect(try calm.hash() == hash)
        #expect(try worker.stop() == 0)
    }
}

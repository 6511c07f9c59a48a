import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import TestSupport
import Testing

/// One Kafka of three nodes for a whole suite, whose tests leave all nodes running.
struct ThreeNodeKafka: SuiteTrait, TestScoping {
    @TaskLocal static var current: KafkaUnderTest?

    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        let kafka = try KafkaUnderTest.start(.real, brokers: 3)
        defer { kafka.stop() }
        try await Self.$current.withValue(kafka) { try await function() }
    }
}

/// The built ingest service over a real Kafka of three nodes, whose nodes fail under load. No 2xx may be lost.
///
/// The gate kills one node, pauses another and takes two away together; `make nightly` does it to each.
@Suite(
    .serialized,
    .timeLimit(.minutes(15)),
    .enabled(if: RealKafka.home != nil, "needs KAFKA_HOME"),
    ThreeNodeKafka()
)
struct `The ingest service over three nodes` {
    private static let topicSettings = [
        "min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime",
        "unclean.leader.election.enable": "false", "cleanup.policy": "delete",
    ]
    private static let partitions: Int32 = 8

    private struct Stage {
        let kafka: KafkaUnderTest
        let real: RealKafka
        let ingest: IngestUnderTest
    }

    /// - Parameters:
    ///   - settings: what differs from those of all tests.
    ///   - weak: topics with fewer replicas, or other settings, than ingest asks for.
    /// - Returns: a service that is ready, unless topics are weak.
    /// - Throws: when it does not come up.
    private func stage(
        _ settings: [String: String] = [:],
        weak: [Topic: (replicas: Int32, settings: [String: String])] = [:]
    ) throws -> Stage {
        let kafka = try #require(ThreeNodeKafka.current)
        let real = try #require(kafka.real)
        let prefix = IngestUnderTest.newPrefix()
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let topics = Topic.allCases.filter { $0 != .deadLetters }.map { topic in
            KafkaTopicSpecification(
                name: topic.name(prefix: prefix),
                partitions: Self.partitions,
                replicationFactor: weak[topic]?.replicas ?? 3,
                settings: Self.topicSettings.merging(weak[topic]?.settings ?? [:]) { $1 }
            )
        }
        try admin.create(topics, timeoutMilliseconds: 30_000)
        let ingest = try IngestUnderTest(
            on: kafka,
            prefix: prefix,
            partitions: Int(Self.partitions),
            settings.merging(["DAYBOOK_ALLOW_WEAK_TOPICS": "false", "DAYBOOK_INGEST_LOOPS": "2"]) { first, _ in first },
            makesTopics: false,
            waitsUntilReady: weak.isEmpty
        )
        return Stage(kafka: kafka, real: real, ingest: ingest)
    }

    private var users: [(token: String, body: String)] {
        get throws {
            try (0..<16).map { number in
                let user = UserID(high: UInt64(number) << 32 | 0x4000, low: 0x8000_0000_0000_0000)
                return (try IngestUnderTest.token(user), IngestUnderTest.body(steps: 1000 + number))
            }
        }
    }

    enum Failure: String, CaseIterable, Sendable {
        case kill, pause
    }

    static let failures: [(Failure, Int)] =
        Nightly.isOn
        ? [(.kill, 1), (.kill, 2), (.kill, 3), (.pause, 1), (.pause, 2), (.pause, 3)] : [(.kill, 2), (.pause, 3)]

    @Test func `no 2xx record is missing after any single node failed under load (C11)`() throws {
        let stage = try stage(["DAYBOOK_REQUEST_DEADLINE_MS": "5000"])
        for (failure, node) in Self.failures {
            let load = PostingLoad(port: stage.ingest.port, connections: 16, users: try users)
            try load.waitForAccepted(500)
            switch failure {
            case .kill: try stage.real.kill(node: node)
            case .pause: try stage.real.pause(node: node)
            }
            let failedAt = monotonicSeconds()
            let before = load.outcome.accepted.count
            // All sixteen connections wait at most a deadline; then what the other nodes lead goes on.
            try Eventually.holds("others go on", seconds: 30) { load.outcome.accepted.count > before + 500 }
            try Eventually.holds("every user is served again", seconds: 60) {
                try users.allSatisfy { try stage.ingest.post($0.body, $0.token).status == 202 }
            }
            let away = monotonicSeconds() - failedAt
            switch failure {
            case .kill: try stage.real.restart(node: node)
            case .pause: try stage.real.resume(node: node)
            }
            let goesOn = load.outcome.accepted.count
            try Eventually.holds("the load goes on", seconds: 30) { load.outcome.accepted.count > goesOn + 500 }
            try load.stop()
            print(
                "\(failure) of node \(node): every user served \(Int(away * 1000)) ms later; \(load.outcome.statuses)"
            )
            try expectInLog(load.outcome, stage.ingest)
            try Eventually.holds("three replicas again", seconds: 60) {
                try stage.ingest.admin("/readyz").status == 200
            }
        }
        #expect(try stage.ingest.process.stop() == 0)
    }

    static let pairs: [[Int]] = Nightly.isOn ? [[1, 2], [1, 3], [2, 3]] : [[1, 2]]

    @Test(arguments: pairs)
    func `with two nodes of three gone there are only 503s, and 2xx within two seconds of their return (C11)`(
        pair: [Int]
    ) throws {
        let stage = try stage(["DAYBOOK_REQUEST_DEADLINE_MS": "500"])
        let probe = try stage.kafka.makeTopic(
            "probe",
            partitions: Int(Self.partitions),
            settings: ["min.insync.replicas": "2"]
        )
        let load = PostingLoad(port: stage.ingest.port, connections: 16, users: try users)
        try load.waitForAccepted(300)
        for node in pair { try stage.real.kill(node: node) }
        // What was on its way may still be confirmed; from then on nothing is.
        try Eventually.holds("nothing is accepted", seconds: 60) {
            let accepted = load.outcome.accepted.count
            try refuses(32, load)
            return load.outcome.accepted.count == accepted
        }
        let accepted = load.outcome.accepted.count
        try refuses(48, load)
        #expect(load.outcome.accepted.count == accepted)
        #expect(Set(load.outcome.statuses.keys) == [202, 503])
        let real = stage.real
        let restarts = pair.map { node in Background { try real.restart(node: node) } }
        // A client that knows nothing of before says when the cluster takes writes again, on every partition.
        try Eventually.holds("the cluster takes writes", seconds: 60) { takesWrites(stage.kafka, probe) }
        let returnedAt = monotonicSeconds()
        try Eventually.holds("2xx again", seconds: 60) { load.outcome.accepted.count > accepted + 16 }
        let away = monotonicSeconds() - returnedAt
        print("nodes \(pair) back: 2xx \(Int(away * 1000)) ms after the cluster took writes")
        #expect(away < 2)
        for restart in restarts { try restart.wait() }
        try Eventually.holds("every user is served again", seconds: 30) {
            try users.allSatisfy { try stage.ingest.post($0.body, $0.token).status == 202 }
        }
        try load.stop()
        try expectInLog(load.outcome, stage.ingest)
        #expect(try stage.ingest.process.stop() == 0)
    }

    @Test func `topics weaker than asked keep it from being ready until they are repaired, and it says why`() throws {
        let stage = try stage(weak: [
            .daysLive: (replicas: 3, settings: ["min.insync.replicas": "1"]), .accounts: (replicas: 1, settings: [:]),
        ])
        let (live, accounts) = (
            Topic.daysLive.name(prefix: stage.ingest.prefix), Topic.accounts.name(prefix: stage.ingest.prefix)
        )
        try Eventually.holds("it has looked at the topics") {
            let answer = try stage.ingest.admin("/readyz")
            return answer.status == 503 && answer.text.contains("weak_topics: ")
        }
        let log = stage.ingest.process
        #expect(log.lines("could lose acknowledged records", live, "min.insync.replicas is below 2") == 1)
        #expect(log.lines("could lose acknowledged records", accounts, "fewer than 3 replicas") == 1)
        #expect(log.lines("could lose acknowledged records") == 2)
        let refused = try stage.ingest.post(IngestUnderTest.body())
        #expect(refused.status == 503 && refused.header("Retry-After") != nil)
        #expect(AnswerBody(refused.body).code == "not_ready")
        #expect(try stage.ingest.admin("/metrics").text.contains("daybook_ingest_ready 0\n"))
        // Both at once: each of Kafka's tools takes its seconds.
        let real = stage.real
        let repairs = [
            Background { try real.alter(live, "min.insync.replicas", to: "2") },
            Background {
                try real.replicate(accounts, partitions: Int(Self.partitions), over: [1, 2, 3])
            },
        ]
        for repair in repairs { try repair.wait() }
        try stage.ingest.waitUntilReady()
        #expect(try stage.ingest.post(IngestUnderTest.body()).status == 202)
        #expect(try stage.ingest.admin("/metrics").text.contains("daybook_ingest_ready 1\n"))
        #expect(try stage.ingest.process.stop() == 0)
    }

    private func refuses(_ count: Int, _ load: PostingLoad) throws {
        let refused = load.outcome.statuses[503] ?? 0
        try Eventually.holds("more are refused", seconds: 30) { (load.outcome.statuses[503] ?? 0) >= refused + count }
    }

    /// Whether a client that is made now gets a record into each partition.
    private func takesWrites(_ kafka: KafkaUnderTest, _ topic: String) -> Bool {
        do {
            let producer = try KafkaProducer(properties: kafka.properties(), topics: [topic], log: { _ in })
            var acknowledged = 0
            defer { producer.close(timeoutMilliseconds: 0) { _ in } }
            try producer.prime(timeoutMilliseconds: 500)
            for partition in 0..<Self.partitions {
                try producer.produce(topicIndex: 0, partition: partition, key: nil, value: nil, tag: 0)
            }
            _ = producer.flush(timeoutMilliseconds: 500) { if $0.error == nil { acknowledged += 1 } }
            return acknowledged == Int(Self.partitions)
        } catch {
            return false
        }
    }

    private func expectInLog(_ outcome: PostingLoad.Outcome, _ ingest: IngestUnderTest) throws {
        let inLog = Set(try ingest.records(.live).compactMap { $0.headers["event-id"] })
        let missing = outcome.accepted.filter { !inLog.contains($0) }
        print("    \(outcome.accepted.count) accepted, \(inLog.count) in the log, \(missing.count) missing")
        #expect(missing.isEmpty)
        #expect(outcome.broken.isEmpty && outcome.closed == 0)
        #expect(outcome.statuses.keys.allSatisfy { $0 == 202 || $0 == 503 })
    }
}

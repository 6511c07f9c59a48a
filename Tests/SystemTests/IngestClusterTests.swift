import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import TestSupport
import Testing

/// The built ingest service over a real Kafka of three nodes, whose nodes fail under load. No 2xx may be lost.
///
/// The gate kills one node and pauses another; `make nightly` does both to each.
@Suite(.serialized, .timeLimit(.minutes(15)), .enabled(if: RealKafka.home != nil, "needs KAFKA_HOME"))
struct `The ingest service over three nodes` {
    private static let topicSettings = [
        "min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime",
        "unclean.leader.election.enable": "false", "cleanup.policy": "delete",
    ]

    private struct Stage {
        let kafka: KafkaUnderTest
        let real: RealKafka
        let ingest: IngestUnderTest
    }

    private func stage(_ settings: [String: String] = [:]) throws -> Stage {
        let kafka = try KafkaUnderTest.start(.real, brokers: 3)
        let real = try #require(kafka.real)
        let prefix = IngestUnderTest.newPrefix()
        let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
        let topics = Topic.allCases.filter { $0 != .deadLetters }.map {
            KafkaTopicSpecification(
                name: $0.name(prefix: prefix),
                partitions: 8,
                replicationFactor: 3,
                settings: Self.topicSettings
            )
        }
        try admin.create(topics, timeoutMilliseconds: 30_000)
        let ingest = try IngestUnderTest(
            on: kafka,
            prefix: prefix,
            partitions: 8,
            settings.merging(["DAYBOOK_ALLOW_WEAK_TOPICS": "false", "DAYBOOK_INGEST_LOOPS": "2"]) { first, _ in first },
            makesTopics: false
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
        defer { stage.kafka.stop() }
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

    @Test(.enabled(if: Nightly.isOn, "takes a minute: make nightly"))
    func `with two nodes of three gone there are only 503s, and 2xx again after their return (C11)`() throws {
        let stage = try stage(["DAYBOOK_REQUEST_DEADLINE_MS": "2000"])
        defer { stage.kafka.stop() }
        let load = PostingLoad(port: stage.ingest.port, connections: 16, users: try users)
        try load.waitForAccepted(300)
        try stage.real.kill(node: 1)
        try stage.real.kill(node: 2)
        // What was on its way may still be confirmed; from then on nothing is.
        try Eventually.holds("nothing is accepted", seconds: 60) {
            let accepted = load.outcome.accepted.count
            let refused = load.outcome.statuses[503] ?? 0
            try Eventually.holds("more are refused", seconds: 30) { (load.outcome.statuses[503] ?? 0) > refused + 32 }
            return load.outcome.accepted.count == accepted
        }
        let accepted = load.outcome.accepted.count
        let refused = load.outcome.statuses[503] ?? 0
        try Eventually.holds("more are refused", seconds: 30) { (load.outcome.statuses[503] ?? 0) > refused + 64 }
        #expect(load.outcome.accepted.count == accepted)
        #expect(Set(load.outcome.statuses.keys) == [202, 503])
        try stage.real.restart(node: 1)
        try stage.real.restart(node: 2)
        let returnedAt = monotonicSeconds()
        try Eventually.holds("2xx again", seconds: 60) { load.outcome.accepted.count > accepted + 100 }
        print("two of three back: 2xx \(Int((monotonicSeconds() - returnedAt) * 1000)) ms after they listened")
        try load.stop()
        try expectInLog(load.outcome, stage.ingest)
        #expect(try stage.ingest.process.stop() == 0)
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

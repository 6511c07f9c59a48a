import Domain
import Foundation
import Kafka
import MessageContract
import TestSupport
import Testing

/// Workers that share a consumer group.
@Suite(.serialized, .timeLimit(.minutes(2))) struct `Workers of one group` {
    /// The development broker doesn't know static members.
    @Test(.enabled(if: KafkaUnderTest.Kind.allAvailable.contains(.real), "needs KAFKA_HOME"))
    func `a worker with a name of its own comes back without a rebalance`() throws {
        let pipeline = try PipelineUnderTest(.real)
        defer { pipeline.kafka.stop() }
        let patient = ["DAYBOOK_SESSION_TIMEOUT_MS": "60000"]
        let staying = try pipeline.startWorker(patient.merging(["DAYBOOK_CONSUMER_INSTANCE": "a"]) { $1 })
        _ = try staying.waitForLog("partitions assigned", key: "count")
        let named = patient.merging(["DAYBOOK_CONSUMER_INSTANCE": "b"]) { $1 }
        let first = try pipeline.startWorker(named)
        try Eventually.holds("both have a partition of the live topic", seconds: 60) {
            Self.lastAssigned(staying) == "1" && Self.lastAssigned(first) == "1"
        }
        let rebalances = Self.count("partitions revoked", staying)
        try first.kill()
        let again = try pipeline.startWorker(named)
        try Eventually.holds("it has its partition again, long before its session ends", seconds: 40) {
            Self.lastAssigned(again) == "1"
        }
        #expect(Self.count("partitions revoked", staying) == rebalances)
        // It reads it, too.
        try pipeline.publish(0..<20, over: try pipeline.publisher())
        try pipeline.waitUntilApplied(worker: again)
        #expect(try staying.stop() == 0)
        #expect(try again.stop() == 0)
    }

    /// How many partitions the live lane got last.
    private static func lastAssigned(_ worker: ServiceProcess) -> Substring? {
        let lines = worker.output.split(separator: "\n").filter {
            $0.contains("\"live-0\"") && ($0.contains("partitions assigned") || $0.contains("partitions revoked"))
        }
        guard let line = lines.last, line.contains("assigned"), let key = line.range(of: "\"count\":") else {
            return nil
        }
        return line[key.upperBound...].prefix { $0.isNumber }
    }

    private static func count(_ message: String, _ worker: ServiceProcess) -> Int {
        // Of the live lane: the groups of the others may settle later.
        worker.output.split(separator: "\n").filter { $0.contains("\"live-0\"") && $0.contains(message) }.count
    }
}

import DevelopmentStack
import Foundation
import Glibc
import Postgres
import TestSupport

/// The aggregator worker as it is delivered, on one database.
final class OurWorker {
    private let kafka: AggregatorKafka
    private let database: BenchmarkDatabase
    private let name: String
    /// Opened again where it had to be closed for a copy.
    private var looking: PostgresConnection { get throws { try database.look(into: name) } }

    init(_ kafka: AggregatorKafka, _ database: BenchmarkDatabase, name: String) {
        self.kafka = kafka
        self.database = database
        self.name = name
    }

    /// A running worker; it ends with this object.
    func start(lanes: Int?, prefix: String = AggregatorKafka.prefix) throws -> RunningWorker {
        var environment = [
            "DAYBOOK_KAFKA_BROKERS": kafka.bootstrapServers,
            "DAYBOOK_TOPIC_PREFIX": prefix,
            "DAYBOOK_DATABASE_URL": try database.url(name),
            "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_ALLOW_WEAK_TOPICS": "true",
            "DAYBOOK_LOG_LEVEL": "warning",
            // Each run is a group of its own: it waits for no member that is gone.
            "DAYBOOK_CONSUMER_GROUP": "bench-\(UUID().uuidString.prefix(8))",
        ]
        if let lanes { environment["DAYBOOK_WORKER_LANES"] = "\(lanes)" }
        if !kafka.isReal { environment["DAYBOOK_DEVELOPMENT_BROKER"] = "true" }
        for (key, value) in ProcessInfo.processInfo.environment where key.hasPrefix("DAYBOOK_BATCH") {
            environment[key] = value
        }
        return try RunningWorker(environment)
    }

    /// Runs it until the topic's end. The time is that of the records behind its first batches: from when the positions
    /// first move on, as the Go worker's begins with its first records, and not with joining and the first fetch.
    func drain(to ends: [Int64], days: Int, lanes: Int) throws -> Turn {
        let topic = kafka.liveTopic()
        let before = try positions(topic)
        let databaseCPU = try database.cpu(without: looking)
        let worker = try start(lanes: lanes)
        var begun: Double?
        var first: Int64 = 0
        let records = ends.indices.reduce(0) { $0 + ends[$1] - (before[$1]?.next ?? 0) }
        var ended = 0.0
        let deadline = monotonicSeconds() + 300
        while true {
            let now = try positions(topic)
            let time = monotonicSeconds()
            let done = ends.indices.reduce(0) { $0 + (now[$1]?.next ?? 0) - (before[$1]?.next ?? 0) }
            if begun == nil && done > 0 { (begun, first) = (time, done) }
            if now.count == ends.count, ends.indices.allSatisfy({ now[$0]?.next == ends[$0] }) {
                ended = time
                break
            }
            guard worker.isRunning, time < deadline else {
                throw BenchmarkFailure("the worker did not get to the end of the topic:\n\(worker.log.suffix(3000))")
            }
            poll(nil, 0, 5)
        }
        let cpu = worker.cpu
        try worker.stop()
        return Turn(
            days: days,
            seconds: (ended - (begun ?? ended)) * Double(records) / Double(max(1, records - first)),
            workerCPU: cpu,
            postgresCPU: try database.cpu(without: looking) - databaseCPU
        )
    }

    func positions(_ topic: String) throws -> [Int: (epoch: Int64, next: Int64)] {
        let result = try looking.executeUnprepared(
            "SELECT partition, epoch, next_offset FROM consumer_offsets WHERE topic = '\(topic)'"
        )
        var positions: [Int: (epoch: Int64, next: Int64)] = [:]
        for row in 0..<result.rowCount {
            positions[Int(try result.int4(row, 0))] = (try result.int8(row, 1), try result.int8(row, 2))
        }
        return positions
    }
}

final class RunningWorker {
    private let child: ChildProcess
    private let path = FileManager.default.temporaryDirectory.path + "/daybook-bench-\(getpid())-worker.log"

    init(_ environment: [String: String]) throws {
        var whole = environment
        whole["PATH"] = ProcessInfo.processInfo.environment["PATH"]
        try? FileManager.default.removeItem(atPath: path)
        child = try ChildProcess.start(
            .init(
                program: "\(ServiceProcess.productsFolder)/aggregator-worker",
                environment: whole,
                logPath: path
            )
        )
    }

    deinit { child.kill() }

    var process: pid_t { child.identity.pid }
    var isRunning: Bool { child.poll() == nil }
    var log: String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }
    var cpu: Double { ProcessTimes.cpu(child.identity.pid) ?? .nan }

    func stop() throws {
        child.terminate()
        try Eventually.holds("the worker ends") { !self.isRunning }
    }
}

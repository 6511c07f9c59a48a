import DevelopmentStack
import Foundation
import Glibc
import Postgres
import TestSupport

/// The Go worker of PEERS_HOME: keeps less (no versions by metric, no fence, no dead letters) and is fast.
final class GoWorker {
    /// What it does with days that would not change.
    enum Skip: Int {
        case writesAll = 0
        case comparesFirst = 2
    }

    private let program: String
    private let kafka: AggregatorKafka
    private let database: BenchmarkDatabase
    private let name: String
    private let looking: PostgresConnection
    private let log = FileManager.default.temporaryDirectory.path + "/daybook-bench-\(getpid())-go.log"

    init?(_ home: String, _ kafka: AggregatorKafka, _ database: BenchmarkDatabase, name: String) throws {
        program = home + "/bin/aggregator-go"
        guard access(program, X_OK) == 0 else { return nil }
        self.kafka = kafka
        self.database = database
        self.name = name
        try database.cluster.createDatabase(named: name)
        looking = try database.look(into: name)
        _ = try run(["--migrate"], [:])
    }

    /// Runs it until the topic's end; the time is its own, from the first records to the last COMMIT.
    func drain(_ skip: Skip, lanes: Int = 1) throws -> Turn {
        // To see that the one asked for is the best.
        let forced = ProcessInfo.processInfo.environment["BENCH_GO_SKIP"]
        let databaseCPU = database.cpu(without: looking)
        let cpu = try run(
            [],
            [
                "PEER_BROKERS": kafka.bootstrapServers, "PEER_TOPIC": kafka.liveTopic(), "PEER_GROUP": "go",
                "PEER_EXIT_AT_END": "1", "PEER_SKIP_UNCHANGED": forced ?? "\(skip.rawValue)",
                "PEER_WORKERS": "\(lanes)",
            ]
        )
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        let words = text.split(separator: "\n").last { $0.hasPrefix("days ") }?.split(separator: " ") ?? []
        guard words.count == 4, let days = Int(words[1]), let seconds = Double(words[3]) else {
            throw BenchmarkFailure("\(program) did not say what it did:\n\(text.suffix(2000))")
        }
        return Turn(
            days: days,
            seconds: seconds,
            workerCPU: cpu,
            postgresCPU: database.cpu(without: looking) - databaseCPU
        )
    }

    /// Returns the CPU that it used.
    private func run(_ arguments: [String], _ environment: [String: String]) throws -> Double {
        try? FileManager.default.removeItem(atPath: log)
        var whole = environment
        whole["PATH"] = ProcessInfo.processInfo.environment["PATH"]
        whole["PEER_DATABASE_URL"] = try database.url(name)
        let child = try ChildProcess.start(
            .init(program: program, arguments: arguments, environment: whole, logPath: log)
        )
        var cpu = 0.0
        try Eventually.holds("the Go worker to end (see \(log))", seconds: 300) {
            // Before it is collected, and with it its figures.
            cpu = ProcessTimes.cpu(child.identity.pid) ?? cpu
            return child.poll() != nil
        }
        guard child.poll() == .exited(0) else {
            throw BenchmarkFailure("\(program) failed: see \(log)")
        }
        return cpu
    }
}

import Foundation
import Synchronization

/// A real Apache Kafka that a test started: its own processes, ports and scratch directory, all gone after `stop`.
///
/// `KAFKA_HOME` is either a folder with the helper script `kafka` (one or several nodes) or an unpacked Apache Kafka
/// (one node). A watchdog ends the servers if the test process dies first.
public final class RealKafka: Sendable {
    public let bootstrapServers: String
    public let nodes: Int

    let directory: String
    let launcher: any RealKafkaLauncher
    private let isStopped = Mutex(false)

    /// The configured home; `nil` when there is none.
    public static var home: String? {
        ProcessInfo.processInfo.environment["KAFKA_HOME"].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Starts a cluster and waits until it serves: some seconds for each node.
    public init(nodes: Int = 1, settings: [String] = []) throws {
        guard let home = Self.home else {
            throw RealKafkaError("KAFKA_HOME is not set: point it at an Apache Kafka")
        }
        let directory = NSTemporaryDirectory() + "daybook-kafka-\(UUID().uuidString.prefix(8))"
        if FileManager.default.isExecutableFile(atPath: home + "/kafka") {
            launcher = KafkaScript(home: home, directory: directory)
        } else if FileManager.default.isExecutableFile(atPath: home + "/bin/kafka-server-start.sh") {
            launcher = PlainKafka(home: home, directory: directory)
        } else {
            throw RealKafkaError("\(home) holds neither `kafka` nor bin/kafka-server-start.sh: correct KAFKA_HOME")
        }
        self.directory = directory
        self.nodes = nodes
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try launcher.startWatchdog()
        do {
            bootstrapServers = try Self.start(launcher, in: directory, nodes: nodes, settings: settings)
        } catch {
            launcher.stop()
            try? FileManager.default.removeItem(atPath: directory)
            throw error
        }
        RunningKafkas.add(self)
    }

    /// Ports are chosen a moment before a server takes them, and other tests choose at the same time: so three tries.
    private static func start(
        _ launcher: any RealKafkaLauncher,
        in directory: String,
        nodes: Int,
        settings: [String]
    ) throws -> String {
        for _ in 1...2 {
            if let servers = try? launcher.start(nodes: nodes, settings: settings) { return servers }
            launcher.stop()
            for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
                try FileManager.default.removeItem(atPath: directory + "/" + name)
            }
        }
        return try launcher.start(nodes: nodes, settings: settings)
    }

    deinit { stop() }

    /// Ends all nodes and removes their files.
    public func stop() {
        let isFirst = isStopped.withLock { stopped in
            defer { stopped = true }
            return !stopped
        }
        guard isFirst else { return }
        launcher.stop()
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// `kill -9`. Nodes count from 1.
    public func kill(node: Int) throws { try launcher.perform("kill", node: node) }

    /// Ends a node in good order: it hands its partitions over first.
    public func shutDown(node: Int) throws { try launcher.perform("stop", node: node) }

    /// The broker hangs (SIGSTOP) until `resume`.
    public func pause(node: Int) throws { try launcher.perform("pause", node: node) }

    public func resume(node: Int) throws { try launcher.perform("resume", node: node) }

    /// Deletes a topic with all that it holds.
    public func deleteTopic(_ name: String) throws {
        try launcher.tool("topics", ["--bootstrap-server", bootstrapServers, "--delete", "--topic", name])
    }

    /// Starts a node that ended again with its data and port.
    public func restart(node: Int) throws { try launcher.perform("restart", node: node) }
}

struct RealKafkaError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Ends the clusters that are still there when the test process exits in an orderly way.
private enum RunningKafkas {
    private static let all = Mutex<[Weak]>([])

    private struct Weak: Sendable {
        weak let kafka: RealKafka?
    }

    static func add(_ kafka: RealKafka) {
        let isFirst = all.withLock { all in
            all.append(Weak(kafka: kafka))
            return all.count == 1
        }
        if isFirst { atexit { RunningKafkas.stopAll() } }
    }

    static func stopAll() {
        for entry in all.withLock({ $0 }) { entry.kafka?.stop() }
    }
}

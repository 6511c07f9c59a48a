import Foundation

/// How the servers of one scratch directory are started and ended.
protocol RealKafkaLauncher: Sendable {
    var directory: String { get }
    /// - Returns: the bootstrap list.
    func start(nodes: Int, settings: [String]) throws -> String
    func perform(_ action: String, node: Int) throws
    func stop()
}

extension RealKafkaLauncher {
    /// A shell that outlives this process by a second at most and ends, by their pids, servers that are left.
    func startWatchdog() throws {
        let script = """
            while kill -0 \(getpid()) 2>/dev/null && [ -d '\(directory)' ]; do sleep 1; done
            [ -d '\(directory)' ] || exit 0
            for f in '\(directory)'/node-*/pid; do [ -f "$f" ] && kill -9 "$(cat "$f")" 2>/dev/null; done
            rm -rf '\(directory)'
            """
        let watchdog = Process()
        watchdog.executableURL = URL(fileURLWithPath: "/usr/bin/setsid")
        watchdog.arguments = ["/bin/sh", "-c", script]
        watchdog.standardInput = FileHandle.nullDevice
        watchdog.standardOutput = FileHandle.nullDevice
        watchdog.standardError = FileHandle.nullDevice
        try watchdog.run()
    }
}

/// Runs a program to its end.
///
/// - Returns: what it wrote to standard output.
@discardableResult
private func run(_ program: String, _ arguments: [String], errorsTo log: String) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    let output = Pipe()
    process.standardOutput = output
    _ = FileManager.default.createFile(atPath: log, contents: nil)
    process.standardError = FileHandle(forWritingAtPath: log)
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
        let reason = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        throw RealKafkaError("\(program) \(arguments.joined(separator: " ")) failed:\n\(reason)")
    }
    return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
}

/// The helper script `kafka`.
struct KafkaScript: RealKafkaLauncher {
    let home: String
    let directory: String

    private func script(_ arguments: [String]) throws -> String {
        try run(home + "/kafka", arguments, errorsTo: directory + "/script.log")
    }

    func start(nodes: Int, settings: [String]) throws -> String {
        let sets = settings.flatMap { ["--set", $0] }
        return try script(["start", "--dir", directory, "--nodes", "\(nodes)"] + sets)
    }

    func perform(_ action: String, node: Int) throws {
        _ = try script([action, "--dir", directory, "--node", "\(node)"])
    }

    func stop() { _ = try? script(["kill", "--dir", directory]) }
}

/// An unpacked Apache Kafka, one node in KRaft mode.
struct PlainKafka: RealKafkaLauncher {
    let home: String
    let directory: String

    private var node: String { directory + "/node-1" }

    func start(nodes: Int, settings: [String]) throws -> String {
        guard nodes == 1 else {
            throw RealKafkaError("\(nodes) nodes need the helper script: this KAFKA_HOME is a plain Apache Kafka")
        }
        let ports = try freePorts(2)
        try FileManager.default.createDirectory(atPath: node + "/data", withIntermediateDirectories: true)
        let properties =
            [
                "process.roles=broker,controller", "node.id=1", "controller.listener.names=CONTROLLER",
                "controller.quorum.voters=1@127.0.0.1:\(ports[1])",
                "listeners=PLAINTEXT://127.0.0.1:\(ports[0]),CONTROLLER://127.0.0.1:\(ports[1])",
                "advertised.listeners=PLAINTEXT://127.0.0.1:\(ports[0])", "log.dirs=\(node)/data",
                "num.partitions=4", "default.replication.factor=1", "min.insync.replicas=1",
                "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4",
                "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
                "group.initial.rebalance.delay.ms=0", "auto.create.topics.enable=false",
            ] + settings
        try properties.joined(separator: "\n").write(
            toFile: node + "/server.properties",
            atomically: true,
            encoding: .utf8
        )
        let storage = home + "/bin/kafka-storage.sh"
        let id = try run(storage, ["random-uuid"], errorsTo: node + "/uuid.log")
        try run(
            storage,
            ["format", "-t", id, "-c", node + "/server.properties"],
            errorsTo: node + "/format.log"
        )
        try launch()
        try awaitPort(ports[0])
        return "127.0.0.1:\(ports[0])"
    }

    func perform(_ action: String, node number: Int) throws {
        switch action {
        case "kill": try signal("KILL")
        case "pause": try signal("STOP")
        case "resume": try signal("CONT")
        case "restart":
            try launch()
            let line = try String(contentsOfFile: node + "/server.properties", encoding: .utf8)
                .split(separator: "\n").first { $0.hasPrefix("advertised.listeners=") }
            guard let port = line?.split(separator: ":").last.flatMap({ UInt16($0) }) else {
                throw RealKafkaError("\(node)/server.properties names no port: start a new cluster")
            }
            try awaitPort(port)
        default: throw RealKafkaError("no action \(action)")
        }
    }

    func stop() { try? signal("KILL") }

    private func launch() throws {
        // `exec` all the way: kafka-server-start.sh ends in an exec of java, so the pid is the server's.
        let script = """
            cd '\(node)' && setsid sh -c 'echo $$ >pid; exec "\(home)/bin/kafka-server-start.sh" server.properties' \
            >log 2>&1 </dev/null &
            """
        try run("/bin/sh", ["-c", script], errorsTo: node + "/launch.log")
    }

    private func signal(_ name: String) throws {
        let pid = try String(contentsOfFile: node + "/pid", encoding: .utf8)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        try run("/bin/kill", ["-" + name, pid], errorsTo: node + "/kill.log")
    }

    private func awaitPort(_ port: UInt16) throws {
        let deadline = Date().addingTimeInterval(90)
        while Date() < deadline {
            let log = (try? String(contentsOfFile: node + "/log", encoding: .utf8)) ?? ""
            if log.contains("Kafka Server started"), connects(port) { return }
            usleep(100_000)
        }
        throw RealKafkaError("the broker did not start within 90 s; see \(node)/log")
    }

    private func connects(_ port: UInt16) -> Bool {
        withSocket(port) { descriptor, address, length in connect(descriptor, address, length) == 0 } ?? false
    }

    private func freePorts(_ count: Int) throws -> [UInt16] {
        var ports: Set<UInt16> = []
        for _ in 0..<100 where ports.count < count {
            let port: UInt16?? = withSocket(0) { descriptor, address, length in
                guard bind(descriptor, address, length) == 0 else { return nil }
                var bound = sockaddr_in()
                var size = socklen_t(MemoryLayout<sockaddr_in>.size)
                let result = withUnsafeMutablePointer(to: &bound) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
                }
                return result == 0 ? UInt16(bigEndian: bound.sin_port) : nil
            }
            if let port = port ?? nil { ports.insert(port) }
        }
        guard ports.count == count else { throw RealKafkaError("127.0.0.1 has no free ports: end other servers") }
        return Array(ports)
    }

    private func withSocket<Result>(
        _ port: UInt16,
        _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}

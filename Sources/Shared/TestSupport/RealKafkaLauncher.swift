import Foundation

/// How the servers of one scratch directory are started and ended.
protocol RealKafkaLauncher: Sendable {
    var directory: String { get }
    /// - Returns: the bootstrap list.
    func start(nodes: Int, settings: [String]) throws -> String
    func perform(_ action: String, node: Int) throws
    /// Runs one of Kafka's own tools: `configs`, `acls`, `topics` or `reassign-partitions`.
    func tool(_ name: String, _ arguments: [String]) throws
    func stop()
}

extension RealKafkaLauncher {
    /// A shell that outlives this process by a second at most and ends, by their pids, servers that are left.
    func startWatchdog() throws {
        let script = """
            while [ -e /proc/\(getpid())/exe ] && [ -d '\(directory)' ]; do sleep 1; done
            [ -d '\(directory)' ] || exit 0
            for f in '\(directory)'/node-*/pid; do [ -f "$f" ] && kill -9 "$(cat "$f")" 2>/dev/null; done
            rm -rf '\(directory)'
            """
        _ = try spawn("/bin/sh", ["-c", script], output: "/dev/null", errors: "/dev/null")
    }
}

/// Runs a program to its end. Not by Foundation's `Process`: that waits for every descendant, and the servers stay.
///
/// - Returns: what it wrote to standard output.
@discardableResult
func run(_ program: String, _ arguments: [String], log: String) throws -> String {
    let output = log + ".out"
    let pid = try spawn(program, arguments, output: output, errors: log)
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0 {
        guard errno == EINTR else { throw RealKafkaError("\(program): waitpid failed with errno \(errno)") }
    }
    let words = "\(program) \(arguments.joined(separator: " "))"
    guard status == 0 else {
        let reason = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        throw RealKafkaError("\(words) failed, see what it says:\n\(reason)")
    }
    return try String(contentsOfFile: output, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
}

/// Starts a program in a session of its own, with none of this process's descriptors.
private func spawn(_ program: String, _ arguments: [String], output: String, errors: String) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    // glibc's calls for closing descriptors and for setsid are hidden from Swift.
    let prologue = """
        for f in /proc/$$/fd/*; do f=${f##*/}; (( f > 2 )) && eval "exec $f>&-"; done 2>/dev/null
        exec setsid "$@"
        """
    var words: [UnsafeMutablePointer<CChar>?] = (["bash", "-c", prologue, "bash", program] + arguments).map {
        strdup($0)
    }
    words.append(nil)
    defer { for word in words { free(word) } }
    var pid: pid_t = 0
    let failure = posix_spawn(&pid, "/bin/bash", &actions, nil, words, environ)
    guard failure == 0 else { throw RealKafkaError("\(program) can't be started (errno \(failure)): check the path") }
    return pid
}

/// The helper script `kafka`.
struct KafkaScript: RealKafkaLauncher {
    let home: String
    let directory: String

    private func script(_ arguments: [String]) throws -> String {
        try run(home + "/kafka", arguments, log: directory + "/script.log")
    }

    func start(nodes: Int, settings: [String]) throws -> String {
        let sets = settings.flatMap { ["--set", $0] }
        return try script(["start", "--dir", directory, "--nodes", "\(nodes)"] + sets)
    }

    func perform(_ action: String, node: Int) throws {
        _ = try script([action, "--dir", directory, "--node", "\(node)"])
    }

    func tool(_ name: String, _ arguments: [String]) throws {
        let classes = [
            "acls": "AclCommand", "configs": "ConfigCommand", "topics": "TopicCommand",
            "reassign-partitions": "reassign.ReassignPartitionsCommand",
        ]
        let java = ["java", "-XX:TieredStopAtLevel=1", "-cp", home + "/libs/*"]
        let main = "org.apache.kafka.tools.\(classes[name] ?? name)"
        try run("/usr/bin/env", java + [main] + arguments, log: directory + "/tool.log")
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
        let id = try run(storage, ["random-uuid"], log: node + "/uuid.log")
        try run(
            storage,
            ["format", "-t", id, "-c", node + "/server.properties"],
            log: node + "/format.log"
        )
        try launch()
        try awaitPort(ports[0])
        return "127.0.0.1:\(ports[0])"
    }

    func perform(_ action: String, node number: Int) throws {
        switch action {
        case "kill": try signal("KILL")
        case "stop":
            try signal("TERM")
            let script = "while kill -0 $(cat '\(node)/pid') 2>/dev/null; do sleep 0.1; done"
            try run("/usr/bin/timeout", ["60", "/bin/sh", "-c", script], log: node + "/stop.log")
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

    func tool(_ name: String, _ arguments: [String]) throws {
        try run(home + "/bin/kafka-\(name).sh", arguments, log: directory + "/tool.log")
    }

    func stop() { try? signal("KILL") }

    private func launch() throws {
        // `exec` all the way: kafka-server-start.sh ends in an exec of java, so the pid is the server's.
        let script = """
            cd '\(node)' && setsid sh -c 'echo $$ >pid; exec "\(home)/bin/kafka-server-start.sh" server.properties' \
            >log 2>&1 </dev/null &
            """
        try run("/bin/sh", ["-c", script], log: node + "/launch.log")
    }

    private func signal(_ name: String) throws {
        let pid = try String(contentsOfFile: node + "/pid", encoding: .utf8)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        try run("/bin/kill", ["-" + name, pid], log: node + "/kill.log")
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

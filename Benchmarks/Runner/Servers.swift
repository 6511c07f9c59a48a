import DevelopmentStack
import Foundation
import Glibc
import Kafka
import MessageContract
import TestSupport

/// The Kafka that all servers write to, each to topics of its own.
final class BenchmarkKafka {
    private let kafka: StartedKafka
    private let prefix: String

    var bootstrapServers: String { kafka.bootstrapServers }
    var isReal: Bool { kafka.isReal }

    init() throws {
        let prefix = "bench."
        self.prefix = prefix
        // All that ingest asks for before it is ready, and one for each of the others.
        let ours = Topic.allCases.map { $0.name(prefix: prefix) }
        let others = ServerKind.allCases.filter { $0 != .ours }.map { Self.topic($0, prefix) }
        kafka = try StartedKafka(prefix: prefix, topics: ours + others)
    }

    private static func topic(_ kind: ServerKind, _ prefix: String) -> String {
        let live = Topic.daysLive.name(prefix: prefix)
        return kind == .ours ? live : live + "." + kind.rawValue
    }

    /// Where a server's records go. The development broker has no others than Daybook's own.
    func topic(_ kind: ServerKind) -> String {
        Self.topic(isReal ? kind : .ours, prefix)
    }

    func environment() -> [String: String] {
        var environment = [
            "DAYBOOK_KAFKA_BROKERS": bootstrapServers,
            "DAYBOOK_TOPIC_PREFIX": prefix,
            "DAYBOOK_ALLOW_WEAK_TOPICS": "true",
        ]
        if !isReal { environment["DAYBOOK_DEVELOPMENT_BROKER"] = "true" }
        return environment
    }
}

enum ServerKind: String, CaseIterable {
    case floor, ours, rust
    case goPeer = "go"

    /// The peers' programs, in PEERS_HOME.
    var peerProgram: String? {
        switch self {
        case .floor, .ours: nil
        case .rust: "ingest-rust"
        case .goPeer: "ingest-go"
        }
    }
}

/// One program under load. It ends with this object.
final class BenchmarkServer {
    let kind: ServerKind
    let port: UInt16
    let logPath: String
    private let child: ChildProcess

    let name: String
    var process: pid_t { child.identity.pid }

    /// Starts it and waits until it takes requests.
    init(
        _ kind: ServerKind,
        _ kafka: BenchmarkKafka,
        peersHome: String?,
        variant: Variant = Variant()
    ) throws {
        self.kind = kind
        name = variant.text.isEmpty ? kind.rawValue : variant.text
        let products = ServiceProcess.productsFolder
        logPath =
            FileManager.default.temporaryDirectory.path
            + "/daybook-bench-\(getpid())-\(kind.rawValue)\(variant.number).log"
        guard let free = PortChoice.any(), let admin = PortChoice.any() else {
            throw BenchmarkFailure("127.0.0.1 has no free port: end other servers")
        }
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        var environment = ["PATH": path]
        var program = variant.program ?? "\(products)/ingest-service"
        var arguments: [String] = []
        switch kind {
        case .floor:
            program = "\(products)/ingest-floor"
            arguments = [kafka.bootstrapServers, kafka.topic(.floor)]
        case .ours:
            environment.merge(kafka.environment()) { $1 }
            environment["DAYBOOK_INGEST_ADDRESS"] = "127.0.0.1:\(free)"
            environment["DAYBOOK_ADMIN_ADDRESS"] = "127.0.0.1:\(admin)"
            environment["DAYBOOK_JWT_HS256_SECRET"] = Requests.secret
            environment["DAYBOOK_LOG_LEVEL"] = "warning"
            // A few users stand for many here.
            environment["DAYBOOK_RATE_LIMIT_PER_MINUTE"] = "0"
            environment.merge(variant.settings) { $1 }
        case .rust, .goPeer:
            program = "\(peersHome ?? "")/bin/\(kind.peerProgram ?? "")"
            environment["PEER_LISTEN"] = "127.0.0.1:\(free)"
            environment["PEER_BROKERS"] = kafka.bootstrapServers
            environment["PEER_TOPIC"] = kafka.topic(kind)
            environment["PEER_JWT_SECRET"] = Requests.secret
        }
        let launch = ChildProcess.Launch(
            program: program,
            arguments: arguments,
            environment: environment,
            logPath: logPath
        )
        let child = try ChildProcess.start(launch)
        let log = logPath
        var found: UInt16?
        try Eventually.holds("\(kind.rawValue) to be ready (see \(log))", seconds: 60) {
            guard child.poll() == nil else { throw BenchmarkFailure("\(program) ended at once: see \(log)") }
            switch kind {
            case .floor:
                let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
                let line = text.split(separator: "\n").first { $0.hasPrefix("port ") }
                found = line.flatMap { UInt16($0.dropFirst(5)) }
            case .ours:
                found = HTTPCall.isReady(adminAddress: "127.0.0.1:\(admin)") ? free : nil
            case .rust, .goPeer:
                let answer = try? HTTPCall("GET", "http://127.0.0.1:\(free)/livez", timeout: 1).send()
                found = answer?.status == 200 ? free : nil
            }
            return found != nil
        }
        port = found ?? 0
        self.child = child
    }

    deinit {
        child.kill()
        if child.poll() != nil { try? FileManager.default.removeItem(atPath: logPath) }
    }
}

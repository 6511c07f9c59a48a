import DevelopmentStack
import Domain
import Foundation
import Glibc
import Push
import PushStandIn
import ServiceRuntime
import Synchronization
import TestSupport

extension Goal {
    static let pushRatio = Goal(
        name: "wake.push_ratio",
        what: "pushes/s on one connection, ours / h2load",
        limit: 0.8,
        isLeast: true
    )
    static let cpuOverH2load = Goal(
        name: "wake.cpu_over_h2load",
        what: "CPU per push, ours / h2load",
        limit: 1.3
    )
}

/// Our push client beside h2load, against the same nghttpd: one connection, 100 streams, the same requests, taking
/// turns; the best round of each counts.
final class WakePushBenchmark {
    private struct Round {
        let perSecond: Double
        let cpuMicroseconds: Double
    }

    private static let tokens = 1000
    private static let streams = 100
    private let rounds: Int
    private let pushes: Int
    private let folder: String

    init(isQuick: Bool) throws {
        rounds = 3
        pushes = isQuick ? 100_000 : 300_000
        folder = FileManager.default.temporaryDirectory.path + "/daybook-bench-push-\(getpid())"
        try FileManager.default.createDirectory(atPath: folder + "/root/3/device", withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    func run() throws {
        guard let nghttpd = Self.program("nghttpd"), let h2load = Self.program("h2load") else {
            throw BenchmarkFailure("nghttpd or h2load is missing: apt-get install nghttp2-server nghttp2-client")
        }
        guard let certificates = DevelopmentKeys.certificates(for: "DNS:localhost"), let key = DevelopmentKeys.p256(),
            let port = PortChoice.any()
        else { throw BenchmarkFailure("no certificate or no port: check the package libssl3") }
        for (name, bytes) in [
            ("authority.pem", certificates.authority), ("certificate.pem", certificates.certificate),
            ("key.pem", certificates.privateKey), ("body", Array(#"{"aps":{"content-available":1}}"#.utf8)),
        ] {
            try Data(bytes).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
        }
        for token in 0..<Self.tokens {
            try Data().write(to: URL(fileURLWithPath: "\(folder)/root/3/device/\(Self.token(token))"))
        }
        let addresses = (0..<Self.tokens).map { "https://localhost:\(port)/3/device/\(Self.token($0))" }
        try Data(addresses.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: folder + "/addresses"))
        let server = try Program(
            nghttpd,
            ["-a", "127.0.0.1", "-d", "\(folder)/root", "\(port)", "\(folder)/key.pem", "\(folder)/certificate.pem"],
            output: folder + "/nghttpd.log"
        )
        defer { server.stop() }
        try Eventually.holds("nghttpd to listen", seconds: 10) { !PortChoice.isFree(port) }
        var ours: [Round] = []
        var theirs: [Round] = []
        for _ in 0..<rounds {
            theirs.append(try measure(h2load, port))
            ours.append(try measureOurs(port, key: key))
        }
        say(cell("", 10) + cell("pushes/s", 14) + "CPU of the client, µs a push (\(pushes) pushes, \(rounds) rounds)")
        for (name, all) in [("ours", ours), ("h2load", theirs)] {
            for round in all {
                say(cell(name, 10) + cell(format(round.perSecond, 0), 14) + format(round.cpuMicroseconds, 2))
            }
        }
        let rate = (ours.map(\.perSecond).max() ?? 0) / (theirs.map(\.perSecond).max() ?? 1)
        let cpu = (ours.map(\.cpuMicroseconds).min() ?? 0) / (theirs.map(\.cpuMicroseconds).min() ?? 1)
        say("RESULT \(Goal.pushRatio.name) \(format(rate, 2))")
        say("RESULT \(Goal.cpuOverH2load.name) \(format(cpu, 2))")
        say(Goal.pushRatio.line(rate))
        say(Goal.cpuOverH2load.line(cpu))
    }

    // MARK: - h2load

    private func measure(_ h2load: String, _ port: UInt16) throws -> Round {
        var arguments = ["-n", "\(pushes)", "-c", "1", "-t", "1", "-m", "\(Self.streams)", "-d", "\(folder)/body"]
        // A provider token has about that length.
        let authorization = "bearer " + String(repeating: "a", count: 190)
        for header in [
            "apns-push-type: background", "apns-priority: 5", "apns-topic: app.example.days", "apns-collapse-id: wake",
            "apns-expiration: 1767240000", "authorization: \(authorization)",
        ] {
            arguments += ["-H", header]
        }
        let output = folder + "/h2load.log"
        let program = try Program(h2load, arguments + ["-i", "\(folder)/addresses"], output: output)
        let cpu = program.wait()
        let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
        // "finished in 1.23s, 81234.56 req/s, …" and "requests: … 100000 succeeded …"
        let words = text.split(whereSeparator: { $0 == " " || $0 == "\n" || $0 == "," })
        guard let place = words.firstIndex(of: "req/s"), place > 0, let rate = Double(words[place - 1]),
            text.contains("\(pushes) succeeded")
        else { throw BenchmarkFailure("h2load did not succeed; it says: \(text.suffix(600))") }
        return Round(perSecond: rate, cpuMicroseconds: cpu * 1_000_000 / Double(pushes))
    }

    // MARK: - Ours

    private func measureOurs(_ port: UInt16, key: [UInt8]) throws -> Round {
        var apns = PushConfiguration.APNs(
            keyID: "ABCDE12345",
            teamID: "TEAM123456",
            privateKey: key,
            defaultTopic: "app.example.days"
        )
        apns.production = .init(host: "localhost", port: port)
        var configuration = PushConfiguration()
        configuration.apns = apns
        configuration.certificateFile = folder + "/authority.pem"
        configuration.mostStreams = Self.streams
        configuration.mostUnderWay = 10 * Self.streams
        let feeder = Feeder(pushes: pushes, tokens: (0..<Self.tokens).map { PushToken(Self.token($0)) })
        let sender = try PushSender(configuration, tokens: InMemoryProviderTokenStore(), delegate: feeder)
        try sender.start()
        // As h2load's figures, the time includes making the connection.
        let (cpu, time) = (Self.ownCPU(), SystemTime().monotonicNanoseconds())
        feeder.begin(sender, 4 * Self.streams)
        guard feeder.done.wait(milliseconds: 120_000) else { throw BenchmarkFailure("our client did not finish") }
        let seconds = Double(SystemTime().monotonicNanoseconds() - time) / 1e9
        let used = Self.ownCPU() - cpu
        sender.beginStop()
        _ = sender.waitStopped(until: .after(milliseconds: 10_000))
        guard feeder.accepted == pushes else {
            throw BenchmarkFailure("only \(feeder.accepted) of \(pushes) pushes were accepted")
        }
        return Round(perSecond: Double(pushes) / seconds, cpuMicroseconds: used * 1_000_000 / Double(pushes))
    }

    /// Of all threads of this process: whoever hands requests in and takes outcomes is a part of it.
    private static func ownCPU() -> Double {
        var usage = rusage()
        getrusage(RUSAGE_SELF.rawValue, &usage)
        return Program.seconds(usage)
    }

    private static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "c", count: 64 - digits.count) + digits
    }

    private static func program(_ name: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let folders = path.split(separator: ":").map(String.init) + ["/usr/sbin", "/usr/bin"]
        return folders.map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }
}

/// Hands the next push in whenever one has ended.
private final class Feeder: PushSenderDelegate {
    let done = StopFlag()
    private let tokens: [PushToken]
    private let pushes: Int
    private let next = Atomic<Int>(0)
    private let ended = Atomic<Int>(0)
    private let good = Atomic<Int>(0)
    // Set before the first request, read by the sender's thread afterwards.
    nonisolated(unsafe) private var target: PushSender?

    var accepted: Int { good.load(ordering: .acquiring) }

    init(pushes: Int, tokens: [PushToken]) {
        self.pushes = pushes
        self.tokens = tokens
    }

    func begin(_ sender: PushSender, _ count: Int) {
        target = sender
        for _ in 0..<count { sendNext() }
    }

    private func sendNext() {
        let number = next.add(1, ordering: .relaxed).oldValue
        guard number < pushes, let target else { return }
        let request = PushRequest(
            id: UInt64(number),
            token: tokens[number % tokens.count],
            lane: .production,
            appID: "",
            expiration: Instant(microseconds: 1_767_240_000_000_000)
        )
        _ = target.send(request)
    }

    func mayStillSend(_ request: PushRequest) -> Bool { true }

    func ended(_ request: PushRequest, _ outcome: PushOutcome) {
        if outcome == .accepted { good.add(1, ordering: .relaxed) }
        sendNext()
        if ended.add(1, ordering: .acquiringAndReleasing).newValue == pushes {
            target = nil
            done.raise()
        }
    }

    func release(_ deactivations: [PushDeactivation]) {}
    func raise(_ alarm: PushAlarm) { say(alarm.description, to: STDERR_FILENO) }
}

/// A program that ends with this object; tells what processor time it took.
private final class Program {
    private let process: pid_t
    private var isOver = false

    init(_ path: String, _ arguments: [String], output: String) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) }
        words.append(nil)
        defer { for word in words { free(word) } }
        var process = pid_t()
        let status = posix_spawn(&process, path, &actions, nil, words, environ)
        guard status == 0 else {
            throw BenchmarkFailure("\(path) can't be started: \(String(cString: strerror(status)))")
        }
        self.process = process
    }

    deinit { stop() }

    /// Waits for its end; seconds of processor time.
    func wait() -> Double {
        var usage = rusage()
        var status: Int32 = 0
        wait4(process, &status, 0, &usage)
        isOver = true
        return Self.seconds(usage)
    }

    func stop() {
        guard !isOver else { return }
        kill(process, SIGKILL)
        _ = wait()
    }

    static func seconds(_ usage: rusage) -> Double {
        func value(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return value(usage.ru_utime) + value(usage.ru_stime)
    }
}

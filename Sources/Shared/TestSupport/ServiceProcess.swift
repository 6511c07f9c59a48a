import Foundation
public import Glibc
import Synchronization

/// One of the built programs, running. Its output goes to a file, which a failing test can show.
public final class ServiceProcess: Sendable {
    public let name: String
    public let outputPath: String
    private let process: Mutex<Process>
    public let pid: pid_t

    /// - Parameters:
    ///   - program: `ingest-service`, `aggregator-worker` or `daybook`, from the folder that the tests were built into.
    ///   - environment: the whole `DAYBOOK_…` environment; of the test's own only PATH and HOME are handed on.
    public init(_ program: String, _ arguments: [String] = [], environment: [String: String]) throws {
        name = program
        let folder = FileManager.default.temporaryDirectory.path
        outputPath = "\(folder)/daybook-\(program)-\(getpid())-\(UUID().uuidString.prefix(8)).log"
        _ = FileManager.default.createFile(atPath: outputPath, contents: nil)
        let output = try FileHandle(forWritingTo: URL(fileURLWithPath: outputPath))
        let launched = Process()
        launched.executableURL = URL(fileURLWithPath: "\(Self.productsFolder)/\(program)")
        launched.arguments = arguments
        var whole = environment
        for key in ["PATH", "HOME"] { whole[key] = ProcessInfo.processInfo.environment[key] }
        launched.environment = whole
        launched.standardOutput = output
        launched.standardError = output
        try launched.run()
        pid = launched.processIdentifier
        process = Mutex(launched)
        Self.running.withLock { _ = $0.insert(pid) }
    }

    deinit {
        if isRunning { Glibc.kill(pid, SIGKILL) }
        Self.running.withLock { _ = $0.remove(pid) }
        try? FileManager.default.removeItem(atPath: outputPath)
    }

    /// Where `swift build` put the programs: beside the test bundle.
    public static var productsFolder: String {
        let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return (path as NSString).deletingLastPathComponent
    }

    public var isRunning: Bool { process.withLock { $0.isRunning } }

    public var output: String {
        (try? String(contentsOfFile: outputPath, encoding: .utf8)) ?? ""
    }

    public func send(_ signal: Int32) {
        if isRunning { Glibc.kill(pid, signal) }
    }

    /// As `kill -9`.
    public func kill() throws {
        send(SIGKILL)
        _ = try waitForExit(seconds: 10)
    }

    /// SIGTERM, and the status it ends with.
    @discardableResult
    public func stop(seconds: Int = 20) throws -> Int32 {
        send(SIGTERM)
        return try waitForExit(seconds: seconds)
    }

    public func waitForExit(seconds: Int) throws -> Int32 {
        try Eventually.holds("\(name) ends", seconds: seconds) { !self.isRunning }
        Self.running.withLock { _ = $0.remove(pid) }
        return process.withLock { $0.terminationStatus }
    }

    /// The value of a JSON log line's key, once a line with this message is there.
    public func waitForLog(_ message: String, key: String, seconds: Int = 30) throws -> String {
        var found: String?
        try Eventually.holds("\(name) says '\(message)'", seconds: seconds) {
            for line in self.output.split(separator: "\n") where line.contains("\"\(message)\"") {
                let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                if let value = object?[key] {
                    found = "\(value)"
                    return true
                }
            }
            return !self.isRunning
        }
        guard let found else {
            throw Eventually.TimedOut(what: "\(name) ended without '\(message)':\n\(output.suffix(2000))")
        }
        return found
    }

    private static let running: Mutex<Set<pid_t>> = {
        atexit { ServiceProcess.killLeftovers() }
        return Mutex([])
    }()

    private static func killLeftovers() {
        running.withLock { for pid in $0 { Glibc.kill(pid, SIGKILL) } }
    }
}

/// Waiting for what another process brings about, with a limit.
public enum Eventually {
    public struct TimedOut: Error, CustomStringConvertible {
        let what: String

        public init(what: String) {
            self.what = what
        }

        public var description: String { "waited in vain: \(what)" }
    }

    /// Asks again and again until the condition holds.
    public static func holds(_ what: String, seconds: Int = 30, _ condition: () throws -> Bool) throws {
        let deadline = Date().addingTimeInterval(Double(seconds))
        while try !condition() {
            guard Date() < deadline else { throw TimedOut(what: "\(what), for \(seconds) s") }
            // Nothing tells us when another process's rows change: look again shortly.
            poll(nil, 0, 20)
        }
    }
}

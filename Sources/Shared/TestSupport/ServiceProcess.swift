import DevelopmentStack
import Foundation
import Glibc
import Synchronization

/// One of the built programs, running. Its output goes to a file, which a failing test can show. It does not outlive
/// the tests. Use from one thread.
public final class ServiceProcess {
    public let name: String
    public let outputPath: String
    private let child: ChildProcess

    /// - Parameters:
    ///   - program: `ingest-service`, `aggregator-worker` or `daybook`, from the folder that the tests were built into.
    ///   - arguments: its arguments.
    ///   - environment: the whole `DAYBOOK_…` environment; of the test's own only PATH and HOME are handed on.
    /// - Throws: `StackFailure` when there is no such program or it can't be started.
    public init(_ program: String, _ arguments: [String] = [], environment: [String: String]) throws {
        name = program
        let folder = FileManager.default.temporaryDirectory.path
        outputPath = "\(folder)/daybook-\(program)-\(getpid())-\(UUID().uuidString.prefix(8)).log"
        OutputFiles.add(outputPath)
        var whole = environment
        for key in ["PATH", "HOME"] { whole[key] = ProcessInfo.processInfo.environment[key] }
        child = try ChildProcess.start(
            .init(
                program: "\(Self.productsFolder)/\(program)",
                arguments: arguments,
                environment: whole,
                logPath: outputPath
            )
        )
    }

    deinit {
        child.kill()
        OutputFiles.remove(outputPath)
    }

    /// Where `swift build` put the programs: beside the test bundle.
    public static var productsFolder: String {
        let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return (path as NSString).deletingLastPathComponent
    }

    public var isRunning: Bool { child.poll() == nil }

    public var processID: Int32 { child.identity.pid }

    public var output: String {
        (try? String(contentsOfFile: outputPath, encoding: .utf8)) ?? ""
    }

    public func send(_ signal: Int32) {
        child.send(signal)
    }

    /// As `kill -9`.
    public func kill() throws {
        child.kill()
        try Eventually.holds("\(name) ends", seconds: 10) { !self.isRunning }
    }

    /// SIGTERM, and the status it ends with. A program that has not yet said a word does not listen for signals either:
    /// it is given the time to.
    @discardableResult
    public func stop(seconds: Int = 20) throws -> Int32 {
        try Eventually.holds("\(name) says something", seconds: seconds) { !self.output.isEmpty || !self.isRunning }
        child.terminate()
        return try waitForExit(seconds: seconds)
    }

    /// The status it exits with; a process that a signal ended has none.
    public func waitForExit(seconds: Int) throws -> Int32 {
        try Eventually.holds("\(name) ends", seconds: seconds) { !self.isRunning }
        guard case .exited(let status) = child.poll() else {
            throw Eventually.TimedOut(what: "\(name) was ended by a signal:\n\(output.suffix(2000))")
        }
        return status
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
}

/// The output files that are there; what is left when the tests end goes then.
private enum OutputFiles {
    private static let paths = Mutex<Set<String>>([])
    private static let atTheEnd = atexit { OutputFiles.removeAll() }

    static func add(_ path: String) {
        _ = atTheEnd
        _ = paths.withLock { $0.insert(path) }
    }

    static func remove(_ path: String) {
        unlink(path)
        _ = paths.withLock { $0.remove(path) }
    }

    static func removeAll() {
        for path in paths.withLock({ $0 }) { unlink(path) }
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

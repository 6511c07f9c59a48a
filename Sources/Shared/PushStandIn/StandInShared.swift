import Glibc
import HTTP2
import ServiceRuntime
import Synchronization

/// What came to a stand-in.
public struct StandInRequest: Sendable {
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]
    /// Of APNs, out of the path; of FCM, out of the body. Empty where there is none.
    public let token: String
    /// Counts connections, from 1.
    public let connection: Int
    public let stream: Int32
    /// What the script says; 0 where nothing is answered.
    public let status: Int

    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// What a stand-in's thread and its owner share.
final class StandInShared: Sendable {
    let log = RequestLog()
    let wake = EventDescriptor()
    let stopFlag = StopFlag()
    let connections = Atomic<Int>(0)
    let isFrozen = Atomic<Bool>(false)
    /// Raised by the loop once it reads nothing more.
    let frozen = StopFlag()
    let options: PushStandIn.Options
    private let script: Mutex<ScriptProgress>

    init(_ script: StandInScript, _ options: PushStandIn.Options) {
        self.script = Mutex(ScriptProgress(script))
        self.options = options
    }

    func use(_ new: StandInScript) { script.withLock { $0 = ScriptProgress(new) } }

    func next(_ token: String) -> StandInScript.Reply { script.withLock { $0.next(token) } }

    func stop() {
        stopFlag.raise()
        wake.signal()
    }
}

/// The requests, and who waits for how many of them.
final class RequestLog: Sendable {
    private struct State {
        var requests: [StandInRequest] = []
        var waiting: [(count: Int, flag: StopFlag)] = []
    }

    private let state = Mutex(State())

    var all: [StandInRequest] { state.withLock(\.requests) }

    func append(_ request: StandInRequest) {
        state.withLock { state in
            state.requests.append(request)
            for (count, flag) in state.waiting where state.requests.count >= count { flag.raise() }
            state.waiting.removeAll { state.requests.count >= $0.count }
        }
    }

    func wait(for count: Int, milliseconds: Int) -> Bool {
        let flag = StopFlag()
        let isThere = state.withLock { state in
            if state.requests.count >= count { return true }
            state.waiting.append((count, flag))
            return false
        }
        return isThere || flag.wait(milliseconds: milliseconds)
    }
}

/// Files of a stand-in, all small.
enum SmallFile {
    static func write(_ path: String, _ bytes: [UInt8], appends: Bool = false) -> Bool {
        let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (appends ? O_APPEND : O_TRUNC), 0o600)
        guard file >= 0 else { return false }
        defer { close(file) }
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            guard count > 0 else { return false }
            written += count
        }
        return true
    }

    static func read(_ path: String) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while bytes.count < 4 << 20 {
            let count = Glibc.read(file, &chunk, chunk.count)
            guard count > 0 else { break }
            bytes.append(contentsOf: chunk[..<count])
        }
        return bytes
    }

    /// Changes with the file; nil if there is none.
    static func stamp(_ path: String) -> [Int]? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return [status.st_mtim.tv_sec, status.st_mtim.tv_nsec, Int(status.st_size), Int(status.st_ino)]
    }
}

import Dispatch
import Foundation
import Glibc
import Synchronization

/// How a process ended.
public enum ProcessEnd: Hashable, Sendable, CustomStringConvertible {
    case exited(Int32)
    case signalled(Int32)
    /// It could not be started, or not be made ready; in words.
    case failed(String)

    /// From the word that `waitpid` gives.
    init(waitStatus status: Int32) {
        let signal = status & 0x7f
        self = signal == 0 ? .exited(status >> 8 & 0xff) : .signalled(signal)
    }

    public var description: String {
        switch self {
        case .exited(let code): "ended with status \(code)"
        case .signalled(SIGKILL): "was killed (signal 9)"
        case .signalled(let signal): "was ended by signal \(signal)"
        case .failed(let reason): reason
        }
    }
}

/// A child process in a process group of its own, whose output is appended to a file.
///
/// It does not outlive its parent, however that ends: the kernel sends it SIGTERM. A terminal's Ctrl-C does not reach
/// it; the parent decides in which order to stop. Use from one thread.
public final class ChildProcess {
    /// What to start.
    public struct Launch: Sendable {
        public var program: String
        public var arguments: [String]
        /// The whole environment of the child.
        public var environment: [String: String]
        /// Standard output and error are appended here.
        public var logPath: String
        /// A user to run as; needs root. Nil: as this process.
        public var user: String?
        public var workingDirectory: String

        public init(
            program: String,
            arguments: [String] = [],
            environment: [String: String],
            logPath: String,
            user: String? = nil,
            workingDirectory: String = "/"
        ) {
            self.program = program
            self.arguments = arguments
            self.environment = environment
            self.logPath = logPath
            self.user = user
            self.workingDirectory = workingDirectory
        }
    }

    public let identity: ProcessIdentity
    private var status: ProcessEnd?

    private init(identity: ProcessIdentity) {
        self.identity = identity
    }

    deinit {
        // Nobody would wait for it any more.
        guard poll() == nil else { return }
        Glibc.kill(-identity.pid, SIGKILL)
        var word: Int32 = 0
        while waitpid(identity.pid, &word, 0) < 0, errno == EINTR {}
    }

    public static func start(_ launch: Launch) throws(StackFailure) -> ChildProcess {
        guard access(launch.program, X_OK) == 0 else {
            throw StackFailure(
                .cannotStart,
                "there is no program \(launch.program)",
                next: "Build it: `swift build -c release`, or start the stack with `Scripts/run`."
            )
        }
        let log = open(launch.logPath, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard log >= 0 else {
            throw .system(
                errno,
                "can't write \(launch.logPath)",
                elsewhere: "Set DAYBOOK_STATE to a folder that you may write to."
            )
        }
        defer { close(log) }
        let pid = try SpawningThread.shared.run { () -> Result<pid_t, StackFailure> in
            Result { () throws(StackFailure) in try spawn(tied(launch), launch, log) }
        }.get()
        return ChildProcess(identity: ProcessIdentity(pid: pid) ?? ProcessIdentity(pid: pid, startTicks: 0))
    }

    /// How the process ended; nil while it runs. Collects it, so that no zombie stays.
    public func poll() -> ProcessEnd? {
        if let status { return status }
        var word: Int32 = 0
        guard waitpid(identity.pid, &word, WNOHANG) == identity.pid else { return nil }
        status = ProcessEnd(waitStatus: word)
        return status
    }

    public func terminate() {
        send(SIGTERM)
    }

    /// Ends the whole process group.
    public func kill() {
        send(SIGKILL)
    }

    /// To the group, so that what the child started goes with it. A collected child's number is never used again.
    public func send(_ signal: Int32) {
        guard poll() == nil else { return }
        if Glibc.kill(-identity.pid, signal) != 0 { Glibc.kill(identity.pid, signal) }
    }

    /// The command line that ties the child to this process.
    ///
    /// posix_spawn has no way to ask for a parent-death signal, so `setpriv` does (util-linux, on every Debian), after
    /// changing the user, which would clear it. The shell then looks whether the parent died before that was done.
    private static func tied(_ launch: Launch) -> [String] {
        var words = ["/usr/bin/setpriv", "--pdeathsig", "TERM"]
        if let user = launch.user { words += ["--reuid", user, "--regid", user, "--init-groups"] }
        let guardian = "[ \"$PPID\" = \"$1\" ] || exit 75; cd \"$2\" || exit 71; shift 2; exec \"$@\""
        let script = ["--", "/bin/sh", "-c", guardian, "sh", String(getpid()), launch.workingDirectory]
        return words + script + [launch.program] + launch.arguments
    }

    private static func spawn(_ words: [String], _ launch: Launch, _ log: Int32) throws(StackFailure) -> pid_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        posix_spawnattr_setflags(&attributes, Int16(flags))
        posix_spawnattr_setpgroup(&attributes, 0)
        // The parent blocks and ignores signals for purposes of its own.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO)
        posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO)
        keepFilesFromChildren()

        var arguments = words.map { strdup($0) }
        var environment = launch.environment.sorted { $0.key < $1.key }.map { strdup("\($0.key)=\($0.value)") }
        defer { for pointer in arguments + environment { free(pointer) } }
        arguments.append(nil)
        environment.append(nil)
        var pid: pid_t = 0
        let code = posix_spawn(&pid, words[0], &actions, &attributes, arguments, environment)
        guard code == 0 else {
            throw .system(code, "can't start \(launch.program)", elsewhere: "See \(launch.logPath).")
        }
        return pid
    }
}

/// The thread that starts children. It never ends: the kernel's parent-death signal watches the thread that started a
/// child, not the process, and threads of pools come and go.
private final class SpawningThread: Sendable {
    static let shared = SpawningThread()

    private let work = Mutex<[@Sendable () -> Void]>([])
    private let isWanted = DispatchSemaphore(value: 0)

    private init() {
        Thread.detachNewThread { [self] in
            while true {
                isWanted.wait()
                work.withLock { $0.isEmpty ? nil : $0.removeFirst() }?()
            }
        }
    }

    /// Runs it there, and waits for what it gives.
    func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) -> Value {
        let slot = Slot<Value>()
        work.withLock { queue in
            queue.append { slot.fill(body()) }
        }
        isWanted.signal()
        return slot.take()
    }

    private final class Slot<Value: Sendable>: Sendable {
        private let value = Mutex<Value?>(nil)
        private let isFull = DispatchSemaphore(value: 0)

        func fill(_ new: Value) {
            value.withLock { $0 = new }
            isFull.signal()
        }

        func take() -> Value {
            while true {
                isFull.wait()
                if let value = value.withLock({ $0 }) { return value }
            }
        }
    }
}

/// Whatever a library left open without the flag stays with us.
private func keepFilesFromChildren() {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    for descriptor in names.compactMap({ Int32($0) }) where descriptor > STDERR_FILENO {
        let flags = fcntl(descriptor, F_GETFD)
        if flags >= 0 { _ = fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC) }
    }
}

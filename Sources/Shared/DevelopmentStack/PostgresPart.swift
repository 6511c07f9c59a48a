import Foundation
import Glibc
import Synchronization

/// The private PostgreSQL as a part of the stack. Starting and stopping it block, so they happen on threads of their
/// own.
public final class PostgresPart: StackPart {
    private enum Phase {
        case starting
        case ready
        case ended(ProcessEnd)
    }

    /// Shared with the threads; of several starts only the newest counts.
    private final class Progress: Sendable {
        let phase = Mutex<Phase>(.starting)

        func end(_ status: ProcessEnd) {
            phase.withLock { phase in
                if case .ended = phase { return }
                phase = .ended(status)
            }
        }
    }

    public let name = "postgres"
    public let stage: Int
    public let cluster: PostgresCluster
    private let limit: Double
    private var progress = Progress()

    /// The limit is how many seconds a start may take, recovery after a crash included.
    public init(cluster: PostgresCluster, stage: Int, limit: Double = 120) {
        self.cluster = cluster
        self.stage = stage
        self.limit = limit
    }

    public var logPath: String { cluster.logPath }
    public var adminAddress: String? { nil }

    public var address: String? {
        guard case .running(_, let port) = cluster.status else { return nil }
        return "127.0.0.1:\(port)"
    }

    public var process: ProcessIdentity? { cluster.postmasterPID.flatMap { ProcessIdentity(pid: $0) } }

    public func start() throws(StackFailure) {
        let progress = Progress()
        self.progress = progress
        let cluster = cluster
        let limit = limit
        Thread.detachNewThread {
            do {
                try cluster.start(readyWithin: .seconds(limit)) { progress.end(.failed("ended")) }
                progress.phase.withLock { phase in
                    if case .starting = phase { phase = .ready }
                }
            } catch {
                progress.end(.failed("\(error)"))
            }
        }
    }

    public func poll() -> ProcessEnd? {
        progress.phase.withLock { phase in
            guard case .ended(let status) = phase else { return nil }
            return status
        }
    }

    public func isReady() -> Bool {
        progress.phase.withLock { phase in
            guard case .ready = phase else { return false }
            return true
        }
    }

    public func terminate() {
        let cluster = cluster
        let progress = progress
        Thread.detachNewThread {
            cluster.stop()
            progress.end(.exited(0))
        }
    }

    public func kill() {
        // An immediate shutdown: nothing is lost, the next start recovers.
        process?.send(SIGQUIT)
    }
}

import Glibc
import Synchronization

/// A named thread of our own: blocking C calls never run on a Swift concurrency thread.
public final class WorkerThread: Sendable {
    public struct SpawnFailure: Error, CustomStringConvertible {
        public let name: String
        public let errorNumber: Int32

        public var description: String {
            "the thread \(name) could not be started (errno \(errorNumber)): "
                + "raise the limit on threads (ulimit -u, TasksMax) or use fewer lanes"
        }
    }

    private enum Handle {
        case running(pthread_t)
        case joined
    }

    public let name: String
    private let finished: StopFlag
    private let handle: Mutex<Handle>

    /// Starts a thread.
    ///
    /// - Parameters:
    ///   - name: What `top -H` and debuggers show; cut at 15 bytes.
    ///   - stackSize: In bytes.
    ///   - body: Runs once on the new thread, whose end is the end of `body`.
    /// - Returns: The running thread. Letting go of it detaches it; it is not stopped.
    /// - Throws: `SpawnFailure` when the system gives no further thread.
    public static func spawn(
        name: String,
        stackSize: Int = 1 << 20,
        _ body: @escaping @Sendable () -> Void
    ) throws(SpawnFailure) -> WorkerThread {
        let finished = StopFlag()
        let created = create(Start(name: name, finished: finished, body: body), stackSize: stackSize)
        guard let thread = created.thread else { throw SpawnFailure(name: name, errorNumber: created.status) }
        return WorkerThread(name: name, finished: finished, thread: thread)
    }

    private static func create(_ start: Start, stackSize: Int) -> (thread: pthread_t?, status: Int32) {
        let retained = Unmanaged.passRetained(start)
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setstacksize(&attributes, max(stackSize, 64 * 1024))
        var thread = pthread_t()
        let status = pthread_create(&thread, &attributes, threadMain, retained.toOpaque())
        pthread_attr_destroy(&attributes)
        guard status == 0 else {
            retained.release()
            return (nil, status)
        }
        return (thread, 0)
    }

    private init(name: String, finished: StopFlag, thread: pthread_t) {
        self.name = name
        self.finished = finished
        handle = Mutex(.running(thread))
    }

    deinit {
        handle.withLock { state in
            if case .running(let thread) = state { pthread_detach(thread) }
        }
    }

    public var isFinished: Bool { finished.isRaised }

    /// Readable once the body has returned.
    public var finishedDescriptor: Int32 { finished.fileDescriptor }

    /// Waits for the end; false if the deadline came first. Any thread but this one may call it, and more than once.
    @discardableResult
    public func join(until deadline: Deadline = .never) -> Bool {
        guard finished.wait(until: deadline) else { return false }
        handle.withLock { state in
            guard case .running(let thread) = state else { return }
            // The body has returned: what is left to wait for is the thread's last few instructions.
            pthread_join(thread, nil)
            state = .joined
        }
        return true
    }

    @discardableResult
    public func join(milliseconds: Int) -> Bool {
        join(until: .after(milliseconds: milliseconds))
    }

    fileprivate final class Start: Sendable {
        let name: String
        let finished: StopFlag
        let body: @Sendable () -> Void

        init(name: String, finished: StopFlag, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.finished = finished
            self.body = body
        }

        func run() {
            WorkerThread.setName(name)
            body()
            finished.raise()
        }
    }

    fileprivate static func setName(_ name: String) {
        // Swift's Glibc has no pthread_setname_np; this file is what it writes to.
        let file = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        var bytes = Array(name.utf8.prefix(15))
        _ = write(file, &bytes, bytes.count)
        close(file)
    }
}

private func threadMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    Unmanaged<WorkerThread.Start>.fromOpaque(argument).takeRetainedValue().run()
    return nil
}

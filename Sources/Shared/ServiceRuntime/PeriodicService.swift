public import Observability
import Synchronization

/// Work that is done at the start and then again and again, on a thread of its own.
public final class PeriodicService: Service {
    public let name: StaticText

    private let interval: Int
    private let retryInterval: Int
    private let work: @Sendable (StopFlag) -> Bool
    private let stop = StopFlag()
    private let thread = Mutex<WorkerThread?>(nil)

    /// - Parameters:
    ///   - name: also the thread's.
    ///   - interval: from the end of a turn to the next, in milliseconds.
    ///   - retryInterval: the same after a turn that did not succeed.
    ///   - work: a turn, on the service's own thread; it ends early when the flag is raised. False where it has to be
    ///     tried again soon.
    public init(
        name: StaticText,
        interval: Int,
        retryInterval: Int,
        work: @escaping @Sendable (StopFlag) -> Bool
    ) {
        self.name = name
        self.interval = interval
        self.retryInterval = retryInterval
        self.work = work
    }

    public func start(_ context: ServiceContext) throws {
        let started = try WorkerThread.spawn(name: name.description) { [self] in
            while !stop.isRaised {
                let isDone = work(stop)
                _ = stop.wait(milliseconds: isDone ? interval : retryInterval)
            }
        }
        thread.withLock { $0 = started }
    }

    public func beginStop() {
        stop.raise()
    }

    public func waitStopped(until deadline: Deadline) -> Bool {
        thread.withLock { $0 }?.join(until: deadline) ?? true
    }
}

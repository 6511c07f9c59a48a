public import Observability
import Synchronization

/// One part of a running program: it starts, works on threads of its own, and stops when told to.
public protocol Service: AnyObject, Sendable {
    var name: StaticText { get }

    /// Returns once the part works (or has begun to try, for parts that reconnect by themselves). Keeps `context` to
    /// report a failure that comes later.
    func start(_ context: ServiceContext) throws

    /// Asks the part to finish what is in flight and stop. Must not block.
    func beginStop()

    /// Waits for the part's threads; false if the deadline came first.
    func waitStopped(until deadline: Deadline) -> Bool
}

/// What a service holds of the group that runs it. Any thread may use it.
public final class ServiceContext: Sendable {
    public let log: Log
    private let wake: StopFlag
    private let reported = Atomic<Bool>(false)

    init(log: Log, wake: StopFlag) {
        self.log = log
        self.wake = wake
    }

    /// Says that this part can't go on: the whole group stops and the process ends with `ExitCode.software`.
    public func fail(_ reason: StaticText) {
        guard !reported.exchange(true, ordering: .acquiringAndReleasing) else { return }
        log.error("a part of the program failed; stopping", [.reason: .constant(reason)])
        wake.raise()
    }

    /// Asks for an orderly end, as a signal does.
    public func requestStop() {
        wake.raise()
    }

    var hasFailed: Bool { reported.load(ordering: .acquiring) }
}

import Glibc
public import Observability
import Synchronization

/// Starts services in the order given (what others need comes first), runs until it is told to stop or one of them
/// fails, and stops them in reverse.
///
/// All of the stopping shares one grace period. If it ends first, the process is ended by force, with
/// `ExitCode.graceExpired` and a log line that names the part.
public final class ServiceGroup: Sendable {
    private let services: [any Service]
    private let log: Log
    private let graceMilliseconds: Int
    private let forceExit: @Sendable (Int32) -> Void

    /// - Parameters:
    ///   - services: In dependency order.
    ///   - graceMilliseconds: For all of the stopping together.
    ///   - log: Also handed to the services, with their name.
    ///   - forceExit: Ends the process; replaced in tests.
    public init(
        _ services: [any Service],
        graceMilliseconds: Int,
        log: Log,
        forceExit: @escaping @Sendable (Int32) -> Void = { ServiceGroup.endProcess($0) }
    ) {
        self.services = services
        self.graceMilliseconds = graceMilliseconds
        self.log = log
        self.forceExit = forceExit
    }

    /// Blocks the calling thread until everything has stopped; returns the status to end the process with.
    public func run(until stop: StopFlag = ShutdownSignal.flag) -> Int32 {
        let wake = StopFlag()
        var started: [(service: any Service, context: ServiceContext)] = []
        var status = ExitCode.ok
        for service in services {
            guard !stop.isRaised, !wake.isRaised else { break }
            let context = ServiceContext(log: log.with([.part: .constant(service.name)]), wake: wake)
            do {
                try service.start(context)
                started.append((service, context))
                context.log.debug("part started")
            } catch {
                // Errors of ours describe themselves without outside data.
                context.log.error("a part of the program could not start", [.error: .text("\(error)")])
                status = ExitCode.unavailable
                break
            }
        }
        if status == ExitCode.ok {
            log.info("started", [.count: .integer(started.count)])
            Self.wait(for: [stop, wake])
        }
        if let signal = ShutdownSignal.signal { log.info("signal received", [.signal: .integer(signal)]) }
        let stopped = stopAll(started.map(\.service))
        if started.contains(where: { $0.context.hasFailed }) { status = ExitCode.software }
        return stopped ? status : ExitCode.graceExpired
    }

    private func stopAll(_ started: [any Service]) -> Bool {
        let deadline = Deadline.after(milliseconds: graceMilliseconds)
        log.info("stopping", [.graceMilliseconds: .integer(graceMilliseconds)])
        let done = StopFlag()
        // A part that ignores the deadline while it waits must not hold the process: this thread doesn't trust it.
        let slack = 500
        let watchdog = try? WorkerThread.spawn(name: "grace-period") { [log, graceMilliseconds, forceExit] in
            guard !done.wait(milliseconds: graceMilliseconds + slack) else { return }
            log.error("the grace period ended; ending the process by force")
            forceExit(ExitCode.graceExpired)
        }
        var late = false
        for service in started.reversed() {
            service.beginStop()
            guard !service.waitStopped(until: deadline) else { continue }
            late = true
            log.error("part did not stop in the grace period", [.part: .constant(service.name)])
        }
        done.raise()
        watchdog?.join()
        if late {
            log.error("the grace period ended; ending the process by force")
            forceExit(ExitCode.graceExpired)
        } else {
            log.info("stopped")
        }
        return !late
    }

    /// Ends the process without running exit handlers, which could wait for the very threads that do not end.
    public static func endProcess(_ status: Int32) {
        _exit(status)
    }

    private static func wait(for flags: [StopFlag]) {
        while !flags.contains(where: \.isRaised) {
            var entries = flags.map { pollfd(fd: $0.fileDescriptor, events: Int16(POLLIN), revents: 0) }
            // The time-out serves flags that got no descriptor.
            poll(&entries, nfds_t(entries.count), 1000)
        }
    }
}

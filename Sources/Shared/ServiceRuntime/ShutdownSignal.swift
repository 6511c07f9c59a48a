import Glibc
import Synchronization

/// Turns the first SIGTERM or SIGINT into a raised flag; the second ends the process at once with 128 + its number.
/// SIGPIPE is caught and ignored, so that a write to a closed connection is an error and not the end.
///
/// The handlers are set for the whole process and work whichever thread a signal hits. Programs started from here
/// begin with the default handling, as `exec` resets what was caught.
public enum ShutdownSignal {
    /// Raised by the first signal, or by `request()`.
    public static let flag = StopFlag()

    private static let received = Atomic<Int32>(0)

    /// Call it first thing in `main`, before threads start.
    public static func install() {
        // A handler must not be the one who makes the flag.
        _ = flag.isRaised
        handle(SIGTERM) { ShutdownSignal.note($0) }
        handle(SIGINT) { ShutdownSignal.note($0) }
        handle(SIGPIPE) { _ in }
        // Whoever started us may have handed down a mask that would keep them pending for ever.
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in [SIGTERM, SIGINT] { sigaddset(&signals, number) }
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
    }

    /// The signal that came first, or nil.
    public static var signal: Int32? {
        let number = received.load(ordering: .relaxed)
        return number == 0 ? nil : number
    }

    /// Asks for the same orderly end from within.
    public static func request() {
        flag.raise()
    }

    /// Runs in a signal handler: nothing here allocates or locks.
    private static func note(_ number: Int32) {
        let saved = errno
        let first = received.compareExchange(expected: 0, desired: number, ordering: .relaxed).exchanged
        guard first else { _exit(128 + number) }
        flag.raise()
        errno = saved
    }

    private static func handle(_ number: Int32, _ handler: @escaping @convention(c) (Int32) -> Void) {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = handler
        action.sa_flags = Int32(SA_RESTART)
        sigemptyset(&action.sa_mask)
        sigaction(number, &action, nil)
    }
}

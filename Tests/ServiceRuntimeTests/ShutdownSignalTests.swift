import Glibc
import ServiceRuntime
import Testing

/// The handlers are the process's own, so every case runs in an exit test's child.
struct ShutdownSignalTests {
    @Test func `the first signal raises the flag and a broken pipe is only an error`() async {
        await #expect(processExitsWith: .exitCode(7)) {
            ShutdownSignal.install()
            kill(getpid(), SIGPIPE)
            guard !ShutdownSignal.flag.isRaised, ShutdownSignal.signal == nil else { exit(1) }
            kill(getpid(), SIGTERM)
            guard ShutdownSignal.flag.wait(milliseconds: 10_000), ShutdownSignal.signal == SIGTERM else { exit(2) }
            exit(7)
        }
    }

    @Test func `the second signal ends the process at once`() async {
        await #expect(processExitsWith: .exitCode(128 + SIGINT)) {
            ShutdownSignal.install()
            kill(getpid(), SIGTERM)
            ShutdownSignal.flag.wait(milliseconds: 10_000)
            kill(getpid(), SIGINT)
            StopFlag().wait(milliseconds: 10_000)
            exit(1)
        }
    }

    @Test func `a request from within raises the same flag`() async {
        await #expect(processExitsWith: .exitCode(7)) {
            ShutdownSignal.install()
            ShutdownSignal.request()
            exit(ShutdownSignal.flag.isRaised && ShutdownSignal.signal == nil ? 7 : 1)
        }
    }
}

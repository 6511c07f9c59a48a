import DevelopmentStack
import Foundation
import Glibc
import Testing

struct ChildProcessTests {
    private func launch(_ script: String, _ log: String) -> ChildProcess.Launch {
        ChildProcess.Launch(
            program: "/bin/sh",
            arguments: ["-c", script],
            environment: ["GREETING": "hello world"],
            logPath: log
        )
    }

    private func withLog(_ body: (String) throws -> Void) throws {
        let path = NSTemporaryDirectory() + "/daybook-child-\(UUID().uuidString).log"
        defer { unlink(path) }
        try body(path)
    }

    /// Ends as soon as the condition holds, and after ten seconds in any case.
    private func eventually(_ condition: () -> Bool) -> Bool {
        let deadline = monotonicSeconds() + 10
        while !condition() {
            guard monotonicSeconds() < deadline else { return false }
            usleep(5000)
        }
        return true
    }

    @Test func `output goes to the log and the status comes back`() throws {
        try withLog { log in
            let child = try ChildProcess.start(launch("echo \"$GREETING\"; echo oops >&2; exit 7", log))
            #expect(eventually { child.poll() != nil })
            #expect(child.poll() == .exited(7))
            #expect(LogFile(path: log).lastLines(5) == ["hello world", "oops"])
            #expect(LogFile(path: log).contains("oops", from: 0))
            #expect(!LogFile(path: log).contains("hello", from: 6))
        }
    }

    @Test func `killing takes what the child started with it`() throws {
        try withLog { log in
            let child = try ChildProcess.start(launch("sleep 600 & echo $!; wait", log))
            #expect(eventually { !LogFile(path: log).lastLines(1).isEmpty })
            let pid = try #require(Int32(LogFile(path: log).lastLines(1)[0]))
            let grandchild = try #require(ProcessIdentity(pid: pid))
            child.kill()
            #expect(eventually { child.poll() != nil })
            #expect(child.poll() == .signalled(SIGKILL))
            #expect(grandchild.waitUntilGone(seconds: 10))
        }
    }

    @Test func `a program that is not there is a clear failure`() throws {
        try withLog { log in
            var missing = launch("", log)
            missing.program = "/nonexistent/ingest-service"
            let failure = #expect(throws: StackFailure.self) { try ChildProcess.start(missing) }
            #expect(failure?.code == .cannotStart)
            #expect(failure?.message.contains("/nonexistent/ingest-service") == true)
        }
    }
}

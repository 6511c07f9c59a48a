import DevelopmentStack
import Domain
import Foundation
import Glibc
import TestSupport
import Testing

/// `daybook up` and the commands around it, in a folder of their own.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `The local stack` {
    private let today = PipelineUnderTest.today
    private let user = UserID(high: 0x57ac_0000_4000, low: 0x8000_0000_0000_0001)
    private let parts = ["postgres", "push-stand-in", "broker", "aggregator-1", "wake", "ingest"]

    @Test func `the demonstration ends with 0 and shows the canonical days as a table`() throws {
        let stack = try StackUnderTest()
        let process = try stack.begin("--exit-after-demo")
        #expect(try process.waitForExit(seconds: 90) == 0, "\(process.output)")
        let output = process.output
        for words in [
            "up", "postgres", "broker", "aggregator-1", "aggregator-2", "ingest", "127.0.0.1:\(stack.port)",
            "The canonical days in PostgreSQL", "are what they had to be", "what reached the stand-in for APNs",
            "with new data: steps 5,210 → 8,034", "nothing runs any more",
        ] { #expect(output.contains(words), "\(words) is missing in:\n\(output)") }
        #expect(!output.contains("WRONG"))
        let row = output.split(separator: "\n").first {
            $0.contains(today.advanced(by: -1).description) && $0.contains("steps") && $0.contains("health_connect")
        }
        #expect(row?.contains("12,304") == true || row?.contains("12304") == true, "\(output)")
        #expect(!FileManager.default.fileExists(atPath: stack.folder.recordPath))
    }

    @Test func `its commands work while it runs, a second one says who is running, Ctrl-C leaves nothing running`()
        throws
    {
        let stack = try StackUnderTest()
        #expect(try stack.run("status").status == 69)
        #expect(try stack.run("env").status == 69)
        #expect(try stack.run("down").status == 0)
        let up = try stack.up("--workers", "1")
        let record = try stack.record()
        #expect(Set(record.parts.map(\.name)) == Set(parts))
        #expect(record.parts.allSatisfy { $0.process?.isRunning == true })

        let second = try stack.run("up", "--port", "\(stack.port)")
        #expect(second.status == 75 && second.output.contains("pid \(record.supervisor.pid)"), "\(second.output)")
        #expect(second.output.contains("127.0.0.1:\(stack.port)"))

        // On a busy machine `/readyz` may answer a moment too late.
        try stack.waitUntilFine()
        let status = try stack.json("status")
        #expect(status["ok"] as? Bool == true && (status["parts"] as? [Any])?.count == parts.count)
        #expect((status["database"] as? [String: Any])?["reachable"] as? Bool == true)
        let environment = try stack.json("env")
        #expect(environment["DAYBOOK_URL"] as? String == "http://127.0.0.1:\(stack.port)")
        #expect(environment["DAYBOOK_DATABASE_URL"] is String && environment["DAYBOOK_TOKEN"] is String)
        #expect(try stack.run("env").output.contains("export DAYBOOK_URL='http://127.0.0.1:\(stack.port)'"))
        let token = try stack.json("token", "--user", user.description, "--ttl", "15m")
        #expect(token["user"] as? String == user.description && token["token"] is String)
        #expect(try stack.run("token", "--role", "king").status == 64)
        let sent = try stack.json("send", "--generate", "40", "--user", user.description)
        #expect(sent["accepted"] as? Int ?? 0 >= 40 && sent["unanswered"] as? Int == 0, "\(sent)")
        let checked = try stack.json("migrate", "--check")
        #expect(checked["ok"] as? Bool == true)
        try Eventually.holds("the sent days are shown", seconds: 30) {
            try stack.run("day", "show", user.description, "--brief").status == 0
        }
        #expect(try stack.run("day", "show", user.description, "2020-02-02").status == 1)
        #expect(try stack.run("no-such-command").status == 64)

        up.send(SIGINT)
        #expect(try up.waitForExit(seconds: 40) == 0)
        #expect(up.output.contains("nothing runs any more"))
        for part in record.parts { #expect(part.process?.isRunning == false, "\(part.name) still runs") }
        #expect(PortChoice.isFree(stack.port))
    }

    @Test func `a killed worker, ingest and broker are said aloud and restarted, and posts arrive afterwards`() throws {
        let stack = try StackUnderTest()
        let up = try stack.up("--workers", "1")
        var steps = 1000
        try stack.post(steps, today, user: user)
        try stack.expectSteps(steps, today, user: user)
        for part in ["aggregator-1", "ingest", "broker"] {
            let before = try stack.process(of: part)
            #expect(before.send(SIGKILL))
            try Eventually.holds("\(part)'s end is said", seconds: 20) {
                up.output.split(separator: "\n").contains {
                    $0.contains("crashed") && $0.contains(part) && $0.contains("was killed (signal 9)")
                        && $0.contains("\(part).log")
                }
            }
            try Eventually.holds("\(part) runs again", seconds: 30) {
                guard let now = try stack.folder.record()?.parts.first(where: { $0.name == part })?.process else {
                    return false
                }
                return now != before && now.isRunning
            }
            steps += 1000
            try stack.post(steps, today, user: user)
            try stack.expectSteps(steps, today, user: user)
            try stack.waitUntilFine()
        }
        #expect(up.isRunning)
        #expect(try up.stop(seconds: 40) == 0)
    }

    @Test func `its data survives Ctrl-C and kill -9, a kill leaves nothing running, --fresh and --purge remove it`()
        throws
    {
        let stack = try StackUnderTest()
        let first = try stack.up("--workers", "1")
        try stack.post(4321, today, user: user)
        try stack.expectSteps(4321, today, user: user)
        let record = try stack.record()
        #expect(record.supervisor.send(SIGKILL))
        for part in record.parts {
            let process = try #require(part.process)
            #expect(process.waitUntilGone(seconds: 10), "\(part.name) outlived a killed `daybook up`")
        }
        #expect(!first.isRunning)

        let second = try stack.up("--workers", "1")
        try stack.expectSteps(4321, today, user: user)
        let stopped = try stack.run("down", seconds: 60)
        #expect(stopped.status == 0 && stopped.output.contains("stopped"))
        #expect(try second.waitForExit(seconds: 10) == 0)

        let third = try stack.up("--workers", "1", "--fresh")
        let shown = try stack.run("day", "show", user.description)
        #expect(shown.status == 1, "\(shown)")
        let parts = try stack.record().parts
        let purged = try stack.run("down", "--purge", seconds: 60)
        #expect(purged.status == 0 && purged.output.contains("removed"), "\(purged.output)")
        #expect(try third.waitForExit(seconds: 10) == 0)
        #expect(!stack.folder.exists)
        for part in parts { #expect(part.process?.isRunning == false) }
        #expect(try stack.run("down", "--purge").status == 0)
    }
}

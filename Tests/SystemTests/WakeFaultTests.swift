import DevelopmentStack
import Domain
import Foundation
import Glibc
import Postgres
import PushStandIn
import Storage
import TestSupport
import Testing

/// Wake workers that are killed, frozen, doubled and stopped.
@Suite(.serialized, .timeLimit(.minutes(4))) struct `Wake workers that fail` {
    @Test func `kill -9 between the claim and the push: settled by time, not sent again`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<5)
        let nobody = try #require(PortChoice.any())
        let dying = try test.start(port: nobody, ["DAYBOOK_WAKE_LEASE_S": "5"])
        try Eventually.holds("the users are claimed") { try test.count("push_sends") == 5 }
        try dying.kill()
        let next = try test.start()
        try test.waitForEnds(5, of: next)
        #expect(try test.count("push_sends WHERE outcome = 'unknown'") == 5)
        #expect(try next.stop() == 0)
        #expect(test.standIn.received.isEmpty)
        #expect(try test.count("wake_schedule WHERE unanswered > 0") == 0)
        for number in 0..<5 {
            let schedule = try test.schedule(number)
            #expect(schedule.dueAt - schedule.lastWakeAt == 4 * 3_600_000_000)
        }
    }

    @Test func `W7: a worker that is frozen past its lease sends nothing when it wakes up, and its writes are refused`()
        throws
    {
        let test = try WakeWorkerUnderTest(StandInScript(others: [StandInScript.Reply(.silence)]))
        try test.addStale(0..<5)
        let frozen = try test.start(["DAYBOOK_WAKE_LEASE_S": "5"])
        // The first goes out alone and is never answered; the others wait for it.
        #expect(test.standIn.wait(forRequests: 1, milliseconds: 20_000))
        frozen.send(SIGSTOP)
        let sent = test.standIn.received.count
        #expect(try test.count("push_sends") == 5 && sent < 5)
        let other = try test.start()
        try test.waitForEnds(5, of: other)
        #expect(try test.count("push_sends WHERE outcome = 'unknown'") == 5)
        func rows() throws -> [String] {
            let rows = try test.connection.executeUnprepared(
                "SELECT wake_schedule::text FROM wake_schedule ORDER BY user_id"
            )
            return try (0..<rows.rowCount).map { try rows.text($0, 0) }
        }
        let before = try rows()
        frozen.send(SIGCONT)
        try Eventually.holds("its ends are refused", seconds: 90) {
            try WakeMetricsReader.value("daybook_wake_late_ends_total", of: frozen) >= 5
        }
        #expect(try rows() == before)
        #expect(test.standIn.received.count == sent)
        #expect(try frozen.stop() == 0 && other.stop() == 0)
    }

    @Test func `W7: two workers that scan the same users wake each once`() throws {
        let test = try WakeWorkerUnderTest()
        let workers = try (0..<2).map { _ in try test.start(["DAYBOOK_WAKE_BATCH": "20"]) }
        for worker in workers {
            try Eventually.holds("both scan") {
                try WakeMetricsReader.value("daybook_wake_scan_seconds_count", of: worker) > 0
            }
        }
        try test.addStale(0..<1500)
        try test.waitForEnds(1500, of: workers.first)
        for worker in workers { #expect(try worker.stop() == 0, "\(worker.output.suffix(1000))") }
        let tokens = test.standIn.received.map(\.token)
        #expect(tokens.count == 1500 && Set(tokens).count == 1500)
        #expect(try test.count("push_sends") == 1500)
        // Both had their share, or nothing was shown.
        #expect(try test.count("(SELECT DISTINCT worker FROM push_sends) AS workers") == 2)
    }

    @Test func `W8: 5,000 pushes, three workers, restarts: one provider token, and nobody woken twice`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<5000)
        let settings = ["DAYBOOK_WAKE_BATCH": "200", "DAYBOOK_WAKE_RATE": "1500", "DAYBOOK_WAKE_LEASE_S": "6"]
        var workers = try (0..<3).map { _ in try test.start(settings) }
        for round in 0..<4 {
            try Eventually.holds("some were sent", seconds: 60) { test.standIn.received.count > 700 * (round + 1) }
            if round.isMultiple(of: 2) {
                try workers[0].kill()
            } else {
                #expect(try workers[0].stop() == 0, "\(workers[0].output.suffix(1000))")
            }
            workers.removeFirst()
            workers.append(try test.start(settings))
        }
        try test.waitForEnds(5000, seconds: 90, of: workers.last)
        for worker in workers { #expect(try worker.stop() == 0, "\(worker.output.suffix(1000))") }
        let tokens = test.standIn.received.map(\.token)
        #expect(Set(tokens).count == tokens.count, "\(tokens.count - Set(tokens).count) were pushed twice")
        #expect(Set(test.standIn.received.compactMap { $0.header("authorization") }).count == 1)
        // Who was claimed by a worker that was killed counts as woken, whether it was sent or not.
        let woken = try test.count("wake_schedule WHERE last_wake_at > 0")
        #expect(woken == 5000 && tokens.count > 4400 && tokens.count <= 5000, "\(woken) \(tokens.count)")
    }

    @Test func `what is under way goes out and is written down while nothing can be claimed`() throws {
        let test = try WakeWorkerUnderTest(
            StandInScript(others: [StandInScript.Reply().with { $0.delayMilliseconds = 700 }])
        )
        try test.addStale(0..<20)
        let worker = try test.start()
        #expect(test.standIn.wait(forRequests: 1, milliseconds: 20_000))
        try test.connection.simpleQuery("DELETE FROM wake_control")
        try test.waitForEnds(20, of: worker)
        #expect(try test.count("push_sends WHERE outcome = 'accepted'") == 20)
        // And it goes on once that is mended.
        try test.addStale(20..<21)
        try test.connection.simpleQuery("INSERT INTO wake_control DEFAULT VALUES")
        try test.waitForEnds(21, of: worker)
        #expect(try worker.stop() == 0, "\(worker.output.suffix(1000))")
    }

    @Test func `the worker's role is what it works with: without a right it says so, with it wakes go on`() throws {
        let test = try WakeWorkerUnderTest()
        try test.addStale(0..<3)
        try test.connection.simpleQuery("REVOKE INSERT ON push_sends FROM daybook_wake")
        let worker = try test.start()
        let said = try worker.waitForLog("the database is away or refuses; trying again", key: "error")
        #expect(said.contains("42501"), "\(said)")
        #expect(test.standIn.received.isEmpty)
        #expect(try test.count("wake_schedule WHERE last_wake_at > 0 OR claimed_until > 0") == 0)
        try test.connection.simpleQuery("SELECT grant_daybook_roles()")
        try test.waitForEnds(3, of: worker)
        #expect(try test.count("push_sends WHERE outcome = 'accepted'") == 3)
        #expect(try worker.stop() == 0, "\(worker.output.suffix(1000))")
    }

    @Test func `SIGTERM drains: what is under way is written down, what was not sent is free again`() throws {
        let test = try WakeWorkerUnderTest(
            StandInScript(others: [StandInScript.Reply().with { $0.delayMilliseconds = 700 }])
        )
        try test.addStale(0..<50)
        let worker = try test.start()
        #expect(test.standIn.wait(forRequests: 2, milliseconds: 20_000))
        #expect(try worker.stop() == 0, "\(worker.output)")
        #expect(try test.count("push_sends WHERE outcome IS NULL") == 0)
        let accepted = try test.count("push_sends WHERE outcome = 'accepted'")
        #expect(accepted == test.standIn.received.count)
        #expect(try test.count("wake_schedule WHERE last_wake_at > 0") == accepted)
    }
}

import Domain
import Postgres
import Storage
import TestSupport
import Testing
import WakeRules

@testable import WakeWorker

/// A worker's turns in virtual time, in real rows.
@Suite struct `A wake worker's turns` {
    private static let hour = 3600

    /// Who was claimed, newest first.
    private func wakes(_ test: WakeTurnsUnderTest, _ number: Int) throws -> [Instant] {
        try test.database.wakes(number).map(\.wakeAt)
    }

    @Test func `a clock that goes forward: nobody is woken until it has settled, and nobody twice in a spacing`() throws
    {
        let test = try WakeTurnsUnderTest()
        try test.pass(10 * Self.hour)
        let start = test.time.now
        try test.database.add(0..<2, pushedAt: test.database.at(hours: 0), dueAt: test.database.at(hours: 4))
        let worker = try test.worker { AcceptingSender($0) }
        let other = try test.worker { AcceptingSender($0) }
        for _ in 0..<2 { for worker in [worker, other] { _ = try worker.work.turn(claims: true) } }
        #expect(try wakes(test, 0) == [start] && wakes(test, 1) == [start])
        #expect(worker.metric("daybook_wake_clock_good") == 1)

        try test.pass(Self.hour)
        for worker in [worker, other] { _ = try worker.work.turn(claims: true) }
        try test.database.add(2..<3, pushedAt: test.database.at(hours: 0), dueAt: test.database.at(hours: 4))
        test.time.jump(Self.hour * 7 / 2)
        try test.pass(1)
        let before = try test.rows("wake_schedule")
        for worker in [worker, other] { _ = try worker.work.turn(claims: true) }
        #expect(worker.metric("daybook_wake_clock_jumps_total") == 1 && worker.metric("daybook_wake_clock_good") == 0)
        #expect(worker.metric("daybook_wake_held_back_total{reason=\"clock\"}") == 1)
        try test.pass(598)
        for worker in [worker, other] { _ = try worker.work.turn(claims: true) }
        #expect(try test.rows("wake_schedule") == before)
        // It has settled: the one who is due is woken. By their rows the others seem to have been woken 4.7 h ago.
        try test.pass(3)
        for worker in [worker, other] { _ = try worker.work.turn(claims: true) }
        #expect(try wakes(test, 2) == [test.time.now])
        #expect(try wakes(test, 0) == [start] && wakes(test, 1) == [start])
        // A worker that has seen nothing of it knows all the same.
        let fresh = try test.worker { AcceptingSender($0) }
        try test.pass(Self.hour * 3 - 603)
        _ = try fresh.work.turn(claims: true)
        #expect(try wakes(test, 0) == [start])
        try test.pass(2)
        _ = try fresh.work.turn(claims: true)
        #expect(try wakes(test, 0) == [test.time.now, start] && wakes(test, 1) == [test.time.now, start])
    }

    @Test func `a clock that is put back: users are woken a spacing later at the latest`() throws {
        let test = try WakeTurnsUnderTest()
        try test.pass(10 * Self.hour)
        try test.database.add(0..<1, pushedAt: test.database.at(hours: -30), dueAt: test.database.at(hours: -26))
        let worker = try test.worker { AcceptingSender($0) }
        _ = try worker.work.turn(claims: true)
        let first = test.time.now
        #expect(try wakes(test, 0) == [first])
        _ = try worker.work.turn(claims: false)
        test.time.jump(-6 * Self.hour)
        try test.pass(1)
        _ = try worker.work.turn(claims: true)
        #expect(worker.metric("daybook_wake_clock_jumps_total") == 1 && worker.metric("daybook_wake_clock_good") == 0)
        // A phone answers, which brings its user forward; the wake is still in the future by this clock.
        try test.pass(601)
        try test.database.connection.simpleQuery("UPDATE wake_schedule SET due_at = \(test.time.wallMicroseconds())")
        _ = try worker.work.turn(claims: true)
        let clamped = try test.database.schedule(0)
        #expect(clamped.lastWakeAt == test.time.wallMicroseconds())
        #expect(clamped.dueAt == test.time.now.advanced(bySeconds: 4 * Self.hour).microseconds)
        try test.pass(4 * Self.hour)
        _ = try worker.work.turn(claims: true)
        #expect(try wakes(test, 0).contains(test.time.now))
    }

    @Test func `while a cause of ours holds for all, nobody is looked at and no row is written; then all go at once`()
        throws
    {
        let test = try WakeTurnsUnderTest()
        try test.pass(10 * Self.hour)
        try test.database.add(0..<5, pushedAt: test.database.at(hours: 0), dueAt: test.database.at(hours: 4))
        let worker = try test.worker { AcceptingSender($0) }
        let before = try test.rows("wake_schedule")
        let store = try test.database.store()
        _ = try store.pause()
        _ = try worker.work.turn(claims: true)
        #expect(worker.metric("daybook_wake_held_back_total{reason=\"running\"}") == 1)
        _ = try store.resume()
        let minute = test.time.wallMicroseconds() / 60_000_000
        try test.database.connection.simpleQuery(
            "INSERT INTO door_counts VALUES ('\(WakesUnderTest.topic)', 0, \(minute % 16), \(minute), 100, 3)"
        )
        _ = try worker.work.turn(claims: true)
        #expect(worker.metric("daybook_wake_held_back_total{reason=\"door\"}") == 1)
        #expect(worker.metric("daybook_wake_candidates_total") == 0)
        // Nothing applied for an hour.
        try test.database.connection.simpleQuery("DELETE FROM door_counts")
        try test.sync(lag: Self.hour)
        _ = try worker.work.turn(claims: true)
        #expect(worker.metric("daybook_wake_held_back_total{reason=\"applied\"}") == 1)
        #expect(try test.rows("wake_schedule") == before)
        try test.sync()
        _ = try worker.work.turn(claims: true)
        #expect(worker.metric("daybook_wake_claimed_total") == 5)
    }
}

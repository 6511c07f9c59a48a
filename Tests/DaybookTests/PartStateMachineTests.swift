import DevelopmentStack
import Testing

struct PartStateMachineTests {
    private let policy = SupervisionPolicy(
        startLimit: 30,
        grace: 10,
        firstBackOff: 0.5,
        longestBackOff: 4,
        stableAfter: 60
    )

    private func running(at now: Double = 1) -> PartStateMachine {
        var machine = PartStateMachine(policy: policy)
        _ = machine.start(at: 0)
        _ = machine.becameReady(at: now)
        return machine
    }

    @Test func `a part starts, becomes ready and stops`() {
        var machine = PartStateMachine(policy: policy)
        #expect(machine.start(at: 0) == .start)
        #expect(machine.start(at: 0) == .none)
        #expect(machine.awaitsReadiness)
        #expect(machine.becameReady(at: 2) == .announceReady(after: 2))
        #expect(machine.becameReady(at: 3) == .none)
        #expect(machine.isRunning)
        #expect(machine.stop(at: 5) == .terminate)
        #expect(machine.stop(at: 6) == .none)
        #expect(machine.tick(at: 14) == .none)
        #expect(machine.ended(at: 14.5) == .announceStopped)
        #expect(machine.isStopped)
        #expect(machine.start(at: 20) == .start)
    }

    @Test func `one that ends before it was ever ready gives up`() {
        var machine = PartStateMachine(policy: policy)
        _ = machine.start(at: 0)
        #expect(machine.ended(at: 1) == .giveUp)
        #expect(machine.isStopped)
        #expect(machine.tick(at: 100) == .none)
    }

    @Test func `one that is never ready is killed at the limit and gives up`() {
        var machine = PartStateMachine(policy: policy)
        _ = machine.start(at: 0)
        #expect(machine.tick(at: 29.9) == .none)
        #expect(machine.tick(at: 30) == .kill)
        #expect(machine.tick(at: 31) == .none)
        #expect(machine.becameReady(at: 31) == .none)
        #expect(machine.ended(at: 32) == .giveUp)
    }

    @Test func `a crash is followed by longer and longer waits`() {
        var machine = running()
        var now = 2.0
        for wait in [0.5, 1, 2, 4, 4] {
            #expect(machine.ended(at: now) == .announceCrash(restartIn: wait))
            #expect(machine.tick(at: now + wait - 0.01) == .none)
            #expect(machine.tick(at: now + wait) == .start)
            now += wait + 1
            #expect(machine.becameReady(at: now) == .announceReady(after: 1))
            now += 1
        }
    }

    @Test func `a long quiet run forgets earlier crashes`() {
        var machine = running()
        _ = machine.ended(at: 2)
        _ = machine.tick(at: 3)
        _ = machine.becameReady(at: 4)
        #expect(machine.ended(at: 64) == .announceCrash(restartIn: 0.5))
    }

    @Test func `a restart that never becomes ready is killed and tried again`() {
        var machine = running()
        _ = machine.ended(at: 2)
        #expect(machine.tick(at: 2.5) == .start)
        #expect(machine.tick(at: 40) == .kill)
        #expect(machine.ended(at: 41) == .announceCrash(restartIn: 1))
    }

    @Test func `what does not stop in its grace period is killed once`() {
        var machine = running()
        #expect(machine.stop(at: 100) == .terminate)
        #expect(machine.tick(at: 109) == .none)
        #expect(machine.tick(at: 110) == .kill)
        #expect(machine.tick(at: 111) == .none)
        #expect(machine.ended(at: 112) == .announceStopped)
    }

    @Test func `a hurried person ends the grace period`() {
        var machine = running()
        #expect(machine.hurry() == .none)
        _ = machine.stop(at: 1)
        #expect(machine.hurry() == .kill)
    }

    @Test func `stopping while it waits for its restart needs nothing`() {
        var machine = running()
        _ = machine.ended(at: 2)
        #expect(machine.stop(at: 2.1) == .announceStopped)
        #expect(machine.tick(at: 10) == .none)
        #expect(machine.isStopped)
    }

    @Test func `back-off never exceeds its longest, whatever the count`() {
        for crashes in [-1, 0, 1, 5, 1000, Int.max] {
            let wait = policy.backOff(afterCrashes: crashes)
            #expect(wait >= 0.5 && wait <= 4)
        }
    }
}

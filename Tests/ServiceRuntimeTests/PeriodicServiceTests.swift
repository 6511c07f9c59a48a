import Observability
import ServiceRuntime
import Synchronization
import Testing

struct PeriodicServiceTests {
    /// Turns as they come; the flag is raised with the last one.
    private final class Turns: Sendable {
        let wanted: Int
        let reached = StopFlag()
        private let count = Atomic<Int>(0)

        init(_ wanted: Int) { self.wanted = wanted }

        var all: Int { count.load(ordering: .acquiring) }

        func note() {
            if count.add(1, ordering: .acquiringAndReleasing).newValue == wanted { reached.raise() }
        }
    }

    private let log = Log(service: "test", level: .error)

    /// A turn that fails comes again after the short interval, one that succeeds after the long one.
    @Test(arguments: [(true, 1), (false, 3)])
    func `it works at once, and again after the interval of what became of the turn`(isDone: Bool, wanted: Int) {
        let turns = Turns(wanted)
        let service = PeriodicService(name: "periodic", interval: 60_000, retryInterval: 1) { _ in
            turns.note()
            return isDone
        }
        let group = ServiceGroup([service], graceMilliseconds: limit, log: log)
        let end = StopFlag()
        let watcher = try? WorkerThread.spawn(name: "watcher") {
            _ = turns.reached.wait(milliseconds: limit)
            end.raise()
        }
        #expect(group.run(until: end) == ExitCode.ok)
        #expect(turns.reached.isRaised && watcher?.join(milliseconds: limit) == true)
        if isDone { #expect(turns.all == 1) }
    }

    @Test func `a turn under way sees that it is to stop`() {
        let began = StopFlag()
        let service = PeriodicService(name: "periodic", interval: 60_000, retryInterval: 60_000) { stop in
            began.raise()
            return stop.wait(milliseconds: limit)
        }
        let group = ServiceGroup([service], graceMilliseconds: limit, log: log)
        // Raised by the turn itself: the group stops while it waits.
        #expect(group.run(until: began) == ExitCode.ok)
    }
}

import Observability
import ServiceRuntime
import Synchronization
import Testing

private final class Journal: Sendable {
    private let entries = Mutex<[String]>([])

    func note(_ entry: String) {
        entries.withLock { $0.append(entry) }
    }

    var all: [String] { entries.withLock { $0 } }
}

private struct Broken: Error, CustomStringConvertible {
    let description = "no port left: choose another"
}

/// A part that writes down what is done to it.
private final class Part: Service {
    enum Behaviour {
        case good
        case refusesToStart
        case ignoresStop
        case failsOnceRunning
        case blocksInWait(StopFlag)
    }

    let name: StaticText
    let journal: Journal
    let behaviour: Behaviour
    let started = StopFlag()

    init(_ name: StaticText, _ journal: Journal, _ behaviour: Behaviour = .good) {
        self.name = name
        self.journal = journal
        self.behaviour = behaviour
    }

    func start(_ context: ServiceContext) throws {
        if case .refusesToStart = behaviour { throw Broken() }
        journal.note("start \(name)")
        started.raise()
        if case .failsOnceRunning = behaviour { context.fail("it broke") }
    }

    func beginStop() {
        journal.note("stop \(name)")
    }

    func waitStopped(until deadline: Deadline) -> Bool {
        if case .blocksInWait(let release) = behaviour { release.wait(milliseconds: limit) }
        if case .ignoresStop = behaviour { return StopFlag().wait(until: deadline) }
        journal.note("stopped \(name)")
        return true
    }
}

struct ServiceGroupTests {
    private let journal = Journal()
    private let sink = MemorySink()
    private let stop = StopFlag()

    private func run(_ parts: [Part], grace: Int = limit, forceExit: @escaping @Sendable (Int32) -> Void = { _ in })
        -> Int32
    {
        let log = Log(service: "test", sink: sink)
        return ServiceGroup(parts, graceMilliseconds: grace, log: log, forceExit: forceExit).run(until: stop)
    }

    @Test func `parts start in order and stop in reverse`() throws {
        let last = Part("last", journal)
        let stopper = try WorkerThread.spawn(name: "stopper") { [stop] in
            last.started.wait(milliseconds: limit)
            stop.raise()
        }
        #expect(run([Part("first", journal), Part("second", journal), last]) == ExitCode.ok)
        #expect(stopper.join(milliseconds: limit))
        #expect(
            journal.all == [
                "start first", "start second", "start last",
                "stop last", "stopped last", "stop second", "stopped second", "stop first", "stopped first",
            ]
        )
    }

    @Test func `a part that can't start stops those that had`() {
        let status = run([Part("first", journal), Part("broken", journal, .refusesToStart), Part("never", journal)])
        #expect(status == ExitCode.unavailable)
        #expect(journal.all == ["start first", "stop first", "stopped first"])
        #expect(sink.lines.contains { $0.contains("no port left") && $0.contains(#""part":"broken""#) })
    }

    @Test func `a part that fails while it runs ends the whole program`() {
        #expect(run([Part("first", journal), Part("fails", journal, .failsOnceRunning)]) == ExitCode.software)
        #expect(journal.all.suffix(2) == ["stop first", "stopped first"])
        #expect(sink.lines.contains { $0.contains(#""reason":"it broke""#) })
    }

    @Test func `a part that outlives the grace period ends the process by force, the others being asked first`() {
        let forced = Shared(Mutex<[Int32]>([]))
        stop.raise()
        let none = run([Part("never", journal)])
        #expect(none == ExitCode.ok && journal.all.isEmpty)

        let release = StopFlag()
        let parts = [
            Part("first", journal), Part("stuck", journal, .ignoresStop), Part("f", journal, .failsOnceRunning),
        ]
        let log = Log(service: "test", sink: sink)
        let group = ServiceGroup(parts, graceMilliseconds: 20, log: log) { status in
            forced.value.withLock { $0.append(status) }
        }
        #expect(group.run(until: release) == ExitCode.graceExpired)
        #expect(forced.value.withLock { $0 } == [ExitCode.graceExpired])
        #expect(journal.all.contains("stop first"))
        #expect(sink.lines.contains { $0.contains("did not stop") && $0.contains(#""part":"stuck""#) })
    }

    @Test func `a part that blocks its stopping is not waited for`() {
        let release = StopFlag()
        let forced = Shared(Mutex<[Int32]>([]))
        let parts = [Part("blocks", journal, .blocksInWait(release)), Part("f", journal, .failsOnceRunning)]
        let log = Log(service: "test", sink: sink)
        let group = ServiceGroup(parts, graceMilliseconds: 5, log: log) { status in
            forced.value.withLock { $0.append(status) }
            // In life the process is gone by now; here the part is let go.
            release.raise()
        }
        #expect(group.run(until: StopFlag()) == ExitCode.software)
        #expect(forced.value.withLock { $0 } == [ExitCode.graceExpired])
    }
}

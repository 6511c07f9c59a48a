import DevelopmentStack
import Testing

struct SupervisorTests {
    /// What happened, in order, over all parts.
    private final class Journal {
        var lines: [String] = []
    }

    /// A part without a process: ready when asked for the second time, ended when told to.
    private final class FakePart: StackPart {
        let name: String
        let stage: Int
        let journal: Journal
        var address: String? { nil }
        var adminAddress: String? { nil }
        let logPath = "/dev/null"
        var process: ProcessIdentity? { nil }
        var end: ProcessEnd?
        var cannotStart: StackFailure?
        var ignoresTermination = false
        private var questions = 0

        init(_ name: String, stage: Int, _ journal: Journal) {
            self.name = name
            self.stage = stage
            self.journal = journal
        }

        func start() throws(StackFailure) {
            journal.lines.append("start \(name)")
            if let cannotStart { throw cannotStart }
            end = nil
            questions = 0
        }

        func poll() -> ProcessEnd? { end }

        func isReady() -> Bool {
            questions += 1
            return questions > 1
        }

        func terminate() {
            journal.lines.append("terminate \(name)")
            if !ignoresTermination { end = .exited(0) }
        }

        func kill() {
            journal.lines.append("kill \(name)")
            end = .signalled(9)
        }
    }

    private struct TooLong: Error {}

    private func patience() -> () throws -> Void {
        let deadline = monotonicSeconds() + 20
        return { if monotonicSeconds() > deadline { throw TooLong() } }
    }

    @Test func `parts stop stage by stage, the last one first`() throws {
        let journal = Journal()
        let supervisor = Supervisor { _ in }
        try supervisor.start(
            [FakePart("broker", stage: 0, journal), FakePart("postgres", stage: 0, journal)],
            pause: patience()
        )
        try supervisor.start(
            [FakePart("worker", stage: 1, journal), FakePart("ingest", stage: 2, journal)],
            pause: patience()
        )
        supervisor.stopAll(isHurried: { false }, pause: {})
        #expect(
            journal.lines == [
                "start broker", "start postgres", "start worker", "start ingest", "terminate ingest",
                "terminate worker", "terminate broker", "terminate postgres",
            ]
        )
    }

    @Test func `a crash is said and the part starts again`() throws {
        let journal = Journal()
        let said = Journal()
        var policy = SupervisionPolicy()
        policy.firstBackOff = 0.01
        let supervisor = Supervisor(policy: policy) { event in
            if case .crashed(let part, let how, _, _) = event { said.lines.append("\(part) \(how)") }
        }
        let part = FakePart("worker", stage: 0, journal)
        let pause = patience()
        try supervisor.start([part], pause: pause)
        part.end = .signalled(9)
        while journal.lines.count < 2 {
            supervisor.step()
            try pause()
        }
        #expect(journal.lines == ["start worker", "start worker"])
        #expect(said.lines == ["worker was killed (signal 9)"])
        supervisor.stopAll(isHurried: { false }, pause: {})
    }

    @Test func `a part that can't start fails the start with its own words`() {
        let journal = Journal()
        let part = FakePart("ingest", stage: 0, journal)
        part.cannotStart = StackFailure(.cannotStart, "there is no program", next: "Build it.")
        let failure = #expect(throws: StackFailure.self) {
            try Supervisor { _ in }.start([part], pause: patience())
        }
        #expect(failure == part.cannotStart)
    }

    @Test func `a part that ends before it is ready fails the start and names the log`() {
        let part = FakePart("ingest", stage: 0, Journal())
        let supervisor = Supervisor { _ in }
        let failure = #expect(throws: StackFailure.self) {
            try supervisor.start([part]) { part.end = .exited(78) }
        }
        #expect(failure?.message.contains("ended with status 78 before it was ready") == true)
        #expect(failure?.nextStep.contains("/dev/null") == true)
    }

    @Test func `who is in a hurry ends the grace period`() throws {
        let journal = Journal()
        let supervisor = Supervisor { _ in }
        let part = FakePart("worker", stage: 0, journal)
        part.ignoresTermination = true
        try supervisor.start([part], pause: patience())
        supervisor.stopAll(isHurried: { true }, pause: {})
        #expect(journal.lines == ["start worker", "terminate worker", "kill worker"])
    }
}

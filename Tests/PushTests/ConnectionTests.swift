import Domain
import HTTP2
import PushStandIn
import ServiceRuntime
import Testing

@testable import Push

/// What connections do to requests: D10, a push that may have reached the server is never sent again.
@Suite struct ConnectionTests {
    private typealias Reply = StandInScript.Reply

    /// Case W12.
    @Test(arguments: [StandInScript.Reply.Action.close, .reset])
    func `a connection that breaks after a push was written makes it unknown, and it is not sent again`(
        action: StandInScript.Reply.Action
    ) throws {
        let scene = try Scene(StandInScript(others: [Reply(), Reply(action), Reply()]))
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.outcome(2) == .unknown)
        #expect(PushOutcome.unknown.countsForSpacing && !PushOutcome.unknown.expectsAnswer)
        #expect(scene.outcome(3) == .accepted)
        #expect(scene.standIn.received.map(\.token) == [1, 2, 3].map(Scene.token))
    }

    @Test func `an answer that was written before the connection closed counts`() throws {
        // A third would be sent before the close is seen or after it: whether it may have arrived is nobody's to know.
        let scene = try Scene(StandInScript(others: [Reply(), Reply(.answerAndClose)]))
        for id in 1...2 { #expect(scene.outcome(id) == .accepted) }
        #expect(scene.standIn.received.count == 2)
    }

    @Test func `REFUSED_STREAM is tried again, twice, and then is not spent`() throws {
        let scene = try Scene(StandInScript(others: [Reply(.refuse), Reply(.refuse), Reply()]))
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.standIn.received.count == 3)
        scene.standIn.use(StandInScript(others: [Reply(.refuse)]))
        #expect(scene.outcome(2) == .refused(retryAfter: nil))
        #expect(scene.standIn.received.count == 6)
    }

    @Test func `above GOAWAY's last stream is sent again on a fresh connection; below it is not`() throws {
        let scene = try Scene(StandInScript(others: [Reply(), Reply(.goAwayBefore), Reply()]))
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.outcome(2) == .accepted)
        #expect(scene.pushConnections == 2)
        // The stand-in saw it twice: its own word is that the first time did not count.
        #expect(scene.standIn.received.map(\.token) == [1, 2, 2].map(Scene.token))
        let polite = try Scene(StandInScript(others: [Reply(), Reply(.goAwayAfter), Reply()]))
        for id in 1...3 { #expect(polite.outcome(id) == .accepted) }
        #expect(polite.pushConnections == 2)
        #expect(polite.standIn.received.map(\.token) == [1, 2, 3].map(Scene.token))
    }

    @Test func `a GOAWAY in the middle of a burst loses nothing and doubles nothing that was processed`() throws {
        // 50 wait; then the last of the gate brings a GOAWAY that names the one before it, and the rest is answered.
        let gate = Reply().with {
            $0.gate = 50
            $0.times = 49
        }
        let leaving = Reply(.goAwayBefore).with { $0.gate = 50 }
        let scene = try Scene(StandInScript(others: [Reply(), gate, leaving, Reply()]))
        #expect(scene.outcome(1) == .accepted)
        for id in 2...300 { #expect(scene.send(id)) }
        #expect(scene.collector.wait(ended: 300))
        let outcomes = scene.collector.outcomes
        #expect(outcomes.count == 300)
        #expect(outcomes.values.allSatisfy { $0.count == 1 })
        for (id, outcome) in outcomes { #expect(outcome == [.accepted], "request \(id)") }
        let answered = scene.standIn.received.filter { $0.status == 200 && $0.connection == 1 }.map(\.token)
        #expect(Set(answered).count == answered.count)
    }

    @Test func `one request goes first until one succeeds, then the burst`() throws {
        let gate = Reply().with {
            $0.gate = 40
            $0.times = 40
        }
        // Two tokens that are refused don't open the burst, the third does. Only then can 40 wait at once.
        let first = [Reply(429), Reply(410, "Unregistered").with { $0.timestamp = 5 }, Reply()]
        let scene = try Scene(StandInScript(others: first + [gate, Reply()]))
        for id in 1...60 { #expect(scene.send(id)) }
        #expect(scene.collector.wait(ended: 60))
        let streams = scene.standIn.received.prefix(3).map(\.stream)
        #expect(streams == [1, 3, 5])
        #expect(scene.collector.outcomes.values.count { $0 == [.accepted] } == 58)
    }

    @Test func `no more streams are opened than the server allows`() throws {
        var options = PushStandIn.Options()
        options.mostStreams = 5
        // If a sixth came, the gate of six would open; the server itself would refuse it.
        let gate = Reply().with {
            $0.gate = 5
            $0.times = 1_000_000
        }
        let scene = try Scene(StandInScript(others: [Reply(), gate]), options: options)
        #expect(scene.outcome(1) == .accepted)
        for id in 2...101 { #expect(scene.send(id)) }
        #expect(scene.collector.wait(ended: 101))
        #expect(scene.standIn.received.count == 101)
        #expect(scene.collector.outcomes.values.allSatisfy { $0 == [.accepted] })
    }

    @Test func `an answer that does not come makes the outcome unknown`() throws {
        let scene = try Scene(StandInScript(others: [Reply(), Reply(.silence), Reply()])) { configuration, _ in
            configuration.answerMilliseconds = 200
        }
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.outcome(2) == .unknown)
        #expect(scene.outcome(3) == .accepted)
        #expect(scene.standIn.received.count == 3)
    }

    @Test func `a quiet connection is pinged; one that does not even answer that is dead`() {
        var machine = KeepAlive(idle: 100, busy: 50, answer: 10, now: 0)
        #expect(machine.check(now: 99, isBusy: false) == .nothing)
        #expect(machine.due(isBusy: true) == 50 && machine.due(isBusy: false) == 100)
        #expect(machine.check(now: 100, isBusy: false) == .ping)
        #expect(machine.check(now: 109, isBusy: false) == .nothing)
        var answered = machine
        answered.hear(now: 109)
        #expect(answered.check(now: 110, isBusy: false) == .nothing)
        #expect(machine.check(now: 110, isBusy: false) == .dead)
    }

    @Test func `a server that stops to answer pings is left, and what it had is unknown`() throws {
        let time = PhaseTime(speed: 50)
        let scene = try Scene(time: time)
        #expect(scene.outcome(1) == .accepted)
        // Its sockets stay open and say nothing, as a frozen peer's do.
        scene.standIn.freeze()
        #expect(scene.outcome(2) == .unknown)
    }

    @Test func `mayStillSend is asked before each try, also before a retry`() throws {
        let collector = Collector { request, before in request.id != 2 && !(request.id == 3 && before == 1) }
        let time = PhaseTime(speed: 50)
        let script = StandInScript(others: [Reply()], tokens: [Scene.token(3): [Reply(503)]])
        let scene = try Scene(script, collector: collector, time: time)
        #expect(scene.outcome(1) == .accepted)
        #expect(scene.outcome(2) == .notSent(.leaseEnded))
        #expect(scene.outcome(3) == .notSent(.leaseEnded))
        #expect(scene.standIn.received.map(\.token) == [1, 3].map(Scene.token))
    }

    @Test func `a server that can't be reached costs three tries, and nothing is spent`() throws {
        let time = PhaseTime(speed: 50)
        let scene = try Scene(time: time) { configuration, standIn in
            // Nobody listens on the port of a stand-in that is gone.
            let folder = try Folder()
            let gone = try PushStandIn(folder: folder.path)
            let port = gone.port
            gone.stop()
            configuration.apns?.production = .init(host: "localhost", port: port)
        }
        guard case .refused(let wait?)? = scene.outcome(1) else {
            Issue.record("not refused")
            return
        }
        #expect(wait > .zero)
        #expect(scene.collector.wait(alarms: 1))
        #expect(scene.collector.alarms.first?.code == .unreachable)
        #expect(scene.collector.alarms.first?.stops == false)
    }

    @Test func `a request beyond the bound is not taken`() throws {
        let scene = try Scene(StandInScript(others: [Reply(), Reply(.silence)])) { configuration, _ in
            configuration.mostUnderWay = 10
            configuration.drainMilliseconds = 50
        }
        #expect(scene.outcome(1) == .accepted)
        for id in 2...11 { #expect(scene.send(id)) }
        #expect(!scene.send(12) && !scene.send(13))
        #expect(scene.sender.underWay == 10)
    }

    @Test func `only so many requests are taken, and there is room again once they have ended`() throws {
        let gate = Reply().with {
            $0.gate = 9
            $0.times = 9
        }
        let scene = try Scene(StandInScript(others: [Reply(), gate, Reply()])) { configuration, _ in
            configuration.mostUnderWay = 10
        }
        #expect(scene.outcome(1) == .accepted)
        // Nine wait at the gate; no more than one further can be taken meanwhile.
        var taken = 0
        for id in 2...9 where scene.send(id) { taken += 1 }
        #expect(taken == 8 && scene.standIn.wait(forRequests: 9))
        #expect(scene.send(10) && scene.sender.underWay <= 10)
        #expect(scene.collector.wait(ended: 10))
        #expect(scene.outcome(100) == .accepted)
    }

    @Test func `a stop ends everything: what is answered in time counts, what is not is unknown`() throws {
        let scene = try Scene(StandInScript(others: [Reply(), Reply(.silence)])) { configuration, _ in
            configuration.drainMilliseconds = 100
            configuration.mostStreams = 2
        }
        #expect(scene.outcome(1) == .accepted)
        for id in 2...10 { scene.send(id) }
        #expect(scene.standIn.wait(forRequests: 3))
        scene.sender.beginStop()
        #expect(scene.sender.waitStopped(until: .after(milliseconds: 10_000)))
        #expect(scene.sender.underWay == 0)
        let ends = scene.collector.outcomes.filter { $0.key > 1 }.values
        #expect(ends.count { $0 == [.unknown] } == 2)
        #expect(ends.count { $0 == [.notSent(.shuttingDown)] } == 7)
        #expect(scene.outcome(20) == .notSent(.shuttingDown))
    }
}

import Testing

@testable import HTTPServer

struct ConnectionStateMachineTests {
    @Test
    func `a kept connection goes round, and a closing one lingers`() {
        var machine = ConnectionStateMachine()
        machine.open()
        machine.handOver(keepsAlive: true)
        #expect(machine.beginAnswer() == true)
        #expect(machine.finishAnswer() == .readNext && machine.state == .reading)
        machine.handOver(keepsAlive: false)
        #expect(machine.beginAnswer() == true)
        #expect(machine.finishAnswer() == .linger && machine.state == .lingering)
        #expect(machine.leave() == .close && machine.leave() == .nothing)
        machine.open()
        #expect(!machine.closesAfterAnswer)
    }

    @Test
    func `a refusal is not an answer that was waited for`() {
        var machine = ConnectionStateMachine()
        machine.open()
        machine.closeAfterAnswer()
        #expect(machine.beginAnswer() == false)
        #expect(machine.finishAnswer() == .linger)
    }

    @Test
    func `only a waiting exchange is abandoned, and only there a closed sending side ends the connection`() {
        var machine = ConnectionStateMachine()
        #expect(machine.event(isWritable: true, peerIsDone: true) == .nothing)
        machine.open()
        #expect(machine.event(isWritable: true, peerIsDone: true) == .pump)
        machine.handOver(keepsAlive: true)
        #expect(machine.event(isWritable: true, peerIsDone: false) == .nothing)
        #expect(machine.event(isWritable: true, peerIsDone: true) == .leave)
        #expect(machine.leave() == .closeAndAbandon)
    }

    @Test
    func `what a passed deadline means depends on where the connection stands`() {
        var machine = ConnectionStateMachine()
        #expect(machine.deadlinePassed(hasBytes: false) == .nothing)
        machine.open()
        #expect(machine.deadlinePassed(hasBytes: false) == .leaveIdle)
        #expect(machine.deadlinePassed(hasBytes: true) == .refuse)
        machine.handOver(keepsAlive: false)
        #expect(machine.deadlinePassed(hasBytes: true) == .expire)
        _ = machine.beginAnswer()
        #expect(machine.deadlinePassed(hasBytes: true) == .leaveSlowReader)
        _ = machine.finishAnswer()
        #expect(machine.deadlinePassed(hasBytes: false) == .leaveDone)
    }
}

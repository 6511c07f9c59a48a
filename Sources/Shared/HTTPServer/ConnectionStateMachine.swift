/// Where a connection stands between two requests, without sockets or time: the loop performs what it answers.
struct ConnectionStateMachine {
    enum State {
        case closed
        /// A request is arriving, or none is there.
        case reading
        /// The handler has the request; the socket isn't read.
        case waiting
        /// An answer is on its way; the socket isn't read.
        case writing
        /// All is said; what still comes is thrown away until the client closes.
        case lingering
    }

    enum EventAction { case nothing, pump, flush, discard, leave }
    enum AnsweredAction { case readNext, linger }
    enum LeaveAction { case nothing, close, closeAndAbandon }
    enum DeadlineAction { case nothing, leaveIdle, refuse, expire, leaveSlowReader, leaveDone }

    private(set) var state = State.closed
    private(set) var closesAfterAnswer = false

    mutating func open() {
        state = .reading
        closesAfterAnswer = false
    }

    /// A whole request goes to the handler.
    mutating func handOver(keepsAlive: Bool) {
        state = .waiting
        closesAfterAnswer = !keepsAlive
    }

    mutating func closeAfterAnswer() {
        closesAfterAnswer = true
    }

    /// An answer, or a refusal of what is arriving, goes out. True if a handler's request was waiting for it.
    mutating func beginAnswer() -> Bool {
        defer { state = .writing }
        return state == .waiting
    }

    mutating func finishAnswer() -> AnsweredAction {
        state = closesAfterAnswer ? .lingering : .reading
        return closesAfterAnswer ? .linger : .readNext
    }

    mutating func leave() -> LeaveAction {
        defer { state = .closed }
        switch state {
        case .closed: return .nothing
        case .waiting: return .closeAndAbandon
        case .reading, .writing, .lingering: return .close
        }
    }

    /// The kernel reported something. A client that closes its sending side while it waits counts as gone.
    func event(isWritable: Bool, peerIsDone: Bool) -> EventAction {
        switch state {
        case .closed: .nothing
        case .reading: .pump
        case .waiting: peerIsDone ? .leave : .nothing
        case .writing: isWritable ? .flush : .nothing
        case .lingering: .discard
        }
    }

    func deadlinePassed(hasBytes: Bool) -> DeadlineAction {
        switch state {
        case .closed: .nothing
        case .reading: hasBytes ? .refuse : .leaveIdle
        case .waiting: .expire
        case .writing: .leaveSlowReader
        case .lingering: .leaveDone
        }
    }
}

/// One connection to a push server, seen from who sends: first one request until one succeeds, then the burst.
struct ConnectionStateMachine: Hashable, Sendable {
    enum State: Hashable, Sendable {
        case connecting
        /// Open; one request at a time, since nothing proves yet that host, credential and topic are right.
        case probing
        case burst
        /// Takes no more requests; answers still come.
        case draining
        case closed
    }

    private(set) var state: State = .connecting
    /// Whether any answer came: the network and the server work.
    private(set) var isProven = false

    mutating func opened() {
        if state == .connecting { state = .probing }
    }

    mutating func answered(isSuccess: Bool) {
        isProven = true
        if state == .probing, isSuccess { state = .burst }
    }

    /// The server (GOAWAY, Shutdown) or we want no further requests on it. True if that is news.
    mutating func drain() -> Bool {
        switch state {
        case .connecting, .probing, .burst:
            state = .draining
            return true
        case .draining, .closed: return false
        }
    }

    mutating func closed() {
        state = .closed
    }

    /// Whether requests go here, now or soon.
    var isCurrent: Bool {
        switch state {
        case .connecting, .probing, .burst: true
        case .draining, .closed: false
        }
    }

    /// How many requests may be submitted now.
    ///
    /// - Parameters:
    ///   - limit: the most streams at once.
    ///   - inFlight: streams under way.
    /// - Returns: zero where none.
    func room(limit: Int, inFlight: Int) -> Int {
        switch state {
        case .probing: max(0, min(1, limit) - inFlight)
        case .burst: max(0, limit - inFlight)
        case .connecting, .draining, .closed: 0
        }
    }
}

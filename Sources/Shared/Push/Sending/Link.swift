import HTTP2

/// A request that is being tried.
struct Try {
    var request: PushRequest
    var attempts = Attempts()
    /// Monotonic; for those that wait.
    var notBefore: Int64 = .min
    /// When it was last submitted, on the wall clock.
    var sentAt: Int64 = 0
    var credential: Credential?
    /// Set once it is checked.
    var topic: LaneTopic?
}

/// A connection with what a lane knows of it. One thread's.
final class Link {
    let connection: ClientConnection
    var machine = ConnectionStateMachine()
    /// By the number of their stream.
    var flights: [Try?] = []
    var keepAlive: KeepAlive
    /// By when it has to be open.
    let openBy: Int64
    /// To be closed once the loop is back: nothing is closed from inside a report.
    var closing: HTTP2Failure?
    /// When it is looked for answers that are late: once a second.
    var nextLook: Int64 = .min

    init(_ connection: ClientConnection, keepAlive: KeepAlive, openBy: Int64) {
        self.connection = connection
        self.keepAlive = keepAlive
        self.openBy = openBy
    }

    func depart(_ flight: Try, stream: Int) {
        while flights.count <= stream { flights.append(nil) }
        flights[stream] = flight
    }

    func arrive(stream: Int) -> Try? {
        guard flights.indices.contains(stream) else { return nil }
        defer { flights[stream] = nil }
        return flights[stream]
    }
}

/// Sends silent pushes: what a worker holds, so that its tests can hold a fake.
public protocol PushSending: AnyObject, Sendable {
    /// Takes a request, unless as many are under way as may be. Never blocks; any thread may call it.
    ///
    /// - Parameter request: whose outcome goes to the delegate, exactly once, if it was taken.
    /// - Returns: false if there is no room: try again once outcomes have come.
    func send(_ request: PushRequest) -> Bool

    /// Requests taken and not yet ended.
    var underWay: Int { get }

    /// The lanes and topics where nothing is sent, and why.
    var stops: [PushAlarm] { get }

    /// Forgets all stops, as an operator orders once the cause is away.
    func resume()
}

/// Hears of outcomes. Called on a sender's threads, several at a time: must not block, nor call back into the sender
/// but for `send`.
public protocol PushSenderDelegate: AnyObject, Sendable {
    /// Asked right before each try, retries too: whether the lease still holds by a clock that also runs while the
    /// process is frozen (`CLOCK_BOOTTIME`). After false the request ends as `.notSent(.leaseEnded)`.
    func mayStillSend(_ request: PushRequest) -> Bool

    /// The one end of a request.
    func ended(_ request: PushRequest, _ outcome: PushOutcome)

    /// Held deactivations that turned out to be the tokens' fault: apply them. Those never named here are not applied.
    func release(_ deactivations: [PushDeactivation])

    /// Something for a person; at most once for each stop, and once a minute for what does not stop.
    func raise(_ alarm: PushAlarm)
}

internal import Domain
internal import Observability
internal import Push
internal import ServiceRuntime
internal import Storage
internal import Synchronization
internal import WakeRules

/// Between the thread that claims and the threads that send: hands claims to the sender, and collects how they ended.
final class WakeDispatcher: PushSenderDelegate {
    fileprivate struct Sent {
        let claim: Int
        let token: WakeToken
        let deadline: Int64
    }

    fileprivate struct State {
        var nextID: UInt64 = 1
        var tallies: [Int: WakeTally] = [:]
        var nextClaim = 0
        var waiting: [PushRequest] = []
        var sent: [UInt64: Sent] = [:]
        /// Tokens whose deactivation the breaker holds, by request; the oldest are forgotten first.
        var held: [UInt64: WakeToken] = [:]
        var heldOrder: [UInt64] = []
        var finished: [WakeTally] = []
        var released: [(token: WakeToken, asOf: Instant)] = []
        var alarms: [PushAlarm] = []
    }

    private let time: any TimeSource
    private let metrics: WakeMetrics
    private let state = Mutex(State())
    /// Of the held deactivations that are remembered.
    private static let mostHeld = 10_000

    init(time: any TimeSource, metrics: WakeMetrics) {
        self.time = time
        self.metrics = metrics
    }

    /// Claims whose end has not been collected.
    var underWay: Int { state.withLock { $0.tallies.count + $0.finished.count } }

    /// Takes claims to be sent.
    ///
    /// - Parameters:
    ///   - claims: committed ones.
    ///   - deadline: on the clock that also runs while the process is frozen, in nanoseconds; nothing is sent later.
    ///   - expiration: when a push server may give up trying to reach a phone.
    func take(_ claims: [WakeClaim], deadline: Int64, expiration: Instant) {
        state.withLock { state in
            for claim in claims {
                let number = state.nextClaim
                state.nextClaim += 1
                state.tallies[number] = WakeTally(claim)
                for token in claim.tokens {
                    let id = state.nextID
                    state.nextID += 1
                    state.sent[id] = Sent(claim: number, token: token, deadline: deadline)
                    state.waiting.append(
                        PushRequest(
                            id: id,
                            token: PushToken(token.registration.token),
                            lane: PushLane(rawValue: token.lane) ?? .production,
                            appID: token.registration.appID,
                            expiration: expiration
                        )
                    )
                }
            }
        }
    }

    /// Hands over what the sender has room for. Returns whether something is left.
    func handOver(to sender: any PushSending) -> Bool {
        let waiting = state.withLock { state in
            let waiting = state.waiting
            state.waiting = []
            return waiting
        }
        guard !waiting.isEmpty else { return false }
        var taken = 0
        for request in waiting {
            guard sender.send(request) else { break }
            taken += 1
        }
        let left = waiting.dropFirst(taken)
        guard !left.isEmpty else { return false }
        state.withLock { $0.waiting.insert(contentsOf: left, at: 0) }
        return true
    }

    /// Gives up what no sender has taken yet: certainly not sent.
    func dropWaiting() {
        let waiting = state.withLock { state in
            let waiting = state.waiting
            state.waiting = []
            return waiting
        }
        for request in waiting { ended(request, .notSent(.shuttingDown)) }
    }

    /// The claims that have ended since the last call.
    func collect() -> (finished: [WakeTally], released: [(token: WakeToken, asOf: Instant)], alarms: [PushAlarm]) {
        state.withLock { state in
            defer {
                state.finished = []
                state.released = []
                state.alarms = []
            }
            return (state.finished, state.released, state.alarms)
        }
    }

    // MARK: The sender's threads

    func mayStillSend(_ request: PushRequest) -> Bool {
        let deadline = state.withLock { $0.sent[request.id]?.deadline }
        return deadline.map { time.bootNanoseconds() < $0 } ?? false
    }

    func ended(_ request: PushRequest, _ outcome: PushOutcome) {
        metrics.sent(request.lane.rawValue, outcome.code)
        state.withLock { state in
            guard let sent = state.sent.removeValue(forKey: request.id) else { return }
            if case .held = outcome { state.hold(request.id, sent.token, most: Self.mostHeld) }
            guard state.tallies[sent.claim]?.take(outcome, of: sent.token) == true,
                let tally = state.tallies.removeValue(forKey: sent.claim)
            else { return }
            state.finished.append(tally)
        }
    }

    func release(_ deactivations: [PushDeactivation]) {
        state.withLock { state in
            for deactivation in deactivations {
                // The outcome may come after the release.
                let token = state.held.removeValue(forKey: deactivation.id) ?? state.sent[deactivation.id]?.token
                if let token { state.released.append((token, deactivation.asOf)) }
            }
        }
    }

    func raise(_ alarm: PushAlarm) {
        state.withLock { $0.alarms.append(alarm) }
    }
}

extension WakeDispatcher.State {
    fileprivate mutating func hold(_ id: UInt64, _ token: WakeToken, most: Int) {
        held[id] = token
        heldOrder.append(id)
        guard heldOrder.count > most else { return }
        for old in heldOrder.prefix(heldOrder.count - most / 2) { held[old] = nil }
        heldOrder.removeFirst(heldOrder.count - most / 2)
    }
}

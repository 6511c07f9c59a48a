import HTTP2
import ServiceRuntime
import Synchronization

extension LaneLoop {
    /// Makes a connection, if there is none and the time for it has come.
    func connectIfNeeded() {
        guard current == nil, !isResolving, reconnect.mayConnect(now: now) else { return }
        if !candidates.isEmpty { return connectNext() }
        isResolving = true
        let inbox = inbox
        context.resolver.ask(context.configuration.proxy?.endpoint ?? endpoint) { inbox.put($0) }
    }

    func resolved(_ result: Result<[Address], HTTP2Failure>) {
        isResolving = false
        switch result {
        case .success(let addresses):
            candidates = addresses
            connectNext()
        case .failure(let failure): connectionFailed(failure)
        }
    }

    private func connectNext() {
        guard current == nil, !candidates.isEmpty else { return }
        var target = ClientConnection.Target(
            host: endpoint.host,
            port: endpoint.port,
            address: candidates.removeFirst()
        )
        if let proxy = context.configuration.proxy {
            target.usesProxy = true
            target.proxyAuthorization = proxy.authorization
        }
        do throws(HTTP2Failure) {
            let connection = try ClientConnection(target, context.tls, handler: self)
            let keepAlive = KeepAlive(
                idle: Int64(context.configuration.pingMilliseconds) * 1_000_000,
                busy: Self.busyQuietNanoseconds,
                answer: Self.pingAnswerNanoseconds,
                now: now
            )
            links.append(Link(connection, keepAlive: keepAlive, openBy: now + Self.connectNanoseconds))
            context.counters.reconnects.add(1, ordering: .relaxed)
        } catch {
            if candidates.isEmpty { connectionFailed(error) } else { connectNext() }
        }
    }

    /// No connection came about: what waits was certainly not processed, and is tried on the next connection, twice.
    private func connectionFailed(_ failure: HTTP2Failure) {
        candidates = []
        reconnect.failed(now: now, using: &generator)
        let isCertain = failure.code == .untrusted || failure.code == .noHTTP2 || failure.code == .proxyRefused
        if isCertain || reconnect.failures > 1 {
            context.warn(PushAlarm(.unreachable, lane: lane, stops: false, detail: failure.description))
        }
        let wait = Duration.nanoseconds(max(0, reconnect.notBefore - now))
        let (context, policy) = (context, policy)
        pending.mapAll { entry in
            guard case .end = policy.afterLoss(&entry.attempts) else { return true }
            context.end(entry.request, .refused(retryAfter: wait))
            return false
        }
    }

    // MARK: - What connections report

    func opened(_ connection: ClientConnection) {
        candidates = []
        link(of: connection)?.machine.opened()
        link(of: connection)?.keepAlive.hear(now: now)
    }

    func goesAway(_ connection: ClientConnection) {
        guard let link = link(of: connection) else { return }
        leave(link)
    }

    /// No further requests there; one that never answered anything counts as a failed connection.
    func leave(_ link: Link) {
        guard link.machine.drain(), !link.machine.isProven else { return }
        reconnect.failed(now: now, using: &generator)
    }

    func closed(_ connection: ClientConnection, _ failure: HTTP2Failure) {
        guard let link = link(of: connection) else { return }
        let state = link.machine.state
        let isProven = link.machine.isProven
        link.machine.closed()
        switch state {
        case .connecting:
            // The next address of the same host, before it counts.
            let mayTryNext = failure.code == .unreachable || failure.code == .timeout
            if mayTryNext, !candidates.isEmpty { return }
            connectionFailed(failure)
        case .probing, .burst: if !isProven { connectionFailed(failure) }
        case .draining, .closed: break
        }
    }

    func ended(_ connection: ClientConnection, stream: Int, _ end: StreamEnd) {
        guard let link = link(of: connection), let flight = link.arrive(stream: stream) else { return }
        switch end {
        case .answered(let answer): answered(flight, link, answer)
        case .unprocessed: again(flight) { policy, attempts in policy.afterLoss(&attempts) }
        case .lost: context.end(flight.request, .unknown)
        }
    }

    /// Tries it again, or ends it as refused.
    func again(_ flight: Try, _ decide: (RetryPolicy, inout Attempts) -> RetryPolicy.Next) {
        var flight = flight
        switch decide(policy, &flight.attempts) {
        case .end(let retryAfter): context.end(flight.request, .refused(retryAfter: retryAfter))
        case .again(let wait):
            guard wait > .zero else { return pending.append(flight) }
            let (time, overflow) = now.addingReportingOverflow(wait.clampedNanoseconds)
            flight.notBefore = overflow ? .max : time
            delayed.append(flight)
        }
    }
}

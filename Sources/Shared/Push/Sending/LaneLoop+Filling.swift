import Domain
import HTTP2
import ServiceRuntime
import Synchronization

extension LaneLoop {
    /// Submits what may be sent now.
    func fill() {
        guard !pending.isEmpty else { return }
        if let code = stopped[""] { return endPending(.notSent(.stopped(code))) }
        guard let credential = credential() else { return }
        guard mayGoOn() else { return }
        guard let link = current else { return connectIfNeeded() }
        guard link.connection.isOpen else { return }
        let limit = min(link.connection.streamLimit, context.configuration.mostStreams)
        let sentAt = context.time.wallMicroseconds()
        while !pending.isEmpty, link.machine.room(limit: limit, inFlight: link.connection.openStreams) > 0 {
            guard var entry = pending.popFirst() else { return }
            guard let topic = check(entry) else { continue }
            entry.sentAt = sentAt
            entry.credential = credential
            entry.topic = topic
            guard let stream = submit(entry.request, topic, credential, link) else {
                // Its stream numbers are used up, or the server is about to leave.
                pending.append(entry)
                leave(link)
                return
            }
            context.counters.tries.add(1, ordering: .relaxed)
            link.depart(entry, stream: stream)
        }
    }

    /// Nil: nothing can be sent now; what waits has ended or waits on.
    private func credential() -> Credential? {
        switch context.keeper.current(lane) {
        case .ready(let credential): return credential
        case .pending: return nil
        case .paused(let end):
            guard end > context.wallTime else {
                context.keeper.ask()
                return nil
            }
            endPending(.notSent(.credentialPaused(until: end)))
        case .unavailable(let code):
            if code == .noCredential {
                context.warn(PushAlarm(code, lane: lane, stops: false))
                endPending(.notSent(.noCredential))
            } else {
                context.stop(PushAlarm(code, lane: lane, stops: true))
                endPending(.notSent(.stopped(code)))
            }
        case .notConfigured: endPending(.notSent(.notConfigured))
        }
        return nil
    }

    /// False while the server wants quiet. Where that is long, what waits ends.
    private func mayGoOn() -> Bool {
        guard holdUntil > now else { return true }
        let left = Duration.nanoseconds(holdUntil - now)
        if left > policy.longestWait { endPending(.refused(retryAfter: left)) }
        return false
    }

    /// The topic of a request that may be sent; else the request has ended.
    private func check(_ entry: Try) -> LaneTopic? {
        let request = entry.request
        let topic = entry.topic ?? topic(request)
        guard topic.isUsable else { return end(request, .notSent(.notConfigured)) }
        let token = request.token.text
        let isToken = lane == .fcm ? RequestText.isFCMToken(token) : RequestText.isAPNsToken(token)
        guard isToken else { return end(request, .notSent(.malformedToken)) }
        if let code = stopped[topic.name] { return end(request, .notSent(.stopped(code))) }
        guard context.delegate.mayStillSend(request) else { return end(request, .notSent(.leaseEnded)) }
        return topic
    }

    private func end(_ request: PushRequest, _ outcome: PushOutcome) -> LaneTopic? {
        context.end(request, outcome)
        return nil
    }

    private func submit(
        _ request: PushRequest,
        _ topic: LaneTopic,
        _ credential: Credential,
        _ link: Link
    ) -> Int? {
        let (endpoint, project) = (endpoint, context.project ?? "")
        guard lane == .fcm else {
            let expiration = max(0, request.expiration.microseconds / 1_000_000)
            let headers = topic.headers(credential, expiration: expiration) {
                RequestText.apnsHeaders(
                    authority: RequestText.authority(endpoint),
                    topic: topic.name,
                    expiration: expiration,
                    authorization: credential.authorization
                )
            }
            RequestText.apnsPath(request.token, into: &path)
            return link.connection.submit(headers, value: path, body: apnsBody, now: now)
        }
        let headers = topic.headers(credential, expiration: 0) {
            RequestText.fcmHeaders(
                authority: RequestText.authority(endpoint),
                project: project,
                authorization: credential.authorization
            )
        }
        let body = HTTP2Body(RequestText.fcmBody(request, now: context.wallTime))
        return link.connection.submit(headers, value: [], body: body, now: now)
    }
}

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
        while !pending.isEmpty, link.machine.room(limit: limit, inFlight: link.connection.openStreams) > 0 {
            guard var entry = pending.popFirst() else { return }
            guard let topic = check(entry) else { continue }
            entry.sentAt = context.time.wallMicroseconds()
            entry.credential = credential
            guard let stream = submit(entry, topic, credential, link) else {
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
    private func check(_ entry: Try) -> String? {
        let request = entry.request
        var topic = request.appID
        if let apns = context.configuration.apns, lane != .fcm {
            if topic.isEmpty { topic = apns.defaultTopic }
            guard RequestText.isTopic(topic), topic == apns.defaultTopic || isAllowed(topic, apns.topics) else {
                return end(request, .notSent(.notConfigured))
            }
            guard RequestText.isAPNsToken(request.token.text) else { return end(request, .notSent(.malformedToken)) }
        } else {
            guard RequestText.isFCMToken(request.token.text) else { return end(request, .notSent(.malformedToken)) }
        }
        if let code = stopped[topic] { return end(request, .notSent(.stopped(code))) }
        guard context.delegate.mayStillSend(request) else { return end(request, .notSent(.leaseEnded)) }
        return topic
    }

    private func isAllowed(_ topic: String, _ topics: Set<String>) -> Bool {
        topics.isEmpty || topics.contains(topic)
    }

    private func end(_ request: PushRequest, _ outcome: PushOutcome) -> String? {
        context.end(request, outcome)
        return nil
    }

    private func submit(_ entry: Try, _ topic: String, _ credential: Credential, _ link: Link) -> Int? {
        let headers = headers(topic, credential)
        guard lane == .fcm else {
            let lengths = RequestText.apnsValues(entry.request, into: &values)
            return link.connection.submit(headers, values: values, lengths: lengths, body: apnsBody, now: now)
        }
        let body = HTTP2Body(RequestText.fcmBody(entry.request, now: context.wallTime))
        return link.connection.submit(headers, values: [], lengths: (0, 0), body: body, now: now)
    }

    /// The headers that requests of a topic share, made anew for each credential.
    private func headers(_ topic: String, _ credential: Credential) -> RequestHeaders {
        let name = lane == .fcm ? "" : topic
        if let known = templates[name], known.generation == credential.generation { return known.headers }
        // Topics come from clients where none are configured.
        if templates.count >= 1000 { templates = [:] }
        let authority = RequestText.authority(endpoint)
        let fields =
            lane == .fcm
            ? RequestText.fcmHeaders(
                authority: authority,
                project: context.project ?? "",
                authorization: credential.authorization
            )
            : RequestText.apnsHeaders(
                authority: authority,
                topic: topic,
                authorization: credential.authorization
            )
        let headers = RequestHeaders(fields)
        templates[name] = (credential.generation, headers)
        return headers
    }
}

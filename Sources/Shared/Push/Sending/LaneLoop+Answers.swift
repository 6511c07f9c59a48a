import Domain
import HTTP2
import ServiceRuntime

extension LaneLoop {
    /// Does what the reply table says.
    func answered(_ flight: Try, _ link: Link, _ answer: HTTP2Answer) {
        let verdict = verdict(answer)
        link.machine.answered(isSuccess: verdict == .accepted)
        reconnect.worked()
        let request = flight.request
        switch verdict {
        case .accepted:
            count(flight, bad: nil)
            context.end(request, .accepted)
        case .enoughForNow:
            count(flight, bad: nil)
            context.end(request, .waitsForSpacing)
        case .dead(let reason, let asOf):
            count(flight, bad: nil)
            // Never beyond the present: a later registration must not die of it.
            let limit = Instant(microseconds: asOf == nil ? flight.sentAt : context.time.wallMicroseconds())
            context.end(request, .deactivate(reason, asOf: min(asOf ?? limit, limit)))
        case .suspect(let reason):
            context.end(request, .held(reason))
            let asOf = Instant(microseconds: flight.sentAt)
            count(flight, bad: PushDeactivation(id: request.id, token: request.token, reason: reason, asOf: asOf))
        case .staleCredential: stale(flight)
        case .tooManyCredentials:
            let end = context.wallTime.advanced(bySeconds: ProviderTokenRule.pauseSeconds)
            context.keeper.pause(until: end)
            context.warn(PushAlarm(.tooManyProviderTokens, lane: lane, stops: false))
            context.end(request, .notSent(.credentialPaused(until: end)))
        case .refused(let reconnects):
            if reconnects { leave(link) }
            refused(flight, answer)
        case .idle:
            leave(link)
            again(flight) { policy, attempts in policy.afterIdle(&attempts) }
        case .stop(let code, let isOfTopic):
            context.stop(PushAlarm(code, lane: lane, topic: isOfTopic ? flight.topic?.name : nil, stops: true))
            context.end(request, .failed(code))
        case .unclear: context.end(request, .unknown)
        }
    }

    private func verdict(_ answer: HTTP2Answer) -> PushVerdict {
        if lane == .fcm { return FCMReply(status: answer.status, body: answer.body, parser).verdict }
        // Nothing to read in the common case.
        if answer.body.isEmpty { return APNsReply(status: answer.status).verdict }
        return APNsReply(status: answer.status, body: answer.body, parser).verdict
    }

    /// Tells the topic's breaker of an answer, and does what it decides.
    private func count(_ flight: Try, bad: PushDeactivation?) {
        guard let topic = flight.topic else { return }
        switch topic.breaker.answered(bad, now: now) {
        case .wait, .dropped: break
        case .release(let deactivations): if !deactivations.isEmpty { context.delegate.release(deactivations) }
        case .trip:
            context.stop(PushAlarm(.tooManyBadTokens, lane: lane, topic: topic.name, stops: true))
            // At once, not at the next turn: this very answer may make room for another request.
            stopped[topic.name] = .tooManyBadTokens
        }
    }

    private func stale(_ flight: Try) {
        guard let credential = flight.credential else {
            return context.end(flight.request, .failed(.credentialRefused))
        }
        var flight = flight
        let mayRenew = policy.mayRenew(&flight.attempts)
        // Others may have been answered so before, and the credential is renewed already.
        if case .ready(let present) = context.keeper.current(lane), present.generation == credential.generation {
            if lane != .fcm,
                ProviderTokenRule.afterExpired(issuedAt: credential.issuedAt, now: context.wallTime) == .clock
            {
                context.stop(PushAlarm(.clock, lane: lane, stops: true))
                return context.end(flight.request, .failed(.clock))
            }
            if mayRenew { context.keeper.renew(credential, lane) }
        }
        guard mayRenew else {
            context.stop(PushAlarm(.credentialRefused, lane: lane, stops: true))
            return context.end(flight.request, .failed(.credentialRefused))
        }
        pending.append(flight)
    }

    private func refused(_ flight: Try, _ answer: HTTP2Answer) {
        let wait = RetryAfter.parse(answer.retryAfter, now: context.wallTime)
        if let wait {
            // All of the lane is quiet for so long: the server is short of breath, not this one request.
            let (time, overflow) = now.addingReportingOverflow(wait.clampedNanoseconds)
            holdUntil = max(holdUntil, overflow ? .max : time)
        }
        var generator = generator
        again(flight) { policy, attempts in
            policy.afterRefusal(&attempts, retryAfter: wait, using: &generator)
        }
    }
}

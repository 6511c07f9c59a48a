import Domain
import HTTPClient
import ServiceRuntime
import Synchronization

/// Has the credentials of all lanes ready, on a thread of its own: the store and the token server may block.
final class CredentialKeeper: Sendable {
    private struct State {
        var apns: CredentialState
        var fcm: CredentialState
        /// Apple's token is to be renewed because the server called this one expired.
        var expired: Instant?
        var pause: Instant?
        var fcmStale = false
        var generation = 0
        /// When Google's token is fetched again.
        var fcmRenewal = Instant(microseconds: .min)
        var fcmEnd = Instant(microseconds: .min)
        var isAsked = true
    }

    /// How often the store is looked at for what other workers did.
    private static let look: Int64 = 30_000
    private static let retry: Int64 = 2000

    private let configuration: PushConfiguration
    private let account: ServiceAccount?
    private let store: any ProviderTokenStore
    private let time: any TimeSource
    private let changed: @Sendable () -> Void
    private let state: Mutex<State>
    private let wake = Wake()
    private let isStopped = StopFlag()

    /// - Parameters:
    ///   - configuration: with keys that are checked already.
    ///   - account: Google's.
    ///   - store: of provider tokens.
    ///   - time: the wall clock.
    ///   - changed: called on the keeper's thread after each change.
    init(
        _ configuration: PushConfiguration,
        account: ServiceAccount?,
        store: any ProviderTokenStore,
        time: any TimeSource,
        changed: @escaping @Sendable () -> Void
    ) {
        self.configuration = configuration
        self.account = account
        self.store = store
        self.time = time
        self.changed = changed
        state = Mutex(
            State(
                apns: configuration.apns == nil ? .notConfigured : .pending,
                fcm: account == nil ? .notConfigured : .pending
            )
        )
    }

    func current(_ lane: PushLane) -> CredentialState {
        state.withLock { lane == .fcm ? $0.fcm : $0.apns }
    }

    /// How old Apple's token is.
    var providerTokenAge: Duration? {
        guard case .ready(let credential) = current(.production) else { return nil }
        return .microseconds(max(0, time.wallMicroseconds() - credential.issuedAt.microseconds))
    }

    /// The server calls this credential expired: another is made, unless one has been since.
    func renew(_ credential: Credential, _ lane: PushLane) {
        state.withLock { state in
            let current = lane == .fcm ? state.fcm : state.apns
            guard case .ready(let present) = current, present.generation == credential.generation else { return }
            if lane == .fcm {
                state.fcmStale = true
                state.fcm = .pending
            } else {
                state.expired = credential.issuedAt
                state.apns = .pending
            }
            state.isAsked = true
        }
        wake.signal()
    }

    /// Apple saw too many tokens: the key pauses, for all workers.
    func pause(until end: Instant) {
        state.withLock { state in
            state.pause = end
            state.apns = .paused(until: end)
            state.isAsked = true
        }
        wake.signal()
    }

    /// Has the store looked at now: a pause is over, or somebody has mended what was wrong.
    func ask() {
        state.withLock { state in
            state.isAsked = true
            if case .unavailable = state.apns { state.apns = .pending }
            if case .unavailable = state.fcm {
                state.fcm = .pending
                state.fcmStale = true
            }
        }
        wake.signal()
    }

    func stop() {
        isStopped.raise()
        wake.signal()
    }

    /// The thread's body.
    func run() {
        let apnsSigner = configuration.apns.flatMap { try? ProviderTokenSigner($0) }
        let fcmSigner = account.flatMap { try? AssertionSigner($0) }
        while !isStopped.isRaised {
            state.withLock { $0.isAsked = false }
            var isFine = true
            if let apns = configuration.apns, let apnsSigner { isFine = keepAPNs(apns, apnsSigner) }
            if let account, let fcmSigner { isFine = keepFCM(account, fcmSigner) && isFine }
            changed()
            guard !state.withLock(\.isAsked) else { continue }
            wake.wait(milliseconds: isFine ? Self.look : Self.retry)
        }
    }

    // MARK: - Apple

    private func keepAPNs(_ apns: PushConfiguration.APNs, _ signer: ProviderTokenSigner) -> Bool {
        let now = Instant(microseconds: time.wallMicroseconds())
        let (expired, pause) = state.withLock { ($0.expired, $0.pause) }
        do {
            if let pause {
                try store.pause(keyID: apns.keyID, until: pause)
                state.withLock { if $0.pause == pause { $0.pause = nil } }
            }
            var credential = try store.credential(keyID: apns.keyID)
            if let end = credential.pausedUntil, end > now {
                state.withLock { $0.apns = .paused(until: end) }
                return true
            }
            var decision = ProviderTokenRule.decide(issuedAt: credential.token?.issuedAt, now: now)
            // The stored one is the one that the server refused.
            if let expired, expired == credential.token?.issuedAt, decision != .clock {
                decision = ProviderTokenRule.afterExpired(issuedAt: expired, now: now)
            }
            // Made before the key or the team was mended: no use, and replaced as soon as Apple allows it.
            if let other = credential.token, other.isSigned(byOtherThan: signer.fingerprint), decision != .clock {
                guard ProviderTokenRule.afterExpired(issuedAt: other.issuedAt, now: now) == .renew else {
                    return wait(behind: other)
                }
                decision = .renew
            }
            if decision == .renew || decision == .useAndRenew, let token = signer.token(now: now) {
                credential = try store.renew(keyID: apns.keyID, from: credential.token?.issuedAt, to: token)
                decision = ProviderTokenRule.decide(issuedAt: credential.token?.issuedAt, now: now)
                if let other = credential.token, other.isSigned(byOtherThan: signer.fingerprint) {
                    return wait(behind: other)
                }
            }
            publish(credential.token, decision)
            return true
        } catch {
            return keepOld(now)
        }
    }

    /// Here alone: for whoever has the other key, the token may be right.
    private func wait(behind other: ProviderToken) -> Bool {
        let end = other.issuedAt.advanced(bySeconds: ProviderTokenRule.leastSeconds)
        state.withLock { $0.apns = .paused(until: end) }
        return true
    }

    private func publish(_ token: ProviderToken?, _ decision: ProviderTokenRule.Decision) {
        state.withLock { state in
            state.expired = nil
            switch (token, decision) {
            case (let token?, .use), (let token?, .useAndRenew):
                if case .ready(let present) = state.apns, present.issuedAt == token.issuedAt { return }
                state.generation += 1
                let fresh = Credential(token: token.jwt, issuedAt: token.issuedAt, generation: state.generation)
                state.apns = .ready(fresh)
            case (_, .clock): state.apns = .unavailable(.clock)
            default: state.apns = .unavailable(.noCredential)
            }
        }
    }

    /// The store can't be reached: what is there serves for as long as it may.
    private func keepOld(_ now: Instant) -> Bool {
        state.withLock { state in
            switch state.apns {
            case .ready(let credential):
                if ProviderTokenRule.decide(issuedAt: credential.issuedAt, now: now) == .renew {
                    state.apns = .unavailable(.noCredential)
                }
            case .paused(let end): if end <= now { state.apns = .unavailable(.noCredential) }
            case .pending, .unavailable, .notConfigured: state.apns = .unavailable(.noCredential)
            }
        }
        return false
    }

    // MARK: - Google

    private func keepFCM(_ account: ServiceAccount, _ signer: AssertionSigner) -> Bool {
        let now = Instant(microseconds: time.wallMicroseconds())
        let isDue = state.withLock { $0.fcmStale || now >= $0.fcmRenewal }
        guard isDue else { return true }
        var limits = FetchLimits()
        limits.bodyBytes = 64 << 10
        let proxy = configuration.proxy?.fetchProxy
        let fetcher = HTTPFetcher(limits: limits, certificates: configuration.certificateFile, proxy: proxy)
        guard let form = signer.form(now: now) else { return fcmFailed(.noCredential, now) }
        let isStopped = isStopped
        do throws(FetchFailure) {
            let body = try fetcher.post(form: form, to: account.tokenURL) { isStopped.isRaised }
            guard let token = AccessToken(body) else { return fcmFailed(.noCredential, now) }
            state.withLock { state in
                state.generation += 1
                state.fcmStale = false
                state.fcm = .ready(Credential(token: token.text, issuedAt: now, generation: state.generation))
                state.fcmRenewal = now.advanced(bySeconds: token.seconds * 3 / 4)
                state.fcmEnd = now.advanced(bySeconds: max(0, token.seconds - 60))
            }
            return true
        } catch {
            let isRefused = error.status.map { (400..<500).contains($0) && $0 != 429 } ?? false
            return fcmFailed(isRefused ? .credentialRefused : .noCredential, now)
        }
    }

    private func fcmFailed(_ code: PushAlarm.Code, _ now: Instant) -> Bool {
        state.withLock { state in
            if case .ready = state.fcm, now < state.fcmEnd { return }
            state.fcm = .unavailable(code)
        }
        return false
    }
}

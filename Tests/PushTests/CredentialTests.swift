import Authentication
import Domain
import PushStandIn
import ServiceRuntime
import Synchronization
import Testing

@testable import Push

/// Provider tokens: when they are made, shared and paused.
@Suite struct CredentialTests {
    private typealias Reply = StandInScript.Reply
    private let start = Scene.now

    @Test func `the rule renews at 45 minutes, never uses one over 59, and calls one from the future a clock's fault`()
    {
        func decide(_ age: Int) -> ProviderTokenRule.Decision {
            ProviderTokenRule.decide(issuedAt: start, now: start.advanced(bySeconds: age))
        }
        #expect(ProviderTokenRule.decide(issuedAt: nil, now: start) == .renew)
        #expect(decide(0) == .use && decide(45 * 60 - 1) == .use)
        #expect(decide(45 * 60) == .useAndRenew && decide(59 * 60 - 1) == .useAndRenew)
        #expect(decide(59 * 60) == .renew)
        #expect(decide(-299) == .use && decide(-301) == .clock)
        func expired(_ age: Int) -> ProviderTokenRule.Decision {
            ProviderTokenRule.afterExpired(issuedAt: start, now: start.advanced(bySeconds: age))
        }
        #expect(expired(20 * 60) == .renew && expired(20 * 60 - 1) == .clock && expired(-5) == .clock)
    }

    /// Case W8: 5,000 looks of three workers with restarts, in virtual time.
    @Test(arguments: UInt64(1)...20)
    func `tokens of three workers with restarts are at least 20 minutes apart, and none is used for an hour`(
        seed: UInt64
    ) {
        var generator = SplitMix64(seed: seed)
        let store = InMemoryProviderTokenStore()
        var now = start
        var issued: [Instant] = []
        for step in 0..<5000 {
            now = now.advanced(bySeconds: Int.random(in: 0...120, using: &generator))
            // What each worker saw may be old: it decides on what it read some looks ago, then compares and sets.
            let seen = store.credential(keyID: "k").token?.issuedAt
            let workers = Int.random(in: 1...3, using: &generator)
            for _ in 0..<workers {
                let decision = ProviderTokenRule.decide(issuedAt: seen, now: now)
                guard decision == .renew || decision == .useAndRenew else { continue }
                let token = ProviderToken(jwt: "\(step)", issuedAt: now)
                _ = store.renew(keyID: "k", from: seen, to: token)
            }
            let present = store.credential(keyID: "k").token?.issuedAt
            if let present, issued.last != present { issued.append(present) }
            if let present { #expect(ProviderTokenRule.decide(issuedAt: present, now: now) != .renew) }
        }
        #expect(issued.count > 10)
        for (one, next) in zip(issued, issued.dropFirst()) {
            #expect(next.microseconds - one.microseconds >= 20 * 60 * 1_000_000)
        }
    }

    @Test func `two senders share one token`() throws {
        let store = InMemoryProviderTokenStore()
        let (one, two) = (try Scene(store: store), try Scene(store: store))
        #expect(one.outcome(1) == .accepted)
        #expect(two.outcome(1) == .accepted)
        let headers = [one, two].map { $0.standIn.received.first?.header("authorization") }
        #expect(headers[0] != nil && headers[0] == headers[1])
    }

    @Test func `403 ExpiredProviderToken renews one that is 20 minutes old, once, and the push goes out again`() throws
    {
        let store = InMemoryProviderTokenStore()
        let old = Scene.now.advanced(bySeconds: -21 * 60)
        _ = store.renew(keyID: "ABCDE12345", from: nil, to: ProviderToken(jwt: "old", issuedAt: old))
        let scene = try Scene(StandInScript(others: [Reply(403, "ExpiredProviderToken"), Reply()]), store: store)
        #expect(scene.outcome(1) == .accepted)
        let headers = scene.standIn.received.compactMap { $0.header("authorization") }
        #expect(headers.count == 2 && headers[0] == "bearer old" && headers[1] != headers[0])
        #expect((store.credential(keyID: "ABCDE12345").token?.issuedAt ?? old) > old)
    }

    @Test func `a token of another key or team is not used: it is replaced once it is 20 minutes old`() throws {
        let store = InMemoryProviderTokenStore()
        let wrong = Scene.now.advanced(bySeconds: -5 * 60)
        _ = store.renew(
            keyID: "ABCDE12345",
            from: nil,
            to: ProviderToken(jwt: "wrong", issuedAt: wrong, signer: "another team's")
        )
        let scene = try Scene(store: store)
        let end = wrong.advanced(bySeconds: 20 * 60)
        #expect(scene.outcome(1) == .notSent(.credentialPaused(until: end)))
        #expect(scene.standIn.received.isEmpty && store.credential(keyID: "ABCDE12345").token?.jwt == "wrong")
        scene.time.advance(seconds: 15 * 60 + 1)
        #expect(scene.outcome(2) == .accepted)
        let token = try #require(store.credential(keyID: "ABCDE12345").token)
        #expect(token.jwt != "wrong" && token.signer != nil && token.signer != "another team's")
        #expect(scene.standIn.received.compactMap { $0.header("authorization") } == ["bearer \(token.jwt)"])
        // Whoever has the same key and team goes on with it; whoever has another team does not.
        let same = try Scene(store: store, time: scene.time)
        #expect(same.outcome(1) == .accepted)
        let other = try Scene(store: store, time: scene.time) { configuration, _ in
            configuration.apns?.teamID = "TEAM654321"
        }
        guard case .notSent(.credentialPaused)? = other.outcome(1) else {
            Issue.record("another team's token was used")
            return
        }
    }

    @Test func `403 ExpiredProviderToken for one that is younger is a clock alarm, and no token is made`() throws {
        let store = InMemoryProviderTokenStore()
        let young = Scene.now.advanced(bySeconds: -5 * 60)
        _ = store.renew(keyID: "ABCDE12345", from: nil, to: ProviderToken(jwt: "young", issuedAt: young))
        let scene = try Scene(StandInScript(others: [Reply(403, "ExpiredProviderToken")]), store: store)
        #expect(scene.outcome(1) == .failed(.clock))
        #expect(scene.collector.alarms.map(\.code) == [.clock])
        #expect(store.credential(keyID: "ABCDE12345").token?.jwt == "young")
    }

    @Test func `many pushes that meet an expired token renew it once, and all go out again`() throws {
        let store = InMemoryProviderTokenStore()
        let old = Scene.now.advanced(bySeconds: -30 * 60)
        _ = store.renew(keyID: "ABCDE12345", from: nil, to: ProviderToken(jwt: "old", issuedAt: old))
        let expired = Reply(403, "ExpiredProviderToken").with {
            $0.gate = 50
            $0.times = 50
        }
        let scene = try Scene(StandInScript(others: [Reply(), expired, Reply()]), store: store)
        #expect(scene.outcome(1) == .accepted)
        for id in 2...51 { scene.send(id) }
        #expect(scene.collector.wait(ended: 51))
        #expect(scene.collector.outcomes.values.allSatisfy { $0 == [.accepted] })
        let tokens = Set(scene.standIn.received.compactMap { $0.header("authorization") })
        #expect(tokens.count == 2)
    }

    @Test func `429 TooManyProviderTokenUpdates keeps the token and pauses the key for 20 minutes, for all`() throws {
        let store = InMemoryProviderTokenStore()
        let script = StandInScript(others: [Reply(429, "TooManyProviderTokenUpdates"), Reply()])
        let scene = try Scene(script, store: store)
        guard case .notSent(.credentialPaused(let end))? = scene.outcome(1) else {
            Issue.record("not paused")
            return
        }
        let minutes = (end.microseconds - Scene.now.microseconds) / 60_000_000
        #expect((20...21).contains(minutes))
        #expect(scene.outcome(2) == .notSent(.credentialPaused(until: end)))
        let token = store.credential(keyID: "ABCDE12345").token
        // Another worker hears of it from the store.
        let other = try Scene(store: store)
        #expect(other.outcome(1) == .notSent(.credentialPaused(until: end)))
        #expect(other.standIn.received.isEmpty)
        scene.time.advance(seconds: 20 * 60 + 1)
        #expect(scene.outcome(3) == .accepted)
        #expect(store.credential(keyID: "ABCDE12345").token == token)
    }

    @Test func `a store that can't be reached: nothing is sent without a token, and one that is there serves on`()
        throws
    {
        let store = FailingStore()
        store.fails(true)
        let folder = try Folder()
        let standIn = try PushStandIn(folder: folder.path)
        var apns = PushConfiguration.APNs(
            keyID: "ABCDE12345",
            teamID: "TEAM123456",
            privateKey: TestKeys.p256,
            defaultTopic: Scene.topic
        )
        apns.production = .init(host: "localhost", port: standIn.port)
        var configuration = PushConfiguration()
        configuration.apns = apns
        configuration.certificateFile = standIn.authorityFile
        let collector = Collector()
        let sender = try PushSender(configuration, tokens: store, delegate: collector)
        try sender.start()
        func send(_ id: UInt64) -> PushOutcome? {
            let token = PushToken(Scene.token(1))
            let request = PushRequest(id: id, token: token, lane: .production, appID: "", expiration: start)
            let before = collector.endedCount
            guard sender.send(request), collector.wait(ended: before + 1) else { return nil }
            return collector.outcome(id)
        }
        #expect(send(1) == .notSent(.noCredential))
        #expect(collector.alarms.map(\.code) == [.noCredential])
        store.fails(false)
        sender.resume()
        #expect(send(2) == .accepted)
        store.fails(true)
        sender.resume()
        #expect(send(4) == .accepted)
        sender.beginStop()
        #expect(sender.waitStopped(until: .after(milliseconds: 10_000)))
        standIn.stop()
    }

    @Test(arguments: [("", "TEAM123456"), ("ABCDE12345", "short"), ("ABCDE1234\n", "TEAM123456")])
    func `names that Apple would not take are refused at the start`(keyID: String, teamID: String) {
        var configuration = PushConfiguration()
        configuration.apns = .init(keyID: keyID, teamID: teamID, privateKey: TestKeys.p256, defaultTopic: Scene.topic)
        #expect(throws: PushConfigurationError.self) {
            _ = try PushSender(configuration, tokens: InMemoryProviderTokenStore(), delegate: Collector())
        }
    }

    @Test func `an RSA key is none for Apple`() {
        var configuration = PushConfiguration()
        configuration.apns = .init(
            keyID: "ABCDE12345",
            teamID: "TEAM123456",
            privateKey: TestKeys.rsa,
            defaultTopic: Scene.topic
        )
        #expect(throws: PushConfigurationError.self) {
            _ = try PushSender(configuration, tokens: InMemoryProviderTokenStore(), delegate: Collector())
        }
    }
}

/// A store that a test switches off.
private final class FailingStore: ProviderTokenStore {
    private struct Down: Error {}

    private let inner = InMemoryProviderTokenStore()
    private let isDown = Atomic<Bool>(false)

    func fails(_ value: Bool) { isDown.store(value, ordering: .releasing) }

    func credential(keyID: String) throws -> ProviderCredential {
        if isDown.load(ordering: .acquiring) { throw Down() }
        return inner.credential(keyID: keyID)
    }

    func renew(keyID: String, from previous: Instant?, to token: ProviderToken) throws -> ProviderCredential {
        if isDown.load(ordering: .acquiring) { throw Down() }
        return inner.renew(keyID: keyID, from: previous, to: token)
    }

    func pause(keyID: String, until end: Instant) throws {
        if isDown.load(ordering: .acquiring) { throw Down() }
        inner.pause(keyID: keyID, until: end)
    }
}

import Domain
import Foundation
import PushStandIn
import ServiceRuntime
import Synchronization
import Testing

@testable import Push

/// Keys that are made once.
enum TestKeys {
    static let p256 = DevelopmentKeys.p256() ?? []
    static let rsa = DevelopmentKeys.rsa() ?? []

    static func serviceAccount(tokenURL: String) -> [UInt8] {
        let account: [String: String] = [
            "type": "service_account",
            "project_id": "daybook-test",
            "private_key_id": "key-1",
            "private_key": String(decoding: rsa, as: UTF8.self),
            "client_email": "daybook@daybook-test.iam.gserviceaccount.com",
            "token_uri": tokenURL,
        ]
        return (try? JSONSerialization.data(withJSONObject: account)).map(Array.init) ?? []
    }
}

/// A folder that goes with this object.
final class Folder: Sendable {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "daybook-push-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// Collects what a sender reports, and lets a test wait for it.
final class Collector: PushSenderDelegate {
    private struct State {
        var outcomes: [UInt64: [PushOutcome]] = [:]
        var ended = 0
        var released: [PushDeactivation] = []
        var alarms: [PushAlarm] = []
        var asked: [UInt64: Int] = [:]
        var waiting: [(isMet: @Sendable (Int, Int, Int) -> Bool, flag: StopFlag)] = []
    }

    private let state = Mutex(State())
    private let allows: @Sendable (PushRequest, Int) -> Bool

    /// - Parameter allows: answers `mayStillSend`, told how often it was asked about this request before.
    init(allows: @escaping @Sendable (PushRequest, Int) -> Bool = { _, _ in true }) {
        self.allows = allows
    }

    func mayStillSend(_ request: PushRequest) -> Bool {
        let before = state.withLock { state in
            defer { state.asked[request.id, default: 0] += 1 }
            return state.asked[request.id, default: 0]
        }
        return allows(request, before)
    }

    func ended(_ request: PushRequest, _ outcome: PushOutcome) {
        change {
            $0.outcomes[request.id, default: []].append(outcome)
            $0.ended += 1
        }
    }

    func release(_ deactivations: [PushDeactivation]) { change { $0.released += deactivations } }

    func raise(_ alarm: PushAlarm) { change { $0.alarms.append(alarm) } }

    private func change(_ body: (inout State) -> Void) {
        state.withLock { state in
            body(&state)
            let figures = (state.ended, state.released.count, state.alarms.count)
            for (isMet, flag) in state.waiting where isMet(figures.0, figures.1, figures.2) { flag.raise() }
            state.waiting.removeAll { $0.isMet(figures.0, figures.1, figures.2) }
        }
    }

    private func wait(_ isMet: @escaping @Sendable (Int, Int, Int) -> Bool, _ milliseconds: Int) -> Bool {
        let flag = StopFlag()
        let isThere = state.withLock { state in
            if isMet(state.ended, state.released.count, state.alarms.count) { return true }
            state.waiting.append((isMet, flag))
            return false
        }
        return isThere || flag.wait(milliseconds: milliseconds)
    }

    func wait(ended: Int, milliseconds: Int = 20_000) -> Bool { wait({ all, _, _ in all >= ended }, milliseconds) }
    func wait(released: Int) -> Bool { wait({ _, all, _ in all >= released }, 20_000) }
    func wait(alarms: Int) -> Bool { wait({ _, _, all in all >= alarms }, 20_000) }

    var outcomes: [UInt64: [PushOutcome]] { state.withLock(\.outcomes) }
    var released: [PushDeactivation] { state.withLock(\.released) }
    var alarms: [PushAlarm] { state.withLock(\.alarms) }
    var endedCount: Int { state.withLock(\.ended) }

    func outcome(_ id: UInt64) -> PushOutcome? { outcomes[id]?.first }
}

/// A stand-in, a sender that is pointed at it, and who hears of outcomes.
final class Scene {
    static let topic = "app.example.days"
    static let now = Instant(microseconds: 1_767_225_600_000_000)

    let folder: Folder
    let standIn: PushStandIn
    let collector: Collector
    let sender: PushSender
    let store: InMemoryProviderTokenStore
    let time: PhaseTime
    let productionPort: UInt16?

    init(
        _ script: StandInScript = StandInScript(),
        options: PushStandIn.Options = PushStandIn.Options(),
        collector: Collector = Collector(),
        store: InMemoryProviderTokenStore = InMemoryProviderTokenStore(),
        time: PhaseTime = PhaseTime(),
        configure: (inout PushConfiguration, PushStandIn) throws -> Void = { _, _ in }
    ) throws {
        folder = try Folder()
        standIn = try PushStandIn(folder: folder.path, script: script, options: options)
        self.collector = collector
        self.store = store
        self.time = time
        var apns = PushConfiguration.APNs(
            keyID: "ABCDE12345",
            teamID: "TEAM123456",
            privateKey: TestKeys.p256,
            defaultTopic: Self.topic
        )
        apns.production = PushConfiguration.Endpoint(host: "localhost", port: standIn.port)
        apns.sandbox = PushConfiguration.Endpoint(host: "127.0.0.1", port: standIn.port)
        var fcm = PushConfiguration.FCM(
            serviceAccount: TestKeys.serviceAccount(tokenURL: "https://localhost:\(standIn.port)/token")
        )
        fcm.endpoint = PushConfiguration.Endpoint(host: "localhost", port: standIn.port)
        var configuration = PushConfiguration()
        configuration.apns = apns
        configuration.fcm = fcm
        configuration.certificateFile = standIn.authorityFile
        if time.isFast { configuration.longestPollMilliseconds = 10 }
        try configure(&configuration, standIn)
        productionPort = configuration.apns?.production.port
        sender = try PushSender(configuration, tokens: store, delegate: collector, time: time)
        try sender.start()
    }

    deinit {
        sender.beginStop()
        _ = sender.waitStopped(until: .after(milliseconds: 10_000))
        standIn.stop()
    }

    /// Connections that pushes came by; the token server's are others.
    var pushConnections: Int { Set(standIn.received.map(\.connection)).count }

    /// Tokens are 64 hex digits; every number has one of its own.
    static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return "a" + String(repeating: "0", count: 63 - digits.count) + digits
    }

    @discardableResult
    func send(
        _ id: Int,
        token: String? = nil,
        lane: PushLane = .production,
        appID: String = "",
        expiration: Instant = now.advanced(bySeconds: 14_400)
    ) -> Bool {
        sender.send(
            PushRequest(
                id: UInt64(id),
                token: PushToken(token ?? Self.token(id)),
                lane: lane,
                appID: appID,
                expiration: expiration
            )
        )
    }

    /// Sends one and waits for its end.
    func outcome(
        _ id: Int,
        token: String? = nil,
        lane: PushLane = .production,
        appID: String = "",
        expiration: Instant = now.advanced(bySeconds: 14_400)
    ) -> PushOutcome? {
        let before = collector.endedCount
        send(id, token: token, lane: lane, appID: appID, expiration: expiration)
        guard collector.wait(ended: before + 1) else { return nil }
        return collector.outcome(UInt64(id))
    }
}

/// The system's clocks, with a wall clock that a test sets; monotonic time may run faster, so that back-off of minutes
/// is over in milliseconds.
final class PhaseTime: TimeSource {
    private let offset: Mutex<Int64>
    private let system = SystemTime()
    private let speed: Int64
    private let start: Int64
    var isFast: Bool { speed > 1 }

    init(wall: Instant = Scene.now, speed: Int64 = 1) {
        offset = Mutex(wall.microseconds - SystemTime().wallMicroseconds())
        self.speed = speed
        start = SystemTime().monotonicNanoseconds()
    }

    func wallMicroseconds() -> Int64 { system.wallMicroseconds() + offset.withLock { $0 } }
    func monotonicNanoseconds() -> Int64 { start + (system.monotonicNanoseconds() - start) * speed }
    func bootNanoseconds() -> Int64 { monotonicNanoseconds() }

    func advance(seconds: Int64) { offset.withLock { $0 += seconds * 1_000_000 } }
}

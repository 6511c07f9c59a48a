import Domain
import HTTP2
public import ServiceRuntime
import Synchronization

/// Sends silent pushes to APNs and FCM, over HTTP/2 connections of its own: a thread for each lane that is configured,
/// one for credentials, one for host names.
public final class PushSender: PushSending {
    private struct Threads {
        var lanes: [WorkerThread] = []
        var helpers: [WorkerThread] = []
    }

    private let context: SenderContext
    private let inboxes: [PushLane: LaneInbox]
    /// That of most pushes.
    private let production: LaneInbox?
    private let threads = Mutex(Threads())

    /// Checks the configuration; nothing is started.
    ///
    /// - Parameters:
    ///   - configuration: with the keys.
    ///   - tokens: shares provider tokens with the other workers.
    ///   - delegate: hears of outcomes; kept.
    ///   - time: the clocks.
    /// - Throws: what is wrong with the configuration.
    public init(
        _ configuration: PushConfiguration,
        tokens: any ProviderTokenStore,
        delegate: any PushSenderDelegate,
        time: any TimeSource = SystemTime()
    ) throws(PushConfigurationError) {
        var account: ServiceAccount?
        if let apns = configuration.apns { _ = try ProviderTokenSigner(apns) }
        if let fcm = configuration.fcm {
            let read = try ServiceAccount(json: fcm.serviceAccount, tokenURL: fcm.tokenURL)
            _ = try AssertionSigner(read)
            account = read
        }
        guard let tls = try? TLSContext.client(certificateFile: configuration.certificateFile) else {
            throw PushConfigurationError(.certificates)
        }
        var inboxes: [PushLane: LaneInbox] = [:]
        if configuration.apns != nil {
            inboxes[.production] = LaneInbox()
            inboxes[.sandbox] = LaneInbox()
        }
        if account != nil { inboxes[.fcm] = LaneInbox() }
        let wakes = inboxes.values.map(\.wake)
        let keeper = CredentialKeeper(configuration, account: account, store: tokens, time: time) {
            for wake in wakes { wake.signal() }
        }
        self.inboxes = inboxes
        production = inboxes[.production]
        context = SenderContext(
            configuration,
            project: account?.projectID,
            tls: tls,
            keeper: keeper,
            time: time,
            delegate: delegate
        )
    }

    /// Starts the threads; connections are made when there is something to send.
    public func start() throws(PushConfigurationError) {
        let context = context
        var started = Threads()
        do {
            started.helpers.append(try WorkerThread.spawn(name: "push-keys") { context.keeper.run() })
            started.helpers.append(try WorkerThread.spawn(name: "push-names") { context.resolver.run() })
            for (lane, inbox) in inboxes {
                let endpoint = endpoint(lane)
                started.lanes.append(
                    try WorkerThread.spawn(name: "push-\(lane.shortName)") {
                        guard let loop = try? LaneLoop(lane, context, inbox, endpoint) else { return inbox.close() }
                        loop.run()
                    }
                )
            }
        } catch {
            threads.withLock { $0 = started }
            beginStop()
            throw PushConfigurationError(.threads)
        }
        threads.withLock { $0 = started }
    }

    private func endpoint(_ lane: PushLane) -> PushConfiguration.Endpoint {
        let none = PushConfiguration.Endpoint(host: "")
        return switch lane {
        case .production: context.configuration.apns?.production ?? none
        case .sandbox: context.configuration.apns?.sandbox ?? none
        case .fcm: context.configuration.fcm?.endpoint ?? none
        }
    }

    public func send(_ request: PushRequest) -> Bool {
        let most = context.configuration.mostUnderWay
        let before = context.underWay.add(1, ordering: .acquiringAndReleasing).oldValue
        guard before < most else {
            context.underWay.subtract(1, ordering: .acquiringAndReleasing)
            return false
        }
        guard let inbox = request.lane == .production ? production : inboxes[request.lane] else {
            context.end(request, .notSent(.notConfigured))
            return true
        }
        if !inbox.put(request) { context.end(request, .notSent(.shuttingDown)) }
        return true
    }

    public var underWay: Int { context.underWay.load(ordering: .acquiring) }

    public var stops: [PushAlarm] { context.stops.all }

    public func resume() {
        context.stops.clear()
        context.keeper.ask()
        for inbox in inboxes.values { inbox.wake.signal() }
    }

    /// Figures for metrics.
    public var figures: PushFigures {
        PushFigures(
            connections: context.counters.connections.load(ordering: .relaxed),
            openStreams: context.counters.openStreams.load(ordering: .relaxed),
            tries: context.counters.tries.load(ordering: .relaxed),
            connectionsMade: context.counters.reconnects.load(ordering: .relaxed),
            providerTokenAge: context.keeper.providerTokenAge
        )
    }

    /// Takes and submits nothing more. What is in flight may be answered for a while (`drainMilliseconds`); what is not
    /// by then ends as unknown. Does not block.
    public func beginStop() {
        for inbox in inboxes.values { inbox.close() }
        context.keeper.stop()
        context.resolver.stop()
    }

    /// Waits for the threads; all requests have ended then. False if the deadline came first.
    public func waitStopped(until deadline: Deadline) -> Bool {
        let (lanes, helpers) = threads.withLock { ($0.lanes, $0.helpers) }
        return (lanes + helpers).reduce(true) { $1.join(until: deadline) && $0 }
    }
}

/// A sender's figures at a moment.
public struct PushFigures: Hashable, Sendable {
    public let connections: Int
    public let openStreams: Int
    /// Requests submitted so far, each try counted.
    public let tries: Int
    public let connectionsMade: Int
    /// Nil where there is no provider token for Apple.
    public let providerTokenAge: Duration?
}

extension PushLane {
    /// Threads' names have 15 bytes.
    var shortName: String {
        switch self {
        case .production: "apns"
        case .sandbox: "sandbox"
        case .fcm: "fcm"
        }
    }
}

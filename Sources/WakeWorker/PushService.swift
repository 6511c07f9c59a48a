internal import Configuration
internal import Domain
internal import Observability
internal import Push
internal import ServiceRuntime

/// The sender as a part of the process.
final class PushService: Service {
    let name: StaticText = "push"
    let sending: any PushSending
    private let sender: PushSender

    /// - Parameters:
    ///   - configuration: as it was read.
    ///   - tokens: shares provider tokens with the other workers.
    ///   - delegate: hears of outcomes.
    ///   - log: for a worker that can wake nobody.
    /// - Throws: what is wrong with the keys and hosts.
    init(
        _ configuration: PushServersConfiguration,
        tokens: any ProviderTokenStore,
        delegate: any PushSenderDelegate,
        log: Log
    ) throws {
        if configuration.apple == nil, configuration.google == nil {
            log.warning("neither APNs nor FCM is configured: nobody can be woken")
        }
        sender = try PushSender(configuration.forSender, tokens: tokens, delegate: delegate)
        sending = sender
    }

    var figures: PushFigures { sender.figures }

    func start(_ context: ServiceContext) throws { try start() }

    func start() throws { try sender.start() }

    func beginStop() { sender.beginStop() }

    func waitStopped(until deadline: Deadline) -> Bool { sender.waitStopped(until: deadline) }
}

extension PushServersConfiguration {
    /// Lanes without a credential.
    var missingLanes: [String] {
        let missing: [PushLane] =
            (apple == nil ? [.production, .sandbox] : []) + (google == nil ? [.fcm] : [])
        return missing.map(\.rawValue)
    }

    fileprivate var forSender: PushConfiguration {
        var push = PushConfiguration()
        push.apns = apple.map { apple in
            var apns = PushConfiguration.APNs(
                keyID: apple.keyID,
                teamID: apple.teamID,
                privateKey: Array(apple.key.reveal().utf8),
                defaultTopic: apple.topic
            )
            apns.topics = Set(apple.topics)
            apns.production = Self.endpoint(apple.host) ?? apns.production
            apns.sandbox = Self.endpoint(apple.sandboxHost) ?? apns.sandbox
            return apns
        }
        push.fcm = google.map { google in
            var fcm = PushConfiguration.FCM(serviceAccount: Array(google.serviceAccount.reveal().utf8))
            fcm.endpoint = Self.endpoint(google.host) ?? fcm.endpoint
            fcm.tokenURL = google.tokenURL
            return fcm
        }
        push.certificateFile = certificateFile
        push.proxy = proxy.flatMap(Self.endpoint).map { endpoint in
            PushConfiguration.Proxy(
                endpoint: endpoint,
                credentials: proxyCredentials.map { PushToken($0.reveal()) }
            )
        }
        return push
    }

    private static func endpoint(_ text: String) -> PushConfiguration.Endpoint? {
        SocketAddress.endpoint(text).map { PushConfiguration.Endpoint(host: $0.host, port: $0.port) }
    }
}

internal import Configuration
internal import Domain
internal import Observability
internal import Push
internal import ServiceRuntime

/// The sender as a part of the process.
final class PushService: Service {
    let name: StaticText = "push"
    let sending: any PushSending

    init(
        _ configuration: PushServersConfiguration,
        tokens: any ProviderTokenStore,
        delegate: any PushSenderDelegate,
        log: Log
    ) throws {
        sending = NoSender(delegate)
    }

    func start(_ context: ServiceContext) throws { try start() }

    func start() throws {}

    func beginStop() {}

    func waitStopped(until deadline: Deadline) -> Bool { true }
}

/// Until there is one.
final class NoSender: PushSending {
    private let delegate: any PushSenderDelegate

    init(_ delegate: any PushSenderDelegate) {
        self.delegate = delegate
    }

    func send(_ request: PushRequest) -> Bool {
        delegate.ended(request, .notSent(.notConfigured))
        return true
    }

    var underWay: Int { 0 }
    var stops: [PushAlarm] { [] }
    func resume() {}
}

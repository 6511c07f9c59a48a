internal import HTTPServer
internal import JSON
public import Observability
public import ServiceRuntime
internal import Synchronization

/// The operators' door of a service: `/livez`, `/readyz` and `/metrics`, on an address of its own and a thread of its
/// own, so that it answers while the service is busy, draining or has lost what it depends on.
public final class AdminServer: Service {
    /// What `/readyz` says: ready, or every reason why not. Reasons are words for people and dashboards; they never
    /// carry a value from outside.
    public struct Readiness: Hashable, Sendable {
        public var reasons: [String]

        public init(reasons: [String] = []) {
            self.reasons = reasons
        }

        public var isReady: Bool { reasons.isEmpty }
    }

    public let name: StaticText = "admin"

    private struct Running {
        let loop: HTTPEventLoop
        let thread: WorkerThread
    }

    private let host: String
    private let port: UInt16
    private let metrics: MetricsRegistry
    private let readiness: @Sendable () -> Readiness
    private let running = Mutex<Running?>(nil)
    private let boundPort = Mutex<UInt16?>(nil)

    /// - Parameters:
    ///   - host: an IP address in digits.
    ///   - port: 0 lets the system choose; see `address`.
    ///   - metrics: rendered at every scrape.
    ///   - readiness: asked at every `/readyz`, on the admin thread; must be quick.
    public init(
        host: String,
        port: UInt16,
        metrics: MetricsRegistry,
        readiness: @escaping @Sendable () -> Readiness
    ) {
        self.host = host
        self.port = port
        self.metrics = metrics
        self.readiness = readiness
    }

    /// Where it listens, once started.
    public var address: String? {
        boundPort.withLock { $0 }.map { host.contains(":") ? "[\(host)]:\($0)" : "\(host):\($0)" }
    }

    public func start(_ context: ServiceContext) throws {
        var configuration = HTTPServerConfiguration()
        configuration.maximumConnections = 64
        configuration.maximumBodyBytes = 4096
        let handler = AdminHandler(metrics: metrics, readiness: readiness)
        let loop = try HTTPEventLoop(configuration: configuration, handler: handler)
        let port = try loop.listen(address: host, port: port)
        boundPort.withLock { $0 = port }
        let thread = try WorkerThread.spawn(name: "admin") { loop.run() }
        running.withLock { $0 = Running(loop: loop, thread: thread) }
        context.log.info("admin listening", [.address: .text(address ?? "")])
    }

    public func beginStop() {
        running.withLock { $0 }?.loop.stop()
    }

    public func waitStopped(until deadline: Deadline) -> Bool {
        running.withLock { $0 }?.thread.join(until: deadline) ?? true
    }
}

/// Answers at once, without state of its own.
final class AdminHandler: HTTPRequestHandler {
    private let metrics: MetricsRegistry
    private let readiness: @Sendable () -> AdminServer.Readiness

    init(metrics: MetricsRegistry, readiness: @escaping @Sendable () -> AdminServer.Readiness) {
        self.metrics = metrics
        self.readiness = readiness
    }

    func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition {
        let path = String(decoding: request.path, as: UTF8.self)
        guard ["/livez", "/readyz", "/metrics"].contains(path) else {
            return .answer(HTTPProblem(status: 404, code: "not_found", title: "There is no such path").response())
        }
        guard request.method == .get || request.method == .head else {
            let problem = HTTPProblem(status: 405, code: "method_not_allowed", title: "Only GET works here")
            return .answer(problem.response(headers: [.allow("GET, HEAD")]))
        }
        switch path {
        case "/livez":
            return .answer(HTTPResponse(status: 200, contentType: .json, body: Array(#"{"status":"alive"}"#.utf8)))
        case "/metrics":
            return .answer(HTTPResponse(status: 200, contentType: .metrics, body: metrics.renderPrometheusText()))
        default:
            return .answer(Self.response(readiness()))
        }
    }

    private static func response(_ readiness: AdminServer.Readiness) -> HTTPResponse {
        var writer = JSONWriter(reserving: 128)
        writer.beginObject()
        writer.key("status")
        writer.string(readiness.isReady ? "ready" : "not_ready")
        writer.key("reasons")
        writer.beginArray()
        for reason in readiness.reasons { writer.string(reason) }
        writer.endArray()
        writer.endObject()
        return HTTPResponse(status: readiness.isReady ? 200 : 503, contentType: .json, body: writer.bytes)
    }
}

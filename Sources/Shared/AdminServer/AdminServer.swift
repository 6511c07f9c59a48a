import HTTPServer
public import Observability
public import ServiceRuntime
import Synchronization

/// Why a process does not want work just now.
public struct NotReadyReason: Hashable, Sendable {
    /// A short name for programs: letters, digits and `_`.
    public let code: StaticText
    /// What is missing and what to do, for people.
    public let detail: StaticText

    public init(_ code: StaticString, _ detail: StaticString) {
        self.code = StaticText(code)
        self.detail = StaticText(detail)
    }
}

/// Serves `/livez`, `/readyz` and `/metrics` for operators, on a loop and a thread of its own, so that it answers however
/// busy the process is. Put it first into the group: it then stops last.
public final class AdminServer: Service {
    public let name: StaticText = "admin"

    private let address: String
    private let requestedPort: UInt16
    private let handler: AdminHandler
    private let state = Mutex(State())

    private struct State {
        var loop: HTTPEventLoop?
        var thread: WorkerThread?
        var port: UInt16?
    }

    /// - Parameters:
    ///   - address: an IP address in digits.
    ///   - port: 0 lets the system choose.
    ///   - reasons: why the process is not ready; empty when it is. Called on the admin thread.
    ///   - metrics: Prometheus' text. Called on the admin thread.
    public init(
        address: String,
        port: UInt16,
        reasons: @escaping @Sendable () -> [NotReadyReason],
        metrics: @escaping @Sendable () -> [UInt8]
    ) {
        self.address = address
        requestedPort = port
        handler = AdminHandler(reasons: reasons, metrics: metrics)
    }

    /// The port that it listens on; nil before `start`.
    public var port: UInt16? { state.withLock(\.port) }

    public func start(_ context: ServiceContext) throws {
        var configuration = HTTPServerConfiguration()
        configuration.maximumConnections = 256
        configuration.maximumBodyBytes = 1024
        let loop = try HTTPEventLoop(configuration: configuration, handler: handler)
        let port = try loop.listen(address: address, port: requestedPort)
        let thread = try WorkerThread.spawn(name: "admin") { loop.run() }
        state.withLock { $0 = State(loop: loop, thread: thread, port: port) }
        let shown = address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
        context.log.info("admin listening", [.address: .text(shown), .port: .integer(port)])
    }

    public func beginStop() {
        state.withLock { state in
            guard let loop = state.loop else { return }
            loop.post { loop.beginDrain(deadline: .milliseconds(200)) }
        }
    }

    public func waitStopped(until deadline: Deadline) -> Bool {
        guard let thread = state.withLock({ $0.thread }) else { return true }
        return thread.join(until: deadline)
    }
}

/// Holds no state, so any thread may use it.
private final class AdminHandler: HTTPRequestHandler, Sendable {
    private let reasons: @Sendable () -> [NotReadyReason]
    private let metrics: @Sendable () -> [UInt8]

    init(reasons: @escaping @Sendable () -> [NotReadyReason], metrics: @escaping @Sendable () -> [UInt8]) {
        self.reasons = reasons
        self.metrics = metrics
    }

    func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition {
        let path = String(decoding: request.path, as: UTF8.self)
        guard ["/livez", "/readyz", "/metrics"].contains(path) else {
            let problem = HTTPProblem(
                status: 404,
                code: "not_found",
                title: "There is nothing here",
                detail: "Ask for /livez, /readyz or /metrics."
            )
            return .answer(problem.response())
        }
        guard request.method == .get || request.method == .head else {
            let problem = HTTPProblem(
                status: 405,
                code: "method_not_allowed",
                title: "This method is not allowed here",
                detail: "Use GET."
            )
            return .answer(problem.response(headers: [.allow("GET, HEAD")]))
        }
        switch path {
        case "/livez": return .answer(HTTPResponse(status: 200, body: Array(#"{"live":true}"#.utf8)))
        case "/readyz": return .answer(readiness())
        default: return .answer(HTTPResponse(status: 200, contentType: .metrics, body: metrics()))
        }
    }

    private func readiness() -> HTTPResponse {
        let reasons = reasons()
        guard !reasons.isEmpty else {
            return HTTPResponse(status: 200, body: Array(#"{"ready":true,"reasons":[]}"#.utf8))
        }
        let items = reasons.map { #"{"code":"\#($0.code)","detail":"\#($0.detail)"}"# }.joined(separator: ",")
        return HTTPResponse(status: 503, body: Array(#"{"ready":false,"reasons":[\#(items)]}"#.utf8))
    }
}

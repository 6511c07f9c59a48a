import Dispatch
import Glibc
import HTTPServer
import Synchronization

/// Values from the loop's thread, awaited by a test with a limit.
final class Inbox<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])
    private let arrived = DispatchSemaphore(value: 0)

    func put(_ value: Value) {
        values.withLock { $0.append(value) }
        arrived.signal()
    }

    /// The next value; nil if none comes in time.
    func next(seconds: Double = 10) -> Value? {
        guard arrived.wait(timeout: .now() + seconds) == .success else { return nil }
        return values.withLock { $0.removeFirst() }
    }

    var count: Int { values.withLock { $0.count } }
}

/// Answers `/later` when told to, `/big` with 8 MiB, everything else at once with what it saw.
final class TestHandler: HTTPRequestHandler {
    let started = Inbox<UInt16>()
    let pending = Inbox<HTTPExchangeID>()
    let abandoned = Inbox<HTTPExchangeID>()
    let handled = Inbox<String>()
    static let bigSize = 8 << 20
    private var inlineLoop: HTTPEventLoop?

    func loopStarted(_ loop: HTTPEventLoop) { inlineLoop = loop }

    func bodyUse(_ request: borrowing HTTPRequest) -> HTTPBodyUse {
        switch String(decoding: request.path, as: UTF8.self) {
        case "/closed": .answer(HTTPResponse(status: 401, contentType: .text, body: Array("closed".utf8)))
        case "/unread": .ignore
        default: .read
        }
    }

    func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition {
        let path = String(decoding: request.path, as: UTF8.self)
        let query = String(decoding: request.query, as: UTF8.self)
        handled.put(path)
        switch path {
        case "/later":
            pending.put(exchange)
            return .later
        case "/soon":
            pending.put(exchange)
            return .later(within: .milliseconds(50))
        case "/inline":
            Array("inline".utf8).withUnsafeBytes { inlineLoop?.answer(exchange, status: 202, body: $0) }
            return .later
        case "/big":
            return .answer(
                HTTPResponse(status: 200, contentType: .text, body: [UInt8](repeating: 120, count: Self.bigSize))
            )
        case "/empty":
            return .answer(HTTPResponse(status: 204))
        case "/split":
            let headers = [HTTPHeader("X-Value", "a\r\nX-Evil: b"), .retryAfter(seconds: 7), .allow("POST")]
            return .answer(HTTPResponse(status: 405, headers: headers))
        case "/size":
            return .answer(HTTPResponse(status: 200, contentType: .text, body: Array("\(request.body.count)".utf8)))
        case "/headers":
            var text = ""
            for known in HTTPKnownHeader.allCases {
                if let value = request.header(known) { text += "\(known)=\(String(decoding: value, as: UTF8.self));" }
            }
            if let value = request.header(named: "x-other") {
                text += "other=\(String(decoding: value, as: UTF8.self));"
            }
            return .answer(HTTPResponse(status: 200, contentType: .text, body: Array(text.utf8)))
        default:
            let text = "\(request.method) \(path)|\(query)|\(String(decoding: request.body, as: UTF8.self))"
            return .answer(HTTPResponse(status: 200, contentType: .text, body: Array(text.utf8)))
        }
    }

    func exchangeAbandoned(_ exchange: HTTPExchangeID) { abandoned.put(exchange) }
    func finish() { inlineLoop = nil }
}

final class TestObserver: HTTPServerObserver {
    let refused = Inbox<String>()
    let closed = Inbox<String>()
    let answered = Inbox<Int>()
    let paused = Inbox<Int32>()

    func acceptPaused(errno: Int32) { paused.put(errno) }
    func requestRefused(status: Int, reason: StaticString) { refused.put("\(status) \(reason)") }
    func connectionClosed(reason: StaticString) { closed.put("\(reason)") }
    func requestAnswered(status: Int, nanoseconds: UInt64) { answered.put(status) }
}

/// A loop on a thread of its own, stopped at the end.
struct TestServer {
    let loop: HTTPEventLoop
    let handler: TestHandler
    let observer: TestObserver
    let port: UInt16
    let ended: Inbox<Bool>

    static func run(
        _ configuration: HTTPServerConfiguration = HTTPServerConfiguration(),
        _ body: (TestServer) throws -> Void
    ) throws {
        let handler = TestHandler()
        let observer = TestObserver()
        let loop = try HTTPEventLoop(configuration: configuration, handler: handler, observer: observer)
        let port = try loop.listen(address: "127.0.0.1", port: 0)
        let ended = Inbox<Bool>()
        let finished = Inbox<Bool>()
        startThread {
            loop.run()
            ended.put(true)
            finished.put(true)
        }
        defer {
            loop.stop()
            _ = finished.next()
            handler.finish()
        }
        try body(TestServer(loop: loop, handler: handler, observer: observer, port: port, ended: ended))
    }

    func connect() throws -> TestClient { try TestClient(port: port) }

    func answer(_ exchange: HTTPExchangeID?, _ text: String) {
        guard let exchange else { return }
        let loop = loop
        loop.post { loop.answer(exchange, HTTPResponse(status: 202, contentType: .text, body: Array(text.utf8))) }
    }

    /// Sends the bytes on a connection of their own and gives back all that came until the server closed.
    func exchange(_ text: String) throws -> String {
        let client = try connect()
        try client.send(text)
        return try client.readToEnd()
    }
}

func startThread(_ body: @escaping @Sendable () -> Void) {
    let box = Unmanaged.passRetained(ThreadBody(body))
    var thread = pthread_t()
    pthread_create(
        &thread,
        nil,
        { argument in
            if let argument { Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().body() }
            return nil
        },
        box.toOpaque()
    )
    pthread_detach(thread)
}

private final class ThreadBody: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

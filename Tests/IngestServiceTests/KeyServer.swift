import HTTPServer
import ServiceRuntime
import Synchronization

/// Serves a set of keys over HTTP on 127.0.0.1.
final class KeyServer: Sendable {
    private final class Handler: HTTPRequestHandler, Sendable {
        let response = Mutex<HTTPResponse>(HTTPResponse(status: 500))

        func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition {
            .answer(response.withLock { $0 })
        }
    }

    private let handler = Handler()
    private let loop: HTTPEventLoop
    private let thread: WorkerThread
    let url: String

    init() throws {
        let loop = try HTTPEventLoop(handler: handler)
        self.loop = loop
        url = "http://127.0.0.1:\(try loop.listen(address: "127.0.0.1", port: 0))/keys"
        thread = try WorkerThread.spawn(name: "keys") { loop.run() }
    }

    deinit {
        loop.stop()
        thread.join(milliseconds: 5000)
    }

    func serve(_ keys: String) { handler.response.withLock { $0 = HTTPResponse(status: 200, body: Array(keys.utf8)) } }
}

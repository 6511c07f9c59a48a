import Domain
import Glibc
import HTTPClient
import HTTPServer
import ServiceRuntime
import Synchronization
import Testing

@testable import Authentication

/// Serves a document over HTTP on 127.0.0.1.
private final class DocumentServer: Sendable {
    private final class Handler: HTTPRequestHandler, Sendable {
        let response = Mutex<HTTPResponse?>(nil)
        let count = Atomic<Int>(0)

        func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition {
            count.wrappingAdd(1, ordering: .relaxed)
            return response.withLock { $0 }.map { .answer($0) } ?? .later
        }
    }

    private let handler = Handler()
    private let loop: HTTPEventLoop
    private let thread: WorkerThread
    let port: UInt16

    init(_ response: HTTPResponse?) throws {
        let loop = try HTTPEventLoop(handler: handler)
        self.loop = loop
        port = try loop.listen(address: "127.0.0.1", port: 0)
        thread = try WorkerThread.spawn(name: "documents") { loop.run() }
        answer(response)
    }

    deinit {
        loop.stop()
        thread.join(milliseconds: 5000)
    }

    /// Nil: never answers.
    func answer(_ response: HTTPResponse?) { handler.response.withLock { $0 = response } }
    var count: Int { handler.count.load(ordering: .relaxed) }
    var url: String { "http://127.0.0.1:\(port)/keys" }
}

private struct Network: KeyFetcher {
    func fetch(_ url: String, isCancelled: @escaping @Sendable () -> Bool) throws(KeyFetchFailure) -> [UInt8] {
        guard let url = FetchURL(url) else { throw KeyFetchFailure("wrong URL") }
        do throws(FetchFailure) {
            return try HTTPFetcher().get(url, isCancelled: isCancelled)
        } catch {
            throw KeyFetchFailure(error.description)
        }
    }
}

private func waitUntil(_ what: String, _ condition: () throws -> Bool) throws {
    let deadline = Deadline.after(milliseconds: 10_000)
    while !deadline.hasPassed() {
        if try condition() { return }
        usleep(2000)
    }
    Issue.record("never \(what)")
}

private func document(_ keys: [UInt8], status: Int = 200, headers: [HTTPHeader] = []) -> HTTPResponse {
    HTTPResponse(status: status, headers: headers, body: keys)
}

private let first = TestKeys.jwks(TestKeys.ecKey(TestKeys.ecAPoint, kid: "a"))
private let second = TestKeys.jwks(TestKeys.ecKey(TestKeys.ecBPoint, kid: "b"))

struct NetworkTests {
    @Test func `keys are rotated over the network while a verifier works`() throws {
        let server = try DocumentServer(document(first))
        var sources = KeySources()
        sources.jwksURL = server.url
        sources.refreshSeconds = 1
        let keeper = try KeyKeeper(sources, fetcher: Network())
        try keeper.start()
        defer {
            keeper.beginStop()
            #expect(keeper.waitStopped(until: .after(milliseconds: 5000)))
        }
        let verifier = try TokenVerifier(TokenPolicy(), keys: keeper.ring)
        let (old, new) = try (token(TestKeys.ecAPrivate, kid: "a"), token(TestKeys.ecBPrivate, kid: "b"))
        try waitUntil("verified") { verifier.code(old) == nil }
        #expect(verifier.code(new) == .badSignature)
        server.answer(HTTPResponse(status: 500))
        try waitUntil("failed") { keeper.status.failures[.jwksURL] ?? 0 > 0 }
        #expect(verifier.code(old) == nil)
        server.answer(document(second))
        try waitUntil("rotated") { verifier.code(new) == nil }
        #expect(verifier.code(old) == .badSignature)
    }

    @Test func `a server that never answers is given up when the keeper stops`() throws {
        let server = try DocumentServer(nil)
        var sources = KeySources()
        sources.jwksURL = server.url
        let keeper = try KeyKeeper(sources, fetcher: Network())
        try keeper.start()
        try waitUntil("asked") { server.count == 1 }
        keeper.beginStop()
        #expect(keeper.waitStopped(until: .after(milliseconds: 5000)))
    }

    @Test func `documents that are no answer, too long or elsewhere are refused`() throws {
        func get(_ response: HTTPResponse?, _ limits: FetchLimits = FetchLimits()) throws -> String? {
            let server = try DocumentServer(response)
            let url = try #require(FetchURL(server.url))
            do throws(FetchFailure) {
                _ = try HTTPFetcher(limits: limits).get(url)
                return nil
            } catch {
                return error.description
            }
        }
        #expect(try get(document(first)) == nil)
        #expect(try get(document([])) == nil)
        #expect(try get(document(first, status: 404)) == "the server answered with status 404")
        let long = [UInt8](repeating: 32, count: 1 << 20 + 1)
        #expect(try get(document(Array(long.dropLast()))) == nil)
        #expect(try get(document(long)) != nil)
        let other = try DocumentServer(document(first))
        let redirect = document([], status: 302, headers: [HTTPHeader("Location", other.url)])
        #expect(try get(redirect) == "the server answered with status 302")
        #expect(other.count == 0)
        var limits = FetchLimits()
        limits.totalMilliseconds = 100
        #expect(try get(nil, limits) == "Timeout was reached")
    }

    @Test(arguments: [
        ("https://id.example/keys", true), ("https://id.example:8443/a?b=c", true), ("https://[2001:db8::1]/", true),
        ("http://127.0.0.1:80/", true), ("http://localhost/x", true), ("http://[::1]:81/x", true),
        ("http://id.example/", false), ("http://127.0.0.1.evil.example/", false), ("http://localhost.evil/", false),
        ("http://127.0.0.1@evil.example/", false), ("https://user:pw@id.example/", false),
        ("file:///etc/passwd", false),
        ("https://", false), ("https:///x", false), ("HTTPS://id.example", false), ("https://id.example/#x", false),
        ("https://id.example:0/", false), ("https://id.example:99999/", false), ("https://id.example:/", false),
        ("https://id example/", false), ("https://id.example\\@evil/", false), ("http://127.0.0.1\\.evil/", false),
        ("", false),
    ])
    func `only https is fetched, and plain http on this machine`(text: String, isTaken: Bool) {
        #expect((FetchURL(text) != nil) == isTaken)
    }
}

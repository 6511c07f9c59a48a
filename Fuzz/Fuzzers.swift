// The entry of libFuzzer: one input a call. `Scripts/fuzz` builds this file against the modules of the service; it is
// no target of the package, since SwiftPM can't link a fuzzer. DAYBOOK_FUZZ names the target.
import Glibc

@testable import Authentication
@testable import Domain
@testable import HTTPServer
@testable import IngestService
@testable import JSON
@testable import MessageContract
@testable import TimeZones

/// What a target needs, made once. libFuzzer calls from one thread.
nonisolated(unsafe) private var target: (any FuzzTarget)?

protocol FuzzTarget {
    func run(_ input: UnsafeRawBufferPointer)
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOne(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
    if target == nil { target = makeTarget() }
    target?.run(UnsafeRawBufferPointer(start: data, count: size))
    return 0
}

private func makeTarget() -> any FuzzTarget {
    let name = getenv("DAYBOOK_FUZZ").map { String(cString: $0) } ?? ""
    do {
        switch name {
        case "days": return try DaysTarget()
        case "bodies": return try BodiesTarget()
        case "gzip": return GzipTarget()
        case "jwt": return try TokenTarget()
        case "keys": return KeysTarget()
        case "path": return try PathTarget()
        default: fatalError("DAYBOOK_FUZZ must be days, bodies, gzip, jwt, keys or path")
        }
    } catch {
        fatalError("the target \(name) can't be made: \(error)")
    }
}

/// A copy that ends where the readable bytes end, so that a read behind them is found.
private func withPadded(_ input: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: input.count + JSONParser.padding, alignment: 1)
    defer { copy.deallocate() }
    copy.copyBytes(from: input)
    // What stands behind a body is whatever was there before: not zeros.
    for index in input.count..<copy.count { copy[index] = UInt8(truncatingIfNeeded: 0x20 + index % 0x60) }
    body(UnsafeRawBufferPointer(rebasing: copy[..<input.count]))
}

private let now = Instant(microseconds: 1_788_000_000_000_000)
private let event = EventID(high: 0x0199_0000_0000_7abc, low: 0x8000_0000_0000_0123)
private let user = UserID(high: 0x1234_0000_0000_4000, low: 0x8000_0000_0000_0001)

/// Holds only if what was accepted can be written and read again.
private func check(_ holds: Bool, _ what: StaticString) {
    precondition(holds, "\(what)")
}

/// `POST /v1/days`: body to records, which the aggregator must be able to read. Plain bodies are read a quicker way:
/// whatever comes out is what the general way gives.
private final class DaysTarget: FuzzTarget {
    private let decoder: DaysRequestDecoder
    private let reader: DaysRecordDecoder

    init() throws {
        decoder = try DaysRequestDecoder(zones: ZoneTable())
        reader = try DaysRecordDecoder()
    }

    func run(_ input: UnsafeRawBufferPointer) {
        let context = DaysContext(receivedAt: now, claimedZone: nil, headerZone: nil, fallbackZone: "UTC")
        withPadded(input) { body in
            do throws(RequestProblem) {
                let request = try decoder.decode(padded: body, context)
                let plan = try LanePlan(request)
                if let text = decoder.recordText {
                    let taken = try LanePlan(request, taking: text)
                    check(taken.records == plan.records, "days taken from the body differ from those that are written")
                }
                _ = DaysAnswer(request, event: event).body(positions: [])
                for record in plan.plan(for: user, answer: DaysAnswer(request, event: event)).records {
                    readBack(record)
                }
            } catch {
                _ = error.response
            }
            let (quick, general) = (
                outcome { () throws(RequestProblem) in try decoder.decode(padded: body, context) },
                outcome { () throws(RequestProblem) in try decoder.decodeTree(padded: body, context) }
            )
            check(quick == general, "the two ways to read a body differ")
        }
    }

    private func outcome(_ decode: () throws(RequestProblem) -> DaysRequest) -> Result<DaysRequest, RequestProblem> {
        Result(catching: decode)
    }

    private func readBack(_ record: RoutePlan.Record) {
        var received: [UInt8] = []
        now.append(to: &received)
        let (schema, id) = (Array("days/1".utf8), Array(event.description.utf8))
        schema.withUnsafeBytes { schema in
            id.withUnsafeBytes { id in
                received.withUnsafeBytes { received in
                    record.key.withUnsafeBytes { key in
                        record.value.withUnsafeBytes { value in
                            var headers = RecordHeaders()
                            (headers.schema, headers.eventID, headers.receivedAt) = (schema, id, received)
                            let read = reader.decode(key: key, value: value, headers: headers, appendTime: nil)
                            if case .failure = read { check(false, "a record that was accepted is poison") }
                        }
                    }
                }
            }
        }
    }
}

/// All other routes' bodies: the first byte names the route.
private final class BodiesTarget: FuzzTarget {
    private let dispatcher: Dispatcher
    private let writes: [Int]

    init() throws {
        let verifier = try TokenVerifier(TokenPolicy(hmacKeys: [Array(repeating: 7, count: 32)]))
        let tools = try LoopTools(zones: ZoneTable(), fallbackZone: "America/New_York")
        let dispatcher = try Dispatcher(verifier: verifier, tools: tools)
        writes = dispatcher.routes.indices.filter { dispatcher.routes[$0].isWrite }
        self.dispatcher = dispatcher
    }

    func run(_ input: UnsafeRawBufferPointer) {
        guard let first = input.first else { return }
        let route = writes[Int(first) % writes.count]
        let rest = UnsafeRawBufferPointer(rebasing: input[1...])
        // What stands before a first line end is path segment and query.
        let end = rest.firstIndex(of: 10) ?? 0
        let words = UnsafeRawBufferPointer(rebasing: rest[..<end])
        withPadded(UnsafeRawBufferPointer(rebasing: rest[end...])) { body in
            let call = RouteCall(
                identity: Identity(user: user, role: dispatcher.routes[route].roles.first ?? .user),
                parameter: words,
                query: words,
                headerZone: words,
                paddedBody: body,
                receivedAt: now,
                event: event
            )
            do throws(RequestProblem) {
                let plan = try dispatcher.plan(route, call)
                _ = plan.answer.body(positions: [])
                for record in plan.records { check(record.value.count <= 1_000_000, "a record is too large") }
            } catch {
                _ = error.response
            }
        }
    }
}

/// Keeps reads from being optimised away.
nonisolated(unsafe) private var blackHole: UInt8 = 0

/// A gzip body, with a limit as small as its inputs make it worth while.
private final class GzipTarget: FuzzTarget {
    private let decoder = GzipDecoder(limit: 1 << 17)

    func run(_ input: UnsafeRawBufferPointer) {
        switch decoder.decode(input) {
        case .body(let plain):
            check(plain.count <= 1 << 17, "the limit was passed")
            // Every byte and the padding may be read.
            var sum: UInt8 = 0
            for index in 0..<(plain.count + 64) {
                sum &+= plain.baseAddress?.load(fromByteOffset: index, as: UInt8.self) ?? 0
            }
            blackHole = sum
        case .corrupt, .tooLarge: break
        }
    }
}

/// A token: as it is, as an `Authorization` header, and signed, so that its claims are reached. Keys of every algorithm
/// are there, and the corpus has tokens that they have signed.
private final class TokenTarget: FuzzTarget {
    private let verifier: TokenVerifier
    private let key: HMACKey

    init() throws {
        let secret = [UInt8](repeating: 7, count: 32)
        let keys = KeySet(joining: [
            try KeySet(secrets: [secret]),
            try KeySet(pem: Array((TestKeys.rsaAPublic + "\n" + TestKeys.ecAPublic).utf8)),
            try KeySet(jwks: TestKeys.jwks(TestKeys.ecKey(TestKeys.ecBPoint, kid: "k1"))),
        ])
        let policy = TokenPolicy(issuer: "issuer", audience: "audience")
        verifier = try TokenVerifier(policy, keys: KeyRing(keys), remembering: 64)
        guard let key = HMACKey(secret) else { fatalError("no key") }
        self.key = key
    }

    func run(_ input: UnsafeRawBufferPointer) {
        attempt { () throws(AuthenticationError) in _ = try verifier.verify(token: input, now: now) }
        attempt { () throws(AuthenticationError) in _ = try verifier.verify(authorization: input, now: now) }
        sign(input)
    }

    /// Takes the input for the claims of a well signed token.
    private func sign(_ input: UnsafeRawBufferPointer) {
        var token = Array("eyJhbGciOiJIUzI1NiJ9.".utf8) + Base64URL.encode(input)
        guard let code = token.withUnsafeBytes({ key.code(of: $0) }) else { return }
        token.append(UInt8(ascii: "."))
        token += Base64URL.encode(code.indices.map { code[$0] })
        token.withUnsafeBytes { token in
            attempt { () throws(AuthenticationError) in _ = try verifier.verify(token: token, now: now) }
        }
    }

    private func attempt(_ body: () throws(AuthenticationError) -> Void) {
        do throws(AuthenticationError) { try body() } catch { _ = error.description }
    }
}

/// Keys as files and servers give them: a JWKS, a PEM file, and the numbers of single keys. What is found is loaded and
/// tried on tokens that need it.
private final class KeysTarget: FuzzTarget {
    private let tokens = ["HS256", "RS256", "ES256"].map { name in
        let header = Base64URL.encode(#"{"alg":"\#(name)"}"#.utf8)
        let claims = Base64URL.encode(#"{"sub":"x","exp":4000000000}"#.utf8)
        return header + [46] + claims + [46] + Base64URL.encode([UInt8](repeating: 1, count: 64))
    }

    func run(_ input: UnsafeRawBufferPointer) {
        let bytes = Array(input)
        attempt { () throws(KeyFailure) in try KeySet(jwks: bytes) }
        attempt { () throws(KeyFailure) in try KeySet(pem: bytes) }
        func text(_ bytes: some Collection<UInt8>) -> String {
            String(decoding: Base64URL.encode(bytes), as: UTF8.self)
        }
        let (first, second) = (bytes.prefix(bytes.count / 2), bytes.suffix(from: bytes.count / 2))
        let modulus = TestKeys.jwks(TestKeys.rsaKey(text(bytes)))
        attempt { () throws(KeyFailure) in try KeySet(jwks: modulus) }
        let point = TestKeys.jwks(TestKeys.ecKey((x: text(first), y: text(second))))
        attempt { () throws(KeyFailure) in try KeySet(jwks: point) }
    }

    private func attempt(_ read: () throws(KeyFailure) -> KeySet) {
        do throws(KeyFailure) {
            let keys = try read()
            guard let verifier = try? TokenVerifier(TokenPolicy(), keys: KeyRing(keys), remembering: 1) else { return }
            for token in tokens {
                token.withUnsafeBytes { token in
                    do throws(AuthenticationError) {
                        _ = try verifier.verify(token: token, now: now)
                        check(false, "a token is believed that nobody signed")
                    } catch {
                        _ = error.description
                    }
                }
            }
        } catch {
            _ = error.description
        }
    }
}

/// A request's bytes through parser, path match and query: whole, and cut in two at every place that its size names.
private final class PathTarget: FuzzTarget {
    private let dispatcher: Dispatcher

    init() throws {
        let verifier = try TokenVerifier(TokenPolicy(hmacKeys: [Array(repeating: 7, count: 32)]))
        let tools = try LoopTools(zones: ZoneTable(), fallbackZone: "UTC")
        dispatcher = try Dispatcher(verifier: verifier, tools: tools)
    }

    func run(_ input: UnsafeRawBufferPointer) {
        let bytes = Array(input)
        read(bytes)
        // The input as a target alone, so that it gets past the parser more often.
        read(Array("POST /".utf8) + bytes + Array(" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n".utf8))
        _ = try? RequestBytes.flag("strict", query: input)
        _ = RequestBytes.decodedSegment(input)
        _ = RequestBytes.isJSON(contentType: input)
        _ = Traceparent.traceID(input)
        for method in [HTTPMethod.get, .post, .put, .delete] { _ = dispatcher.match(method, input) }
    }

    private func read(_ bytes: [UInt8]) {
        HTTPRequest.withRequest(parsing: bytes) { request in
            check(request.path.count > 0, "a path is empty")
            _ = dispatcher.match(request.method, request.path)
            _ = try? RequestBytes.flag("strict", query: request.query)
            for index in 0..<request.headerCount { _ = request.header(at: index) }
        }
    }
}

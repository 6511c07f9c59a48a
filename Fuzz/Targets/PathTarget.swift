import Authentication
import TimeZones

@testable import HTTPServer
@testable import IngestService

/// A request's bytes through parser, path match and query.
final class PathTarget: FuzzTarget {
    private let dispatcher: Dispatcher

    init() throws {
        let verifier = try TokenVerifier(TokenPolicy(hmacKeys: [Array(repeating: 7, count: 32)]))
        let tools = try LoopTools(zones: ZoneTable(), fallbackZone: "UTC")
        dispatcher = try Dispatcher(verifier: verifier, tools: tools)
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        let bytes = Array(input)
        try read(bytes)
        // The input as a target alone, so that it gets past the parser more often.
        try read(Array("POST /".utf8) + bytes + Array(" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n".utf8))
        _ = try? RequestBytes.flag("strict", query: input)
        _ = RequestBytes.decodedSegment(input)
        _ = RequestBytes.isJSON(contentType: input)
        _ = Traceparent.traceID(input)
        for method in [HTTPMethod.get, .post, .put, .delete] { _ = dispatcher.match(method, input) }
    }

    private func read(_ bytes: [UInt8]) throws {
        try HTTPRequest.withRequest(parsing: bytes) { request in
            try check(request.path.count > 0, "a path is empty")
            _ = dispatcher.match(request.method, request.path)
            _ = try? RequestBytes.flag("strict", query: request.query)
            for index in 0..<request.headerCount { _ = request.header(at: index) }
        }
    }
}

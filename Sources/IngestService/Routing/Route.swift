import Authentication
import Domain
import Glibc
import HTTPServer

/// One thing that the public door does: a method and a path, who may use it, and what it makes of a request.
///
/// Each has a file of its own under `Routes/`, and stands in `RouteTable`.
struct Route: Sendable {
    /// Decides what a request becomes; belongs to one loop's thread.
    typealias Handler = (RouteCall) throws(RequestProblem) -> RoutePlan

    enum Kind: Sendable {
        /// For everybody, without a token; it writes nothing.
        case read(@Sendable () -> HTTPResponse)
        /// Takes a token with one of these roles. `handler` is called once a loop.
        case write(roles: [Role], handler: @Sendable (LoopTools) throws -> Handler)
    }

    let method: HTTPMethod
    let path: PathPattern
    let kind: Kind
    let documentation: RouteDocumentation

    /// Whether it counts in heartbeats, and needs an open door.
    var isWrite: Bool {
        switch kind {
        case .read: false
        case .write: true
        }
    }

    var roles: [Role] {
        switch kind {
        case .read: []
        case .write(let roles, _): roles
        }
    }
}

/// A path, at most one of whose segments is variable: `/v1/users/{id}/days`.
struct PathPattern: Sendable {
    /// As it stands in metrics, logs, records and the interface's description.
    let text: StaticString
    private let prefix: Int
    private let suffix: Int
    /// The variable segment's name.
    let parameter: String?

    init(_ text: StaticString) {
        self.text = text
        let bytes = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        if let open = bytes.firstIndex(of: UInt8(ascii: "{")), let close = bytes.firstIndex(of: UInt8(ascii: "}")),
            open < close
        {
            prefix = open
            suffix = bytes.count - close - 1
            parameter = String(decoding: bytes[(open + 1)..<close], as: UTF8.self)
        } else {
            prefix = bytes.count
            suffix = 0
            parameter = nil
        }
    }

    /// The variable segment (empty where there is none), as it was sent; nil for another path.
    func match(_ path: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        let start = text.utf8Start
        guard path.count >= prefix + suffix, let base = path.baseAddress else { return nil }
        guard memcmp(base, start, prefix) == 0 else { return nil }
        guard parameter != nil else {
            return path.count == prefix ? UnsafeRawBufferPointer(start: nil, count: 0) : nil
        }
        let end = path.count - suffix
        for index in 0..<suffix where path[end + index] != start[text.utf8CodeUnitCount - suffix + index] {
            return nil
        }
        let segment = UnsafeRawBufferPointer(rebasing: path[prefix..<end])
        return segment.isEmpty || segment.contains(UInt8(ascii: "/")) ? nil : segment
    }
}

/// What a request says, apart from HTTP, and whose it is. The bytes live as long as the call.
struct RouteCall {
    var identity: Identity
    /// The path's variable segment as it was sent; empty where there is none.
    var parameter = UnsafeRawBufferPointer(start: nil, count: 0)
    var query = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The header `X-Time-Zone`.
    var headerZone: UnsafeRawBufferPointer?
    /// `JSONParser.padding` more bytes may be read behind it.
    var paddedBody: UnsafeRawBufferPointer
    var receivedAt: Instant
    var event: EventID
}

extension HTTPMethod {
    var name: String {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .patch: "PATCH"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .other: ""
        }
    }

    var hasBody: Bool {
        switch self {
        case .post, .put, .patch: true
        case .get, .head, .delete, .options, .other: false
        }
    }
}

/// How a request's stream ended.
public enum StreamEnd: Sendable {
    case answered(HTTP2Answer)
    /// The server certainly did not process it: it was never written, was refused (REFUSED_STREAM), or stands above the
    /// last stream of a GOAWAY. It may be sent again.
    case unprocessed
    /// It was written, at least a part of it, and nothing tells what became of it.
    case lost
}

/// An answer, or as much of it as came before its stream ended.
public struct HTTP2Answer: Sendable {
    public let status: Int
    /// The header `retry-after`; empty if there is none.
    public let retryAfter: [UInt8]
    /// At most `HTTP2Answer.longestBody` bytes.
    public let body: [UInt8]

    public static let longestBody = 4096

    public init(status: Int, retryAfter: [UInt8] = [], body: [UInt8] = []) {
        self.status = status
        self.retryAfter = retryAfter
        self.body = body
    }
}

/// A request's body, in memory that stays where it is.
public final class HTTP2Body {
    let bytes: UnsafeMutableRawBufferPointer

    public init(_ content: [UInt8]) {
        bytes = .allocate(byteCount: content.count, alignment: 16)
        bytes.copyBytes(from: content)
    }

    deinit { bytes.deallocate() }
}

/// Hears of a connection, on the thread that drives it; must not drive it from inside these calls, but may submit.
public protocol ClientConnectionHandler: AnyObject {
    /// TLS and HTTP/2 are agreed on: requests may be submitted.
    func opened(_ connection: ClientConnection)
    /// The one end of a submitted request, by the number that `submit` gave; the number is free again.
    func ended(_ connection: ClientConnection, stream: Int, _ end: StreamEnd)
    /// The server takes no further requests here. Those it took are answered or ended as always.
    func goesAway(_ connection: ClientConnection)
    /// Nothing more will come; all its streams have ended before.
    func closed(_ connection: ClientConnection, _ failure: HTTP2Failure)
}

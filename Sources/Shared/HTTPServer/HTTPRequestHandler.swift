/// Names one request on its connection; an answer under a name that is no longer open is ignored.
public struct HTTPExchangeID: Hashable, Sendable {
    /// Fits a C library's opaque pointer, and comes back as it was. Never zero.
    public let rawValue: UInt64

    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    init(slot: Int, serial: UInt32) {
        rawValue = UInt64(serial) << 32 | UInt64(UInt32(truncatingIfNeeded: slot))
    }

    /// A small number, unique among the open exchanges of one loop: an index for a table of pending work.
    public var slot: Int { Int(UInt32(truncatingIfNeeded: rawValue)) }
    var serial: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }
}

public enum HTTPDisposition {
    case answer(HTTPResponse)
    /// `HTTPEventLoop.answer` will follow, or was already called. After `within` (nil: the configured time),
    /// `exchangeExpired` is asked for an answer.
    case later(within: Duration?)

    public static var later: HTTPDisposition { .later(within: nil) }
}

/// What becomes of a compressed body, decided by all that stands before it.
public enum HTTPBodyUse {
    /// It is decompressed, and the request handled.
    case read
    /// It is not looked at; the request is handled with an empty one.
    case ignore
    /// The request is refused so: nobody decompresses for a client that is not let in.
    case answer(HTTPResponse)
}

/// What answers requests. Everything is called on the loop's thread.
public protocol HTTPRequestHandler: AnyObject {
    /// Called once from `run()`, before anything else. The loop holds the handler: hold the loop weakly or unowned.
    func loopStarted(_ loop: HTTPEventLoop)

    /// Asked for a request with a compressed body before that is decompressed; the request's own body is empty.
    func bodyUse(_ request: borrowing HTTPRequest) -> HTTPBodyUse

    /// Must not block. The request's bytes live only during this call.
    func handle(_ request: borrowing HTTPRequest, exchange: HTTPExchangeID) -> HTTPDisposition

    /// The client left (or closed its sending side), or the loop was stopped, before the answer; the exchange is gone.
    func exchangeAbandoned(_ exchange: HTTPExchangeID)

    /// The time for a later answer is over: what is returned is sent. The exchange is gone.
    func exchangeExpired(_ exchange: HTTPExchangeID) -> HTTPResponse
}

extension HTTPRequestHandler {
    public func loopStarted(_ loop: HTTPEventLoop) {}
    public func bodyUse(_ request: borrowing HTTPRequest) -> HTTPBodyUse { .read }
    public func exchangeAbandoned(_ exchange: HTTPExchangeID) {}
    public func exchangeExpired(_ exchange: HTTPExchangeID) -> HTTPResponse { Refusal.unanswered.response }
}

/// Counts what happens at the door. Called on the loop's thread; must be quick.
public protocol HTTPServerObserver: AnyObject {
    func connectionOpened()
    /// `reason` is one of a fixed set of words.
    func connectionClosed(reason: StaticString)
    /// The server itself turned a request away; `reason` is the problem's code.
    func requestRefused(status: Int, reason: StaticString)
    /// A handler's answer went out. The time runs from the request's first byte.
    func requestAnswered(status: Int, nanoseconds: UInt64)
    /// New connections can't be taken for a moment (descriptors or memory are used up).
    func acceptPaused(errno: Int32)
}

extension HTTPServerObserver {
    public func connectionOpened() {}
    public func connectionClosed(reason: StaticString) {}
    public func requestRefused(status: Int, reason: StaticString) {}
    public func requestAnswered(status: Int, nanoseconds: UInt64) {}
    public func acceptPaused(errno: Int32) {}
}

/// Why a loop could not be made or could not listen.
public struct HTTPServerError: Error, CustomStringConvertible {
    public let description: String
    public let errno: Int32
}

/// The methods that routes speak of.
public enum HTTPMethod: UInt8, Sendable {
    case get, head, post, put, patch, delete, options
    /// A method that no route of ours has: answer 405.
    case other
}

/// Headers whose place is noted while the request is parsed, so that looking one up costs nothing.
public enum HTTPKnownHeader: UInt8, Sendable, CaseIterable {
    case contentType, contentEncoding, authorization, expect, timeZone, traceparent, host, transferEncoding
}

/// One request, valid only during `HTTPRequestHandler.handle`; all bytes are as they were sent, nothing is decoded but
/// gzip and chunks.
public struct HTTPRequest: ~Copyable {
    public let method: HTTPMethod
    /// After gzip and chunks. At least 64 more bytes behind it may be read (not relied on), as simdjson asks for.
    public let body: UnsafeRawBufferPointer
    let base: UnsafeRawPointer
    let head: UnsafePointer<RequestHead>
    let headers: UnsafePointer<HeaderSlot>

    init(base: UnsafeRawPointer, parser: borrowing RequestParser, body: UnsafeRawBufferPointer) {
        self.base = base
        self.body = body
        head = parser.head
        headers = parser.headers
        method = parser.head.pointee.method
    }

    /// The body came compressed: the handler was asked for its use before.
    public var isCompressed: Bool { head.pointee.isGzip }

    /// The target up to `?`, without decoding of percent signs. Never empty.
    public var path: UnsafeRawBufferPointer { bytes(head.pointee.path) }

    /// What stands behind `?`; empty if there is none.
    public var query: UnsafeRawBufferPointer { bytes(head.pointee.query) }

    public var headerCount: Int { head.pointee.headerCount }

    /// The first header of this kind, without the white space around it.
    public func header(_ known: HTTPKnownHeader) -> UnsafeRawBufferPointer? {
        guard head.pointee.has(known) else { return nil }
        return bytes(head.pointee.known[Int(known.rawValue)])
    }

    /// The first header of this name (given in lower case), searched one by one.
    public func header(named name: StaticString) -> UnsafeRawBufferPointer? {
        for index in 0..<head.pointee.headerCount where equalsLowercased(bytes(headers[index].name), name) {
            return bytes(headers[index].value)
        }
        return nil
    }

    /// Name and value of the header at an index below `headerCount`; nil beyond.
    public func header(at index: Int) -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)? {
        guard index >= 0, index < head.pointee.headerCount else { return nil }
        return (bytes(headers[index].name), bytes(headers[index].value))
    }

    private func bytes(_ range: ByteRange) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + Int(range.start), count: range.count)
    }
}

/// A place in the request's bytes, counted from its first byte, so that it survives the buffer's moves.
struct ByteRange {
    var start: UInt32 = 0
    var end: UInt32 = 0

    var count: Int { end > start ? Int(end - start) : 0 }
}

struct HeaderSlot {
    var name = ByteRange()
    var value = ByteRange()
}

/// What is known of a request once its headers are complete.
struct RequestHead {
    var method = HTTPMethod.other
    var isHTTP10 = false
    var keepsAlive = false
    var isChunked = false
    var isGzip = false
    var wantsContinue = false
    /// The request is turned away once its body, whose end is known, has been read.
    var declined: Refusal?
    var isComplete = false
    var headerCount = 0
    /// Bytes of request line and headers, with the empty line.
    var length = 0
    var contentLength = 0
    var bodyStart = 0
    var bodyLength = 0
    var target = ByteRange()
    var path = ByteRange()
    var query = ByteRange()
    var known = InlineArray<8, ByteRange>(repeating: ByteRange())
    private var seen: UInt16 = 0
    private var repeated: UInt16 = 0

    /// Makes ready for the next message. Places of headers that weren't seen are never looked at, so they stay.
    mutating func reset() {
        isGzip = false
        wantsContinue = false
        declined = nil
        isComplete = false
        headerCount = 0
        length = 0
        contentLength = 0
        bodyStart = 0
        bodyLength = 0
        target = ByteRange()
        path = ByteRange()
        query = ByteRange()
        seen = 0
        repeated = 0
    }

    // Inlined, so that nobody copies a whole head for a bit of it.
    @inline(__always)
    func has(_ header: HTTPKnownHeader) -> Bool { seen & 1 << header.rawValue != 0 }
    @inline(__always)
    func hasRepeated(_ header: HTTPKnownHeader) -> Bool { repeated & 1 << header.rawValue != 0 }

    /// A header came more than once of which only one may.
    @inline(__always)
    var hasRepeatedSingle: Bool {
        hasRepeated(.authorization) || hasRepeated(.contentType) || hasRepeated(.contentEncoding)
            || hasRepeated(.expect)
    }

    mutating func note(_ header: HTTPKnownHeader, _ value: ByteRange) {
        guard !has(header) else {
            repeated |= 1 << header.rawValue
            return
        }
        seen |= 1 << header.rawValue
        known[Int(header.rawValue)] = value
    }
}

/// Compares ASCII without regard to case; `lower` must be in lower case, with letters and `-` only.
@inline(__always)
func equalsLowercased(_ bytes: UnsafeRawBufferPointer, _ lower: StaticString) -> Bool {
    guard bytes.count == lower.utf8CodeUnitCount else { return false }
    let expected = lower.utf8Start
    for index in 0..<bytes.count where bytes[index] | 0x20 != expected[index] {
        return false
    }
    return true
}

extension HTTPKnownHeader {
    /// Finds the kind of a header by its name, in any case.
    static func named(_ name: UnsafeRawBufferPointer) -> HTTPKnownHeader? {
        switch name.count {
        case 4: equalsLowercased(name, "host") ? .host : nil
        case 6: equalsLowercased(name, "expect") ? .expect : nil
        case 11:
            if equalsLowercased(name, "traceparent") {
                .traceparent
            } else {
                equalsLowercased(name, "x-time-zone") ? .timeZone : nil
            }
        case 12: equalsLowercased(name, "content-type") ? .contentType : nil
        case 13: equalsLowercased(name, "authorization") ? .authorization : nil
        case 16: equalsLowercased(name, "content-encoding") ? .contentEncoding : nil
        case 17: equalsLowercased(name, "transfer-encoding") ? .transferEncoding : nil
        default: nil
        }
    }
}

import CLLHTTP
import Glibc

enum ParseOutcome {
    /// Everything given was taken in; more must come.
    case incomplete
    /// The message ends at this offset from its first byte.
    case complete(end: Int)
    case refused(Refusal)
}

/// Owns one llhttp parser and what it found out about the message.
struct RequestParser: ~Copyable {
    let head: UnsafePointer<RequestHead>
    let headers: UnsafePointer<HeaderSlot>
    private let state: UnsafeMutablePointer<ParserState>
    private let parser: UnsafeMutablePointer<llhttp_t>

    init?(limits: Limits) {
        let state = UnsafeMutablePointer<ParserState>.allocate(capacity: 1)
        state.initialize(to: ParserState(limits: limits))
        // Stored properties of a struct have an address.
        guard let parser = state.pointer(to: \.parser), let head = state.pointer(to: \.head) else { return nil }
        self.state = state
        self.parser = parser
        self.head = UnsafePointer(head)
        headers = UnsafePointer(state.pointee.slots)
        llhttp_init(parser, HTTP_REQUEST, parserSettings)
        parser.pointee.data = UnsafeMutableRawPointer(state)
    }

    deinit {
        state.pointee.slots.deallocate()
        state.deinitialize(count: 1)
        state.deallocate()
    }

    /// Forgets the message; the next `parse` begins one.
    func reset() {
        llhttp_reset(parser)
        state.pointee.reset()
    }

    /// Takes in the bytes from `start` (behind what was taken in before) to `end`, both counted from `base`, the
    /// message's first byte. May move body bytes to close the gaps between chunks, below `end`.
    func parse(_ base: UnsafeMutableRawPointer, from start: Int, to end: Int) -> ParseOutcome {
        state.pointee.base = base
        state.pointee.end = end
        let before = state.pointee.lastByte
        if end > start { state.pointee.lastByte = base.load(fromByteOffset: end - 1, as: UInt8.self) }
        let data = UnsafePointer((base + start).assumingMemoryBound(to: CChar.self))
        let status = llhttp_execute(parser, data, end - start)
        var stop = end
        if status != HPE_OK, let position = llhttp_get_error_pos(parser) {
            stop = UnsafeRawPointer(position) - UnsafeRawPointer(base)
        }
        state.pointee.taken += max(stop - start, 0)
        if let refusal = state.pointee.verdict(status) { return .refused(refusal) }
        guard status == HPE_PAUSED else { return .incomplete }
        // llhttp takes a bare line feed for the empty line behind trailers.
        let last = stop - 2 >= start ? base.load(fromByteOffset: stop - 2, as: UInt8.self) : before
        if state.pointee.head.isChunked, last != UInt8(ascii: "\r") { return .refused(.malformed) }
        return .complete(end: stop)
    }
}

/// What the callbacks of one parser write to; llhttp's `data` points to it.
struct ParserState {
    var parser = llhttp_t()
    var head = RequestHead()
    var base: UnsafeMutableRawPointer
    var end = 0
    /// Bytes of this message taken in so far.
    var taken = 0
    /// The last of them.
    var lastByte: UInt8 = 0
    let slots: UnsafeMutablePointer<HeaderSlot>
    private let limits: Limits
    private var refusal: Refusal?
    private var isInValue = false

    init(limits: Limits) {
        self.limits = limits
        slots = .allocate(capacity: limits.headers)
        // Until the first parse gives the message's place: any valid address.
        base = UnsafeMutableRawPointer(slots)
        slots.initialize(repeating: HeaderSlot(), count: limits.headers)
    }

    mutating func reset() {
        head.reset()
        taken = 0
        refusal = nil
        isInValue = false
    }

    /// Why the message must be turned away after llhttp answered `status`, if it must.
    mutating func verdict(_ status: llhttp_errno_t) -> Refusal? {
        if let refusal { return refusal }
        switch status {
        case HPE_OK, HPE_PAUSED:
            if !head.isComplete {
                guard taken > limits.headBytes else { return nil }
                return head.headerCount == 0 ? .targetTooLong : .headTooLarge
            }
            // Chunks count with their framing: tiny ones and long extensions are no way around the limit.
            return taken - head.length > limits.bodyBytes ? .bodyTooLarge : nil
        case HPE_UNEXPECTED_CONTENT_LENGTH, HPE_INVALID_CONTENT_LENGTH, HPE_INVALID_TRANSFER_ENCODING,
            HPE_INVALID_CHUNK_SIZE:
            return .framing
        default:
            return .malformed
        }
    }

    // MARK: Callbacks

    mutating func addTarget(_ at: UnsafePointer<CChar>, _ length: Int) -> Int32 {
        head.target.extend(at, length, from: base)
        return head.target.count > limits.targetBytes ? refuse(.targetTooLong) : 0
    }

    mutating func addName(_ at: UnsafePointer<CChar>, _ length: Int) -> Int32 {
        // Trailers are taken in (within the body's limit) and ignored.
        guard !head.isComplete else { return 0 }
        if isInValue || head.headerCount == 0 {
            finishHeader()
            guard head.headerCount < limits.headers else { return refuse(.headTooLarge) }
            slots[head.headerCount] = HeaderSlot()
            head.headerCount += 1
            isInValue = false
        }
        slots[head.headerCount - 1].name.extend(at, length, from: base)
        return 0
    }

    mutating func finishName() -> Int32 {
        isInValue = true
        return 0
    }

    mutating func addValue(_ at: UnsafePointer<CChar>, _ length: Int) -> Int32 {
        guard !head.isComplete, head.headerCount > 0 else { return 0 }
        slots[head.headerCount - 1].value.extend(at, length, from: base)
        return 0
    }

    mutating func finishHead() -> Int32 {
        finishHeader()
        head.isComplete = true
        // No upgrade is spoken here: such a request is answered as if it had not asked.
        parser.upgrade = 0
        head.keepsAlive = llhttp_should_keep_alive(&parser) != 0
        head.isChunked = UInt32(parser.flags) & F_CHUNKED.rawValue != 0
        head.contentLength = Int(clamping: parser.content_length)
        head.method = method(llhttp_get_method(&parser))
        if let refusal = checkFraming() ?? checkHeaders() { return refuse(refusal) }
        return 0
    }

    mutating func addBody(_ at: UnsafePointer<CChar>, _ length: Int) -> Int32 {
        let source = UnsafeRawPointer(at)
        let offset = source - UnsafeRawPointer(base)
        if head.bodyLength == 0 { head.bodyStart = offset }
        let place = head.bodyStart + head.bodyLength
        if place != offset { memmove(base + place, source, length) }
        head.bodyLength += length
        return head.bodyLength > limits.bodyBytes ? refuse(.bodyTooLarge) : 0
    }

    private mutating func refuse(_ refusal: Refusal) -> Int32 {
        self.refusal = refusal
        return Int32(HPE_USER.rawValue)
    }

    private mutating func finishHeader() {
        guard head.headerCount > 0 else { return }
        let slot = head.headerCount - 1
        var value = slots[slot].value
        while value.count > 0, isBlank(Int(value.end) - 1) { value.end -= 1 }
        slots[slot].value = value
        let name = slots[slot].name
        let bytes = UnsafeRawBufferPointer(start: base + Int(name.start), count: name.count)
        if let known = HTTPKnownHeader.named(bytes) { head.note(known, value) }
    }

    private func isBlank(_ offset: Int) -> Bool {
        let byte = base.load(fromByteOffset: offset, as: UInt8.self)
        return byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t")
    }

    private func method(_ number: UInt8) -> HTTPMethod {
        switch UInt32(number) {
        case HTTP_POST.rawValue: .post
        case HTTP_GET.rawValue: .get
        case HTTP_HEAD.rawValue: .head
        case HTTP_PUT.rawValue: .put
        case HTTP_DELETE.rawValue: .delete
        case HTTP_PATCH.rawValue: .patch
        case HTTP_OPTIONS.rawValue: .options
        default: .other
        }
    }
}

extension ByteRange {
    /// Adds a piece that llhttp found; the pieces of one name or value follow each other.
    @inline(__always)
    fileprivate mutating func extend(_ at: UnsafePointer<CChar>, _ length: Int, from base: UnsafeMutableRawPointer) {
        let offset = UInt32(clamping: UnsafeRawPointer(at) - UnsafeRawPointer(base))
        if count == 0 { start = offset }
        end = offset + UInt32(clamping: length)
    }
}

// MARK: What llhttp lets through and must not pass

extension ParserState {
    private mutating func checkFraming() -> Refusal? {
        guard let minor = minorVersion() else { return .version }
        head.isHTTP10 = minor == 0
        switch headEnd() {
        case .at(let length): head.length = length
        case .refused(let refusal): return refusal
        }
        if head.length > limits.headBytes { return .headTooLarge }
        if head.has(.transferEncoding) {
            let isPlain = equalsLowercased(bytes(.transferEncoding), "chunked")
            guard isPlain, !head.hasRepeated(.transferEncoding), !head.isHTTP10 else { return .framing }
        }
        if head.hasRepeated(.host) || !head.has(.host) && !head.isHTTP10 { return .host }
        return head.hasRepeatedSingle ? .repeatedHeader : nil
    }

    private mutating func checkHeaders() -> Refusal? {
        if llhttp_get_method(&parser) == UInt8(HTTP_CONNECT.rawValue) { return .methodNotImplemented }
        guard splitTarget() else { return .target }
        let hasLength = UInt32(parser.flags) & F_CONTENT_LENGTH.rawValue != 0
        switch head.method {
        case .post, .put, .patch:
            if !hasLength, !head.isChunked { return .lengthRequired }
        default:
            break
        }
        if head.contentLength > limits.bodyBytes { return .bodyTooLarge }
        if head.has(.contentEncoding) {
            let coding = bytes(.contentEncoding)
            head.isGzip = equalsLowercased(coding, "gzip") || equalsLowercased(coding, "x-gzip")
            if !head.isGzip, !equalsLowercased(coding, "identity") { head.declined = .contentEncoding }
        }
        if head.has(.expect), !head.isHTTP10 {
            guard equalsLowercased(bytes(.expect), "100-continue") else { return .expectation }
            head.wantsContinue = head.isChunked || head.contentLength > 0
        }
        // Whether a client that waits for leave still sends its body after another answer, nobody knows.
        return head.wantsContinue ? head.declined : nil
    }

    /// Reads the end of the request line itself: llhttp also takes HTTP/0.9 (nothing there) and RTSP.
    private func minorVersion() -> UInt8? {
        let start = Int(head.target.end)
        guard end - start >= 10 else { return nil }
        let expected: StaticString = " HTTP/1."
        guard memcmp(base + start, expected.utf8Start, 8) == 0 else { return nil }
        let minor = base.load(fromByteOffset: start + 8, as: UInt8.self) &- UInt8(ascii: "0")
        let next = base.load(fromByteOffset: start + 9, as: UInt8.self)
        return minor <= 1 && next == UInt8(ascii: "\r") ? minor : nil
    }

    private enum HeadEnd {
        /// Bytes up to and with the empty line.
        case at(Int)
        case refused(Refusal)
    }

    /// Looks at how each line begins: white space continues a header, and a line feed alone, which llhttp takes for the
    /// empty line, would end the head elsewhere than the next server thinks.
    private func headEnd() -> HeadEnd {
        var position = Int(head.target.end)
        while position < end, let found = memchr(base + position, 10, end - position) {
            let next = UnsafeRawPointer(found) - UnsafeRawPointer(base) + 1
            guard next < end else { break }
            if isBlank(next) { return .refused(.foldedHeader) }
            let byte = base.load(fromByteOffset: next, as: UInt8.self)
            if byte == UInt8(ascii: "\r") { return .at(next + 2) }
            if byte == UInt8(ascii: "\n") { break }
            position = next
        }
        return .refused(.malformed)
    }

    /// Finds path and query; of an absolute target only what stands behind the authority.
    private mutating func splitTarget() -> Bool {
        var path = head.target
        let target = bytes(path)
        guard let first = target.first, !target.contains(UInt8(ascii: "#")) else { return false }
        if first == UInt8(ascii: "*") {
            return finishTarget(path, isValid: head.method == .options && target.count == 1)
        }
        if first != UInt8(ascii: "/") {
            guard let skipped = authorityEnd(target) else { return false }
            path.start += UInt32(clamping: skipped)
        }
        return finishTarget(path, isValid: true)
    }

    private mutating func finishTarget(_ range: ByteRange, isValid: Bool) -> Bool {
        head.path = range
        if let mark = bytes(range).firstIndex(of: UInt8(ascii: "?")) {
            head.path.end = range.start + UInt32(clamping: mark)
            head.query = ByteRange(start: head.path.end + 1, end: range.end)
        }
        return isValid && head.path.count > 0
    }

    /// Where the path begins in `http://host/path`.
    private func authorityEnd(_ target: UnsafeRawBufferPointer) -> Int? {
        for scheme in ["http://", "https://"] as [StaticString] where target.count > scheme.utf8CodeUnitCount {
            let length = scheme.utf8CodeUnitCount
            guard equalsScheme(UnsafeRawBufferPointer(rebasing: target[..<length]), scheme) else { continue }
            return target[length...].firstIndex(of: UInt8(ascii: "/"))
        }
        return nil
    }

    private func equalsScheme(_ bytes: UnsafeRawBufferPointer, _ scheme: StaticString) -> Bool {
        bytes.elementsEqual(UnsafeBufferPointer(start: scheme.utf8Start, count: scheme.utf8CodeUnitCount)) {
            $0 == $1 || $0 | 0x20 == $1 && $1 >= UInt8(ascii: "a")
        }
    }

    private func bytes(_ header: HTTPKnownHeader) -> UnsafeRawBufferPointer {
        bytes(head.known[Int(header.rawValue)])
    }

    private func bytes(_ range: ByteRange) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + Int(range.start), count: range.count)
    }
}

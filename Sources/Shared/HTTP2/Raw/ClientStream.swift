import CNGHTTP2

/// One request under way, and what came of its answer. Used again for later requests.
final class ClientStream {
    let index: Int
    var id: Int32 = 0
    /// Where its first byte stands in all that the session gave out; negative until then.
    var start: Int64 = -1
    var isOpen = false
    var submitted: Int64 = 0
    private(set) var status = 0
    private(set) var retryAfter: [UInt8] = []
    private(set) var body: [UInt8] = []
    private var headers: RequestHeaders?
    private var sent: HTTP2Body?
    private var sentBytes = 0
    /// The value that varies; it must stay where it is until the headers are written.
    private var value: UnsafeMutableRawBufferPointer

    init(index: Int) {
        self.index = index
        value = .allocate(byteCount: 512, alignment: 16)
    }

    deinit { value.deallocate() }

    /// Begins anew. Writes the pairs of `headers`, with the value that varies, to `pairs`.
    func begin(
        _ headers: RequestHeaders,
        value bytes: [UInt8],
        body: HTTP2Body,
        pairs: UnsafeMutablePointer<nghttp2_nv>
    ) {
        status = 0
        start = -1
        if !retryAfter.isEmpty { retryAfter = [] }
        if !self.body.isEmpty { self.body = [] }
        self.headers = headers
        sent = body
        sentBytes = 0
        if bytes.count > value.count {
            value.deallocate()
            value = .allocate(byteCount: bytes.count * 2, alignment: 16)
        }
        value.copyBytes(from: bytes)
        if let source = headers.fields.baseAddress { pairs.update(from: source, count: headers.fields.count) }
        guard let place = headers.varying else { return }
        pairs[place].value = value.baseAddress?.assumingMemoryBound(to: UInt8.self)
        pairs[place].valuelen = bytes.count
    }

    /// Lets go of what the request was made of.
    func finish() {
        headers = nil
        sent = nil
        isOpen = false
        id = 0
    }

    /// Copies the next part of the request's body; sets the flag at its end.
    func readBody(into room: UnsafeMutablePointer<UInt8>, length: Int, _ flags: UnsafeMutablePointer<UInt32>) -> Int {
        guard let bytes = sent?.bytes, let start = bytes.baseAddress else {
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
            return 0
        }
        let count = min(length, bytes.count - sentBytes)
        UnsafeMutableRawPointer(room).copyMemory(from: start + sentBytes, byteCount: count)
        sentBytes += count
        if sentBytes == bytes.count { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
        return count
    }

    /// The headers that are kept.
    enum Field {
        case status, retryAfter
    }

    static func field(_ name: UnsafeBufferPointer<UInt8>) -> Field? {
        switch name.count {
        case 7 where isEqual(name, ":status"): .status
        case 11 where isEqual(name, "retry-after"): .retryAfter
        default: nil
        }
    }

    func receive(_ field: Field, _ value: UnsafeBufferPointer<UInt8>) {
        switch field {
        // nghttp2 lets nothing but three digits through.
        case .status: status = value.prefix(3).reduce(0) { $0 * 10 + (Int($1) - 48) }
        case .retryAfter: retryAfter = Array(value.prefix(64))
        }
    }

    func receiveBody(_ bytes: UnsafeBufferPointer<UInt8>) {
        body.append(contentsOf: bytes.prefix(HTTP2Answer.longestBody - body.count))
    }

    var answer: HTTP2Answer { HTTP2Answer(status: status, retryAfter: retryAfter, body: body) }

    private static func isEqual(_ bytes: UnsafeBufferPointer<UInt8>, _ text: StaticString) -> Bool {
        guard bytes.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count where bytes[index] != text.utf8Start[index] { return false }
        return true
    }
}

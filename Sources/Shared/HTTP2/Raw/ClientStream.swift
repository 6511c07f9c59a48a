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
    /// The values that vary; they must stay where they are until the headers are written.
    private var values: UnsafeMutableRawBufferPointer

    init(index: Int) {
        self.index = index
        values = .allocate(byteCount: 512, alignment: 16)
    }

    deinit { values.deallocate() }

    /// Begins anew. Writes the pairs of `headers`, with the values that vary, to `pairs`.
    func begin(
        _ headers: RequestHeaders,
        values parts: [UInt8],
        lengths: (Int, Int),
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
        if parts.count > values.count {
            values.deallocate()
            values = .allocate(byteCount: parts.count * 2, alignment: 16)
        }
        values.copyBytes(from: parts)
        if let source = headers.fields.baseAddress { pairs.update(from: source, count: headers.fields.count) }
        var offset = 0
        for (order, place) in headers.varying.enumerated() {
            let length = max(0, min(order == 0 ? lengths.0 : lengths.1, parts.count - offset))
            pairs[place].value = values.baseAddress.map { ($0 + offset).assumingMemoryBound(to: UInt8.self) }
            pairs[place].valuelen = length
            offset += length
        }
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

    func receiveHeader(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        switch name.count {
        case 7 where Self.isEqual(name, ":status"):
            // nghttp2 lets nothing but three digits through.
            status = value.prefix(3).reduce(0) { $0 * 10 + (Int($1) - 48) }
        case 11 where Self.isEqual(name, "retry-after"): retryAfter = Array(value.prefix(64))
        default: break
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

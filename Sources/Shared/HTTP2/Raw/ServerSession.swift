import CNGHTTP2

/// A server's session: for stand-ins in development and tests.
final class ServerSession: Session {
    /// Longer bodies are cut.
    private static let longestBody = 1 << 20

    final class Exchange {
        var headers: [(name: String, value: String)] = []
        var body: [UInt8] = []
        var answer: [UInt8] = []
        var answered = 0
    }

    private unowned let owner: ServerConnection
    private var exchanges: [Int32: Exchange] = [:]

    init(owner: ServerConnection, mostStreams: UInt32) throws(HTTP2Failure) {
        self.owner = owner
        try super.init(isServer: true, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, mostStreams)
    }

    var isOver: Bool { !wantsRead && !wantsWriteOfFrames }

    /// All that is to be written; nil if the session is broken.
    func produce() -> [UInt8]? {
        var bytes: [UInt8] = []
        while true {
            var start: UnsafePointer<UInt8>?
            let length = nghttp2_session_mem_send(handle, &start)
            guard length >= 0 else { return nil }
            guard length > 0 else { return bytes }
            bytes.append(contentsOf: UnsafeBufferPointer(start: start, count: length))
        }
    }

    func respond(_ stream: Int32, status: Int, headers: [(name: String, value: String)], body: [UInt8]) {
        guard let exchange = exchanges[stream] else { return }
        exchange.answer = body
        let all = [(name: ":status", value: String(status))] + headers
        var text: [UInt8] = []
        for (name, value) in all { text += Array(name.utf8) + Array(value.utf8) }
        text.withUnsafeMutableBufferPointer { text in
            guard var place = text.baseAddress else { return }
            // nghttp2 copies them.
            let pairs = all.map { name, value in
                var pair = nghttp2_nv()
                (pair.name, pair.namelen) = (place, name.utf8.count)
                place += name.utf8.count
                (pair.value, pair.valuelen) = (place, value.utf8.count)
                place += value.utf8.count
                return pair
            }
            var provider = nghttp2_data_provider()
            provider.source.ptr = Unmanaged.passUnretained(exchange).toOpaque()
            provider.read_callback = serverReadBody
            if body.isEmpty {
                _ = nghttp2_submit_response(handle, stream, pairs, pairs.count, nil)
            } else {
                _ = nghttp2_submit_response(handle, stream, pairs, pairs.count, &provider)
            }
        }
    }

    func reset(_ stream: Int32, isRefused: Bool) {
        let code = isRefused ? NGHTTP2_REFUSED_STREAM : NGHTTP2_INTERNAL_ERROR
        _ = nghttp2_submit_rst_stream(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
    }

    // MARK: - What nghttp2 reports

    override func header(
        _ stream: Int32,
        _ name: UnsafeBufferPointer<UInt8>,
        _ value: UnsafeBufferPointer<UInt8>
    ) {
        exchange(stream).headers.append((String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self)))
    }

    override func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        let exchange = exchange(stream)
        exchange.body.append(contentsOf: bytes.prefix(Self.longestBody - exchange.body.count))
    }

    private func exchange(_ stream: Int32) -> Exchange {
        if let known = exchanges[stream] { return known }
        let new = Exchange()
        exchanges[stream] = new
        return new
    }

    override func received(_ frame: nghttp2_frame_hd) {
        let type = UInt32(frame.type)
        guard type == NGHTTP2_DATA.rawValue || type == NGHTTP2_HEADERS.rawValue,
            UInt32(frame.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
            let exchange = exchanges[frame.stream_id]
        else { return }
        owner.received(ServerRequest(headers: exchange.headers, body: exchange.body), frame.stream_id)
    }

    override func closed(_ stream: Int32, code: UInt32) {
        exchanges[stream] = nil
    }
}

private func serverReadBody(
    _: OpaquePointer?,
    _: Int32,
    _ room: UnsafeMutablePointer<UInt8>?,
    _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?,
    _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _: UnsafeMutableRawPointer?
) -> Int {
    guard let room, let flags, let pointer = source?.pointee.ptr else { return 0 }
    let exchange = Unmanaged<ServerSession.Exchange>.fromOpaque(pointer).takeUnretainedValue()
    return exchange.read(into: room, length: length, flags)
}

extension ServerSession.Exchange {
    fileprivate func read(
        into room: UnsafeMutablePointer<UInt8>,
        length: Int,
        _ flags: UnsafeMutablePointer<UInt32>
    ) -> Int {
        let count = min(length, answer.count - answered)
        for index in 0..<count { room[index] = answer[answered + index] }
        answered += count
        if answered == answer.count { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
        return count
    }
}

import CNGHTTP2

/// Owns one nghttp2 session of a server: for stand-ins in development and tests. Belongs to one thread.
final class ServerSession {
    /// Longer bodies are cut.
    private static let longestBody = 1 << 20

    final class Exchange {
        var headers: [(name: String, value: String)] = []
        var body: [UInt8] = []
        var answer: [UInt8] = []
        var answered = 0
    }

    private let handle: OpaquePointer
    private unowned let owner: ServerConnection
    private var exchanges: [Int32: Exchange] = [:]

    init(owner: ServerConnection, mostStreams: UInt32) throws(HTTP2Failure) {
        guard let handle = Self.makeSession(Unmanaged.passUnretained(owner).toOpaque()) else {
            throw HTTP2Failure(.noResources)
        }
        self.handle = handle
        self.owner = owner
        var settings = nghttp2_settings_entry()
        settings.settings_id = Int32(truncatingIfNeeded: NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue)
        settings.value = mostStreams
        guard nghttp2_submit_settings(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, 1) == 0 else {
            throw HTTP2Failure(.noResources)
        }
    }

    deinit { nghttp2_session_del(handle) }

    private static func makeSession(_ owner: UnsafeMutableRawPointer) -> OpaquePointer? {
        var callbacks: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks else { return nil }
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_header_callback(callbacks, serverHeader)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, serverData)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, serverStreamClosed)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, serverFrame)
        var handle: OpaquePointer?
        guard nghttp2_session_server_new(&handle, callbacks, owner) == 0 else { return nil }
        return handle
    }

    var isOver: Bool { nghttp2_session_want_read(handle) == 0 && nghttp2_session_want_write(handle) == 0 }

    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let start = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        return nghttp2_session_mem_recv(handle, start, bytes.count) == bytes.count
    }

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

    func goAway(last: Int32) {
        _ = nghttp2_submit_goaway(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, NGHTTP2_NO_ERROR.rawValue, nil, 0)
    }

    // MARK: - What nghttp2 reports

    fileprivate func header(_ stream: Int32, _ name: String, _ value: String) {
        exchange(stream).headers.append((name, value))
    }

    fileprivate func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        let exchange = exchange(stream)
        exchange.body.append(contentsOf: bytes.prefix(Self.longestBody - exchange.body.count))
    }

    private func exchange(_ stream: Int32) -> Exchange {
        if let known = exchanges[stream] { return known }
        let new = Exchange()
        exchanges[stream] = new
        return new
    }

    fileprivate func received(_ frame: nghttp2_frame) {
        let type = UInt32(frame.hd.type)
        guard type == NGHTTP2_DATA.rawValue || type == NGHTTP2_HEADERS.rawValue,
            UInt32(frame.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
            let exchange = exchanges[frame.hd.stream_id]
        else { return }
        owner.received(ServerRequest(headers: exchange.headers, body: exchange.body), frame.hd.stream_id)
    }

    fileprivate func closed(_ stream: Int32) {
        exchanges[stream] = nil
    }
}

private func session(_ context: UnsafeMutableRawPointer?) -> ServerSession? {
    guard let context else { return nil }
    return Unmanaged<ServerConnection>.fromOpaque(context).takeUnretainedValue().session
}

private func serverHeader(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ name: UnsafePointer<UInt8>?,
    _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?,
    _ valueLength: Int,
    _: UInt8,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    let name = String(decoding: UnsafeBufferPointer(start: name, count: nameLength), as: UTF8.self)
    let value = String(decoding: UnsafeBufferPointer(start: value, count: valueLength), as: UTF8.self)
    if let frame { session(context)?.header(frame.pointee.hd.stream_id, name, value) }
    return 0
}

private func serverData(
    _: OpaquePointer?,
    _: UInt8,
    _ id: Int32,
    _ bytes: UnsafePointer<UInt8>?,
    _ count: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    session(context)?.data(id, UnsafeBufferPointer(start: bytes, count: count))
    return 0
}

private func serverStreamClosed(
    _: OpaquePointer?,
    _ id: Int32,
    _: UInt32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    session(context)?.closed(id)
    return 0
}

private func serverFrame(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    if let frame { session(context)?.received(frame.pointee) }
    return 0
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

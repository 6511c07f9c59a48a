import CNGHTTP2

/// Owns one nghttp2 session, a client's or a server's: bytes in, and what they say reported to the subclass. No socket.
/// Belongs to one thread.
class Session {
    let handle: OpaquePointer

    /// Begins with one setting of ours.
    init(isServer: Bool, _ setting: nghttp2_settings_id, _ value: UInt32) throws(HTTP2Failure) {
        guard let handle = Self.make(isServer: isServer) else { throw HTTP2Failure(.noResources) }
        self.handle = handle
        nghttp2_session_set_user_data(handle, Unmanaged.passUnretained(self).toOpaque())
        var entry = nghttp2_settings_entry()
        entry.settings_id = Int32(truncatingIfNeeded: setting.rawValue)
        entry.value = value
        guard nghttp2_submit_settings(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entry, 1) == 0 else {
            throw HTTP2Failure(.noResources)
        }
    }

    deinit { nghttp2_session_del(handle) }

    private static func make(isServer: Bool) -> OpaquePointer? {
        var callbacks: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks else { return nil }
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClosed)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
        if !isServer { nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, beforeFrame) }
        var handle: OpaquePointer?
        let status =
            isServer
            ? nghttp2_session_server_new(&handle, callbacks, nil) : nghttp2_session_client_new(&handle, callbacks, nil)
        return status == 0 ? handle : nil
    }

    var wantsRead: Bool { nghttp2_session_want_read(handle) != 0 }

    var wantsWriteOfFrames: Bool { nghttp2_session_want_write(handle) != 0 }

    /// False if that was not HTTP/2.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let start = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        return nghttp2_session_mem_recv(handle, start, bytes.count) == bytes.count
    }

    func goAway(last: Int32) {
        _ = nghttp2_submit_goaway(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, NGHTTP2_NO_ERROR.rawValue, nil, 0)
    }

    // MARK: - What nghttp2 reports

    func header(_ stream: Int32, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {}

    func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {}

    func closed(_ stream: Int32, code: UInt32) {}

    func received(_ frame: nghttp2_frame_hd) {}

    /// Only of a client.
    func willSend(_ frame: nghttp2_frame_hd) {}
}

private func session(_ context: UnsafeMutableRawPointer?) -> Session? {
    context.map { Unmanaged<Session>.fromOpaque($0).takeUnretainedValue() }
}

private func onHeader(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ name: UnsafePointer<UInt8>?,
    _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?,
    _ valueLength: Int,
    _: UInt8,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    let name = UnsafeBufferPointer(start: name, count: nameLength)
    let value = UnsafeBufferPointer(start: value, count: valueLength)
    if let frame { session(context)?.header(frame.pointee.hd.stream_id, name, value) }
    return 0
}

private func onData(
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

private func onStreamClosed(
    _: OpaquePointer?,
    _ id: Int32,
    _ code: UInt32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    session(context)?.closed(id, code: code)
    return 0
}

private func onFrame(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    if let frame { session(context)?.received(frame.pointee.hd) }
    return 0
}

private func beforeFrame(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    if let frame { session(context)?.willSend(frame.pointee.hd) }
    return 0
}

import CNGHTTP2

/// Owns one nghttp2 session of a client: bytes in, bytes out, no socket. Belongs to one thread.
final class ClientSession {
    private let handle: OpaquePointer
    /// Holds this session, so lives as long.
    private unowned let owner: ClientConnection
    private var streams: [ClientStream] = []
    private var free: [Int] = []
    private let pairs: UnsafeMutablePointer<nghttp2_nv>
    private static let mostFields = 32
    /// What nghttp2 gave out and `produce` has not copied yet.
    private var rest = UnsafeRawBufferPointer(start: nil, count: 0)
    /// All that nghttp2 gave out; what `produce` has copied of it is `given`.
    private var produced: Int64 = 0
    private(set) var openCount = 0

    init(owner: ClientConnection) throws(HTTP2Failure) {
        guard let handle = Self.makeSession(Unmanaged.passUnretained(owner).toOpaque()) else {
            throw HTTP2Failure(.noResources)
        }
        self.handle = handle
        self.owner = owner
        pairs = .allocate(capacity: Self.mostFields)
        var settings = nghttp2_settings_entry()
        settings.settings_id = Int32(truncatingIfNeeded: NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue)
        settings.value = 0
        guard nghttp2_submit_settings(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, 1) == 0 else {
            throw HTTP2Failure(.noResources)
        }
    }

    deinit {
        nghttp2_session_del(handle)
        pairs.deallocate()
    }

    private static func makeSession(_ owner: UnsafeMutableRawPointer) -> OpaquePointer? {
        var callbacks: OpaquePointer?
        guard nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks else { return nil }
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_header_callback(callbacks, clientHeader)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, clientData)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, clientStreamClosed)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, clientFrame)
        nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, clientBeforeFrame)
        var handle: OpaquePointer?
        guard nghttp2_session_client_new(&handle, callbacks, owner) == 0 else { return nil }
        return handle
    }

    /// How many streams the server allows at once.
    var streamLimit: Int {
        Int(nghttp2_session_get_remote_settings(handle, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    /// How many bytes `produce` wrote so far.
    var given: Int64 { produced - Int64(rest.count) }

    var mayRequest: Bool { nghttp2_session_check_request_allowed(handle) != 0 }

    /// Whether there is something to write.
    var wantsWrite: Bool { !rest.isEmpty || nghttp2_session_want_write(handle) != 0 }

    var isOver: Bool {
        rest.isEmpty && nghttp2_session_want_read(handle) == 0 && nghttp2_session_want_write(handle) == 0
    }

    /// Begins a request; nil if the session takes no more.
    func submit(
        _ headers: RequestHeaders,
        values: [UInt8],
        lengths: (Int, Int),
        body: HTTP2Body,
        now: Int64
    ) -> Int? {
        guard headers.fields.count <= Self.mostFields, mayRequest else { return nil }
        if free.isEmpty {
            free.append(streams.count)
            streams.append(ClientStream(index: streams.count))
        }
        let stream = streams[free.removeLast()]
        stream.begin(headers, values: values, lengths: lengths, body: body, pairs: pairs)
        var provider = nghttp2_data_provider()
        let pointer = Unmanaged.passUnretained(stream).toOpaque()
        provider.source.ptr = pointer
        provider.read_callback = clientReadBody
        let id = nghttp2_submit_request(handle, nil, pairs, headers.fields.count, &provider, pointer)
        guard id > 0 else {
            stream.finish()
            free.append(stream.index)
            return nil
        }
        stream.id = id
        stream.isOpen = true
        stream.submitted = now
        openCount += 1
        return stream.index
    }

    func cancel(_ index: Int) {
        guard streams.indices.contains(index), streams[index].isOpen else { return }
        let code = NGHTTP2_CANCEL.rawValue
        _ = nghttp2_submit_rst_stream(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), streams[index].id, code)
    }

    func ping() {
        _ = nghttp2_submit_ping(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    func goAway() {
        _ = nghttp2_submit_goaway(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, NGHTTP2_NO_ERROR.rawValue, nil, 0)
    }

    /// Streams submitted before that time.
    func openStreams(before time: Int64) -> [Int] {
        streams.filter { $0.isOpen && $0.submitted < time }.map(\.index)
    }

    /// False if that was not HTTP/2.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let start = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        return nghttp2_session_mem_recv(handle, start, bytes.count) == bytes.count
    }

    /// Writes frames to the room, as far as they go; nil if the session is broken.
    func produce(into room: UnsafeMutableRawBufferPointer) -> Int? {
        var count = 0
        while count < room.count {
            if rest.isEmpty {
                var start: UnsafePointer<UInt8>?
                let length = nghttp2_session_mem_send(handle, &start)
                guard length >= 0 else { return nil }
                guard length > 0 else { break }
                produced += Int64(length)
                rest = UnsafeRawBufferPointer(start: start, count: length)
            }
            let part = min(rest.count, room.count - count)
            UnsafeMutableRawBufferPointer(rebasing: room[count...]).copyMemory(from: .init(rebasing: rest[..<part]))
            rest = UnsafeRawBufferPointer(rebasing: rest[part...])
            count += part
        }
        return count
    }

    /// Ends what is left when the connection is gone.
    func endAll() {
        for stream in streams where stream.isOpen { end(stream, isRefused: false) }
    }

    private func end(_ stream: ClientStream, isRefused: Bool) {
        let end: StreamEnd
        if stream.status != 0 {
            end = .answered(stream.answer)
        } else if isRefused || stream.start < 0 || stream.start >= owner.offered {
            end = .unprocessed
        } else {
            end = .lost
        }
        stream.finish()
        openCount -= 1
        free.append(stream.index)
        owner.streamEnded(stream.index, end)
    }

    // MARK: - What nghttp2 reports

    fileprivate func stream(_ id: Int32) -> ClientStream? {
        guard let pointer = nghttp2_session_get_stream_user_data(handle, id) else { return nil }
        return Unmanaged<ClientStream>.fromOpaque(pointer).takeUnretainedValue()
    }

    fileprivate func closed(_ id: Int32, code: UInt32) {
        guard let stream = stream(id), stream.isOpen else { return }
        end(stream, isRefused: code == NGHTTP2_REFUSED_STREAM.rawValue)
    }

    fileprivate func received(_ frame: nghttp2_frame) {
        if UInt32(frame.hd.type) == NGHTTP2_GOAWAY.rawValue { owner.serverGoesAway() }
    }

    fileprivate func willSend(_ frame: nghttp2_frame) {
        if UInt32(frame.hd.type) == NGHTTP2_HEADERS.rawValue { stream(frame.hd.stream_id)?.start = produced }
    }
}

private func session(_ context: UnsafeMutableRawPointer?) -> ClientSession? {
    guard let context else { return nil }
    return Unmanaged<ClientConnection>.fromOpaque(context).takeUnretainedValue().session
}

private func clientHeader(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ name: UnsafePointer<UInt8>?,
    _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?,
    _ valueLength: Int,
    _: UInt8,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame, let stream = session(context)?.stream(frame.pointee.hd.stream_id) else { return 0 }
    let name = UnsafeBufferPointer(start: name, count: nameLength)
    stream.receiveHeader(name, UnsafeBufferPointer(start: value, count: valueLength))
    return 0
}

private func clientData(
    _: OpaquePointer?,
    _: UInt8,
    _ id: Int32,
    _ bytes: UnsafePointer<UInt8>?,
    _ count: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    session(context)?.stream(id)?.receiveBody(UnsafeBufferPointer(start: bytes, count: count))
    return 0
}

private func clientStreamClosed(
    _: OpaquePointer?,
    _ id: Int32,
    _ code: UInt32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    session(context)?.closed(id, code: code)
    return 0
}

private func clientFrame(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    if let frame { session(context)?.received(frame.pointee) }
    return 0
}

private func clientBeforeFrame(
    _: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    if let frame { session(context)?.willSend(frame.pointee) }
    return 0
}

private func clientReadBody(
    _: OpaquePointer?,
    _: Int32,
    _ room: UnsafeMutablePointer<UInt8>?,
    _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?,
    _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _: UnsafeMutableRawPointer?
) -> Int {
    guard let room, let flags, let pointer = source?.pointee.ptr else { return 0 }
    return Unmanaged<ClientStream>.fromOpaque(pointer).takeUnretainedValue().readBody(into: room, length: length, flags)
}

import CNGHTTP2

/// A client's session: requests in, frames out.
final class ClientSession: Session {
    /// Holds this session, so lives as long.
    private unowned let owner: ClientConnection
    private var streams: [ClientStream] = []
    private var free: [Int] = []
    private let pairs = HeaderPairs()
    /// What nghttp2 gave out and `produce` has not copied yet.
    private var rest = UnsafeRawBufferPointer(start: nil, count: 0)
    /// All that nghttp2 gave out; what `produce` has copied of it is `given`.
    private var produced: Int64 = 0
    private(set) var openCount = 0

    init(owner: ClientConnection) throws(HTTP2Failure) {
        self.owner = owner
        try super.init(isServer: false, NGHTTP2_SETTINGS_ENABLE_PUSH, 0)
    }

    /// How many streams the server allows at once.
    var streamLimit: Int {
        Int(nghttp2_session_get_remote_settings(handle, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    /// How many bytes `produce` wrote so far.
    var given: Int64 { produced - Int64(rest.count) }

    var mayRequest: Bool { nghttp2_session_check_request_allowed(handle) != 0 }

    /// Whether there is something to write.
    var wantsWrite: Bool { !rest.isEmpty || wantsWriteOfFrames }

    var isOver: Bool { !wantsRead && !wantsWrite }

    /// Begins a request; nil if the session takes no more.
    func submit(
        _ headers: RequestHeaders,
        value: [UInt8],
        body: HTTP2Body,
        now: Int64
    ) -> Int? {
        guard headers.fields.count <= HeaderPairs.most, mayRequest else { return nil }
        if free.isEmpty {
            free.append(streams.count)
            streams.append(ClientStream(index: streams.count))
        }
        let stream = streams[free.removeLast()]
        stream.begin(headers, value: value, body: body, pairs: pairs.start)
        var provider = nghttp2_data_provider()
        let pointer = Unmanaged.passUnretained(stream).toOpaque()
        provider.source.ptr = pointer
        provider.read_callback = clientReadBody
        let id = nghttp2_submit_request(handle, nil, pairs.start, headers.fields.count, &provider, pointer)
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

    /// Streams submitted before that time.
    func openStreams(before time: Int64) -> [Int] {
        streams.filter { $0.isOpen && $0.submitted < time }.map(\.index)
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

    private func stream(_ id: Int32) -> ClientStream? {
        guard let pointer = nghttp2_session_get_stream_user_data(handle, id) else { return nil }
        return Unmanaged<ClientStream>.fromOpaque(pointer).takeUnretainedValue()
    }

    override func header(
        _ stream: Int32,
        _ name: UnsafeBufferPointer<UInt8>,
        _ value: UnsafeBufferPointer<UInt8>
    ) {
        // Before the stream is looked up: of most headers nothing is kept.
        guard let field = ClientStream.field(name) else { return }
        self.stream(stream)?.receive(field, value)
    }

    override func data(_ stream: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        self.stream(stream)?.receiveBody(bytes)
    }

    override func closed(_ stream: Int32, code: UInt32) {
        guard let stream = self.stream(stream), stream.isOpen else { return }
        end(stream, isRefused: code == NGHTTP2_REFUSED_STREAM.rawValue)
    }

    override func received(_ frame: nghttp2_frame_hd) {
        if UInt32(frame.type) == NGHTTP2_GOAWAY.rawValue { owner.serverGoesAway() }
    }

    override func willSend(_ frame: nghttp2_frame_hd) {
        if UInt32(frame.type) == NGHTTP2_HEADERS.rawValue { stream(frame.stream_id)?.start = produced }
    }
}

/// Room for the headers of the request that is being submitted.
private final class HeaderPairs {
    static let most = 32
    let start = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: most)

    deinit { start.deallocate() }
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

import Glibc

/// An HTTP/2 connection over TLS that a loop drives: it never blocks, and does nothing by itself. One thread's.
public final class ClientConnection {
    /// Where to, and through what.
    public struct Target: Sendable {
        public var host: String
        public var port: UInt16
        /// Of the host, or of the proxy.
        public var address: Address
        public var usesProxy = false
        /// The value of `Proxy-Authorization`.
        public var proxyAuthorization: String?

        public init(host: String, port: UInt16, address: Address) {
            self.host = host
            self.port = port
            self.address = address
        }
    }

    private enum Phase {
        case connecting(Int32)
        case proxy(Int32, ProxyDialogue)
        case handshake(TLSStream)
        case open(TLSStream)
        case closed
    }

    private let target: Target
    private let context: TLSContext
    private unowned let handler: any ClientConnectionHandler
    private var phase: Phase
    private(set) var session: ClientSession?
    /// Bytes of the session that TLS was given, even if it may have written only some.
    private(set) var offered: Int64 = 0
    private var isBlocked = true
    private let input: UnsafeMutableRawBufferPointer
    private let output: UnsafeMutableRawBufferPointer
    private var outputStart = 0
    private var outputEnd = 0
    /// Whether bytes came since this was last set to false.
    public var hasHeard = false
    public private(set) var isGoingAway = false

    /// Begins to connect.
    ///
    /// - Parameters:
    ///   - target: where to.
    ///   - context: of TLS.
    ///   - handler: outlives the connection.
    /// - Throws: `unreachable` if that can't even begin.
    public init(
        _ target: Target,
        _ context: TLSContext,
        handler: any ClientConnectionHandler
    ) throws(HTTP2Failure) {
        guard let descriptor = target.address.connect() else {
            throw HTTP2Failure(.unreachable, String(cString: strerror(errno)))
        }
        self.target = target
        self.context = context
        self.handler = handler
        phase = .connecting(descriptor)
        input = .allocate(byteCount: 16 << 10, alignment: 64)
        output = .allocate(byteCount: 32 << 10, alignment: 64)
    }

    deinit {
        switch phase {
        case .connecting(let descriptor), .proxy(let descriptor, _): Glibc.close(descriptor)
        case .handshake, .open, .closed: break
        }
        input.deallocate()
        output.deallocate()
    }

    /// For `poll`: negative once closed.
    public var descriptor: Int32 {
        switch phase {
        case .connecting(let descriptor), .proxy(let descriptor, _): descriptor
        case .handshake(let stream), .open(let stream): stream.descriptor
        case .closed: -1
        }
    }

    /// Whether to poll for room to write, too.
    public var wantsWrite: Bool { isBlocked }

    public var isOpen: Bool { if case .open = phase { true } else { false } }
    public var isClosed: Bool { if case .closed = phase { true } else { false } }

    /// Streams under way.
    public var openStreams: Int { session?.openCount ?? 0 }

    /// How many streams the server allows at once.
    public var streamLimit: Int { session?.streamLimit ?? 0 }

    /// Submits a request; `flush` writes it.
    ///
    /// - Parameters:
    ///   - headers: shared with other requests.
    ///   - value: of the header that varies; empty if none does.
    ///   - body: the request's.
    ///   - now: for `openStreams(before:)`.
    /// - Returns: the number that its end is reported under; nil if the connection takes no more.
    public func submit(
        _ headers: RequestHeaders,
        value: [UInt8],
        body: HTTP2Body,
        now: Int64
    ) -> Int? {
        guard isOpen, !isGoingAway else { return nil }
        return session?.submit(headers, value: value, body: body, now: now)
    }

    /// Gives a request up: it ends as lost, unless it was never written.
    public func cancel(_ stream: Int) { session?.cancel(stream) }

    public func openStreams(before time: Int64) -> [Int] { session?.openStreams(before: time) ?? [] }

    public func ping() { session?.ping() }

    /// Closes it. Its streams end first, then it is reported as closed.
    public func close(_ failure: HTTP2Failure) {
        switch phase {
        case .closed: return
        case .connecting(let descriptor), .proxy(let descriptor, _): Glibc.close(descriptor)
        case .open(let stream): stream.sayGoodbye()
        case .handshake: break
        }
        phase = .closed
        isBlocked = false
        session?.endAll()
        handler.closed(self, failure)
    }

    /// Goes on as far as the socket lets it. On an open connection it reads; whoever drives it calls `flush` after, so
    /// that what answers gave rise to goes out in one record with what the protocol has to say.
    public func advance(isReadable: Bool, isWritable: Bool) {
        do throws(HTTP2Failure) {
            switch phase {
            case .connecting(let descriptor): if isWritable || isReadable { try connected(descriptor) }
            case .proxy(let descriptor, let dialogue): try talk(to: dialogue, descriptor)
            case .handshake(let stream): try handshake(stream)
            case .open(let stream):
                if isReadable || isBlocked { try read(stream) }
            case .closed: break
            }
        } catch {
            close(error)
        }
    }

    /// Writes what is submitted.
    public func flush() {
        guard case .open(let stream) = phase, let session else { return }
        isBlocked = false
        while true {
            if outputStart == outputEnd {
                outputStart = 0
                guard let count = session.produce(into: output) else { return close(HTTP2Failure(.violation)) }
                outputEnd = count
                guard count > 0 else { break }
            }
            offered = session.given
            switch stream.write(UnsafeRawBufferPointer(rebasing: output[outputStart..<outputEnd])) {
            case .bytes(let count): outputStart += count
            case .wantsWrite, .wantsRead:
                isBlocked = true
                return
            case .end:
                // What the server wrote before it closed still counts.
                do throws(HTTP2Failure) { try read(stream, toEnd: true) } catch { return close(error) }
                return close(HTTP2Failure(.closed))
            }
        }
        if session.isOver { close(HTTP2Failure(.closed)) }
    }

    private func connected(_ descriptor: Int32) throws(HTTP2Failure) {
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0, code == 0 else {
            throw HTTP2Failure(.unreachable, String(cString: strerror(code)))
        }
        guard target.usesProxy else { return try startTLS(descriptor) }
        let dialogue = ProxyDialogue(host: target.host, port: target.port, authorization: target.proxyAuthorization)
        phase = .proxy(descriptor, dialogue)
        try talk(to: dialogue, descriptor)
    }

    private func talk(to dialogue: ProxyDialogue, _ descriptor: Int32) throws(HTTP2Failure) {
        guard try dialogue.advance(descriptor) else {
            isBlocked = dialogue.wantsWrite
            return
        }
        try startTLS(descriptor)
    }

    private func startTLS(_ descriptor: Int32) throws(HTTP2Failure) {
        // From here on the stream owns the socket.
        phase = .closed
        let stream = try TLSStream.client(context, descriptor: descriptor, host: target.host)
        phase = .handshake(stream)
        try handshake(stream)
    }

    private func handshake(_ stream: TLSStream) throws(HTTP2Failure) {
        switch stream.handshake() {
        case .done:
            session = try ClientSession(owner: self)
            phase = .open(stream)
            handler.opened(self)
            try read(stream)
            flush()
        case .wantsRead: isBlocked = false
        case .wantsWrite: isBlocked = true
        case .failed(let failure): throw failure
        }
    }

    /// With `toEnd` all that the socket has; else until nothing is buffered above it, as `poll` tells of the rest.
    private func read(_ stream: TLSStream, toEnd: Bool = false) throws(HTTP2Failure) {
        // A bound, so that a flood from one server lets the loop do its other work.
        for _ in 0..<64 {
            guard !isClosed else { return }
            switch stream.read(into: input) {
            case .bytes(let count):
                hasHeard = true
                guard session?.receive(UnsafeRawBufferPointer(rebasing: input[..<count])) == true else {
                    throw HTTP2Failure(.violation)
                }
                guard toEnd || stream.hasBuffered else { return }
            case .wantsRead, .wantsWrite: return
            case .end: throw HTTP2Failure(.closed)
            }
        }
        isReadPending = true
    }

    /// Whether the last `advance` left bytes unread that `poll` may not tell of: call it again soon.
    public private(set) var isReadPending = false

    /// Takes note that the loop will come back.
    public func takeReadPending() -> Bool {
        defer { isReadPending = false }
        return isReadPending
    }

    // MARK: - What the session reports

    func streamEnded(_ index: Int, _ end: StreamEnd) {
        handler.ended(self, stream: index, end)
    }

    func serverGoesAway() {
        guard !isGoingAway else { return }
        isGoingAway = true
        handler.goesAway(self)
    }
}

import Glibc

/// One accepted connection of a stand-in, driven by a loop. One thread's.
public final class ServerConnection {
    public let descriptor: Int32
    private let stream: TLSStream
    private unowned let handler: any ServerConnectionHandler
    private let mostStreams: UInt32
    private(set) var session: ServerSession?
    private var output: [UInt8] = []
    public private(set) var isClosed = false
    public private(set) var wantsWrite = false
    private var closesWhenWritten = false
    /// All is said; what the client still sends is read and dropped until it closes too. A socket that is closed with
    /// unread bytes resets the connection, and the reset can take the last answer with it.
    private var isLingering = false

    /// Takes the socket over, also when it throws.
    ///
    /// - Parameters:
    ///   - descriptor: accepted, not blocking.
    ///   - context: of TLS.
    ///   - mostStreams: what clients are told.
    ///   - handler: outlives the connection.
    /// - Throws: if OpenSSL gives nothing to work with.
    public init(
        _ descriptor: Int32,
        _ context: TLSContext,
        mostStreams: UInt32,
        handler: any ServerConnectionHandler
    ) throws(HTTP2Failure) {
        stream = try TLSStream.server(context, descriptor: descriptor)
        self.descriptor = descriptor
        self.mostStreams = mostStreams
        self.handler = handler
    }

    public func advance() {
        guard !isClosed else { return }
        if session == nil {
            switch stream.handshake() {
            case .done:
                session = try? ServerSession(owner: self, mostStreams: mostStreams)
                guard session != nil else { return close() }
            case .wantsRead: return wantsWrite = false
            case .wantsWrite: return wantsWrite = true
            case .failed: return close()
            }
        }
        read()
        flush()
    }

    private func read() {
        withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 16) { room in
            while !isClosed {
                switch stream.read(into: room) {
                case .bytes where isLingering: continue
                case .bytes(let count):
                    guard session?.receive(UnsafeRawBufferPointer(rebasing: room[..<count])) == true else {
                        return close()
                    }
                case .wantsRead, .wantsWrite: return
                case .end: return close()
                }
            }
        }
    }

    public func flush() {
        guard !isClosed, !isLingering, let session else { return }
        guard let more = session.produce() else { return close() }
        output += more
        wantsWrite = false
        while !output.isEmpty {
            switch output.withUnsafeBytes({ stream.write($0) }) {
            case .bytes(let count): output.removeFirst(count)
            case .wantsRead, .wantsWrite:
                wantsWrite = true
                return
            case .end: return close()
            }
        }
        if closesWhenWritten || session.isOver { linger() }
    }

    private func linger() {
        isLingering = true
        stream.sayGoodbye()
        shutdown(descriptor, Int32(SHUT_WR))
    }

    public func respond(
        _ stream: Int32,
        status: Int,
        headers: [(name: String, value: String)] = [],
        body: [UInt8] = []
    ) {
        session?.respond(stream, status: status, headers: headers, body: body)
    }

    /// RST_STREAM, with REFUSED_STREAM or INTERNAL_ERROR.
    public func reset(_ stream: Int32, isRefused: Bool) { session?.reset(stream, isRefused: isRefused) }

    /// GOAWAY; streams above `last` are not processed.
    public func goAway(last: Int32) { session?.goAway(last: last) }

    /// Closes it without a word.
    public func close() { isClosed = true }

    public func closeWhenWritten() { closesWhenWritten = true }

    func received(_ request: ServerRequest, _ stream: Int32) {
        handler.received(request, stream: stream, on: self)
    }
}

/// A listening socket on 127.0.0.1.
public final class LoopbackListener {
    public let descriptor: Int32
    public let port: UInt16

    /// - Parameter port: 0 takes a free one.
    /// - Throws: `unreachable` if the port is taken.
    public init(port: UInt16) throws(HTTP2Failure) {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        descriptor = socket(AF_INET, type, 0)
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = descriptor
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(listener, pointer, length) == 0 && listen(listener, 512) == 0
                    && getsockname(listener, pointer, &length) == 0
            }
        }
        self.port = UInt16(bigEndian: address.sin_port)
        guard isBound else { throw HTTP2Failure(.unreachable, String(cString: strerror(errno))) }
    }

    deinit { close(descriptor) }

    /// Nil: nobody waits.
    public func take() -> Int32? {
        let taken = accept(descriptor, nil, nil)
        guard taken >= 0 else { return nil }
        let flags = fcntl(taken, F_GETFL)
        _ = fcntl(taken, F_SETFL, flags | O_NONBLOCK)
        _ = fcntl(taken, F_SETFD, FD_CLOEXEC)
        var on: Int32 = 1
        setsockopt(taken, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        return taken
    }
}

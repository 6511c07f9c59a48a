import Glibc

/// Sockets without exceptions: each call says what came of it.
enum Socket {
    enum Sent {
        case all
        case some(Int)
        case failed
    }

    enum Received {
        case bytes(Int)
        case nothingNow
        case end
        case failed
    }

    /// Sends without waiting and without SIGPIPE.
    static func send(_ fd: Int32, _ bytes: UnsafeRawBufferPointer) -> Sent {
        while true {
            let count = Glibc.send(fd, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            if count == bytes.count { return .all }
            if count >= 0 { return .some(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .some(0)
            default: return .failed
            }
        }
    }

    static func receive(_ fd: Int32, _ room: UnsafeMutableRawBufferPointer) -> Received {
        while true {
            let count = recv(fd, room.baseAddress, room.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .end }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .nothingNow
            default: return .failed
            }
        }
    }

    static func accept(_ listener: Int32) -> Int32 {
        let fd = acceptNonBlocking(listener)
        if fd >= 0 { setOption(fd, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
        return fd
    }

    /// Gives the listening descriptor and its port, which the system chooses for port 0.
    static func listen(
        address: String,
        port: UInt16,
        backlog: Int32,
        sharesPort: Bool
    ) throws(HTTPServerError) -> (fd: Int32, port: UInt16) {
        var storage = sockaddr_storage()
        guard let length = fill(&storage, address: address, port: port) else {
            throw HTTPServerError(
                description: "Not an IP address: \(address). Give one in digits, such as 127.0.0.1 or ::1.",
                errno: EINVAL
            )
        }
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let fd = socket(Int32(storage.ss_family), type, 0)
        guard fd >= 0 else { throw failure("make a socket for", address, port) }
        setOption(fd, SOL_SOCKET, SO_REUSEADDR, 1)
        if sharesPort { setOption(fd, SOL_SOCKET, SO_REUSEPORT, 1) }
        let bound = withSocketAddress(&storage) { bind(fd, $0, length) == 0 && Glibc.listen(fd, backlog) == 0 }
        guard bound else {
            let error = failure("listen on", address, port)
            close(fd)
            throw error
        }
        var actualLength = socklen_t(MemoryLayout<sockaddr_storage>.size)
        _ = withSocketAddress(&storage) { getsockname(fd, $0, &actualLength) }
        return (fd, readPort(&storage))
    }

    private static func fill(_ storage: inout sockaddr_storage, address: String, port: UInt16) -> socklen_t? {
        withUnsafeMutableBytes(of: &storage) { bytes in
            var four = sockaddr_in()
            if inet_pton(AF_INET, address, &four.sin_addr) == 1 {
                four.sin_family = sa_family_t(AF_INET)
                four.sin_port = port.bigEndian
                bytes.storeBytes(of: four, as: sockaddr_in.self)
                return socklen_t(MemoryLayout<sockaddr_in>.size)
            }
            var six = sockaddr_in6()
            guard inet_pton(AF_INET6, address, &six.sin6_addr) == 1 else { return nil }
            six.sin6_family = sa_family_t(AF_INET6)
            six.sin6_port = port.bigEndian
            bytes.storeBytes(of: six, as: sockaddr_in6.self)
            return socklen_t(MemoryLayout<sockaddr_in6>.size)
        }
    }

    /// IPv4 and IPv6 keep the port at the same place.
    private static func readPort(_ storage: inout sockaddr_storage) -> UInt16 {
        withUnsafeBytes(of: &storage) { UInt16(bigEndian: $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self)) }
    }

    private static func withSocketAddress<R>(
        _ storage: inout sockaddr_storage,
        _ body: (UnsafeMutablePointer<sockaddr>) -> R
    ) -> R {
        withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0) }
        }
    }

    private static func setOption(_ fd: Int32, _ level: Int32, _ name: Int32, _ value: Int32) {
        var value = value
        setsockopt(fd, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    private static func failure(_ action: String, _ address: String, _ port: UInt16) -> HTTPServerError {
        let code = errno
        let reason = String(cString: strerror(code))
        return HTTPServerError(
            description: "Cannot \(action) \(address):\(port): \(reason). Choose another port, or stop who uses it.",
            errno: code
        )
    }
}

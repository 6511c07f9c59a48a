import Glibc

/// A host's address, ready to connect to.
public struct Address: Sendable {
    let storage: sockaddr_storage
    let length: socklen_t

    /// Asks the system for a host's addresses. Blocks, for seconds where name servers don't answer: call it on a
    /// thread that may.
    ///
    /// - Parameters:
    ///   - host: a name, or an IP address in digits.
    ///   - port: of TCP.
    /// - Returns: at least one address, in the order to try them.
    /// - Throws: `unresolved`.
    public static func resolve(host: String, port: UInt16) throws(HTTP2Failure) -> [Address] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, String(port), &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard status == 0 else { throw HTTP2Failure(.unresolved, String(cString: gai_strerror(status))) }
        var addresses: [Address] = []
        var entry = list
        while let current = entry, addresses.count < 16 {
            if let start = current.pointee.ai_addr,
                Int(current.pointee.ai_addrlen) <= MemoryLayout<sockaddr_storage>.size
            {
                var storage = sockaddr_storage()
                withUnsafeMutableBytes(of: &storage) {
                    $0.copyMemory(from: UnsafeRawBufferPointer(start: start, count: Int(current.pointee.ai_addrlen)))
                }
                addresses.append(Address(storage: storage, length: current.pointee.ai_addrlen))
            }
            entry = current.pointee.ai_next
        }
        guard !addresses.isEmpty else { throw HTTP2Failure(.unresolved) }
        return addresses
    }

    /// Begins to connect: a socket that does not block, or nil with the reason in `errno`.
    func connect() -> Int32? {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(Int32(storage.ss_family), type, 0)
        guard descriptor >= 0 else { return nil }
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        var copy = storage
        let status = withUnsafeMutablePointer(to: &copy) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, length) }
        }
        guard status == 0 || errno == EINPROGRESS else {
            close(descriptor)
            return nil
        }
        return descriptor
    }
}

/// Lets a thread's writes to closed connections fail instead of ending the process: OpenSSL writes without
/// `MSG_NOSIGNAL`.
public func blockBrokenPipeSignal() {
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
}

import Foundation
import Glibc
import Synchronization

/// Stands between a worker and PostgreSQL on 127.0.0.1, reads what the worker says, and breaks what it is told to at
/// the next transaction. The worker connects without TLS.
public final class DatabaseProxy: Sendable {
    public enum Fault: String, CaseIterable, Sendable {
        /// The connection ends before the COMMIT reaches the server.
        case cutBeforeCommit
        /// It ends as soon as the COMMIT was sent: the server may or may not have read it.
        case cutDuringCommit
        /// The server has committed, and the worker never hears of it (C6).
        case cutAfterCommit
        /// The server is asked to roll back instead, so that the COMMIT is answered with the tag ROLLBACK (C7).
        case rollbackForCommit
        /// The COMMIT stays here until `release`: everything was written, and the transaction is open meanwhile.
        case holdCommit
        /// What follows the round trip that began a transaction stays here until `release`: the server waits idle in the
        /// transaction, with the locks that were taken.
        case holdTransaction
    }

    private struct Link {
        let client: Int32
        let server: Int32
    }

    private struct State {
        var armed: Fault?
        var fired: [Fault: Int] = [:]
        var isReleased = false
        var isStopped = false
        var links: [Int: Link] = [:]
        var next = 0
    }

    public let port: UInt16
    private let listener: Int32
    private let upstream: @Sendable () -> UInt16?
    private let state = Mutex(State())

    /// - Parameter upstream: the server's port, asked at every connection; nil while there is none.
    /// - Throws: when no port is free.
    public init(upstream: @escaping @Sendable () -> UInt16?) throws {
        self.upstream = upstream
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = Self.loopback(0)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, size) }
        }
        guard bound == 0, listen(listener, 64) == 0 else { throw POSIXError(.EADDRINUSE) }
        var length = size
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &length) }
        }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in acceptAll() }
    }

    // MARK: Told by the nemesis

    /// The next transaction meets this; a fault that was armed before and not met is forgotten.
    public func arm(_ fault: Fault) {
        state.withLock { state in
            state.armed = fault
            state.isReleased = false
        }
    }

    public func disarm() {
        state.withLock { state in
            state.armed = nil
            state.isReleased = true
        }
    }

    /// How often it happened until now.
    public func fired(_ fault: Fault) -> Int { state.withLock { $0.fired[fault] ?? 0 } }

    /// Lets a held COMMIT go on.
    public func release() {
        state.withLock { $0.isReleased = true }
    }

    /// Ends every connection that there is; returns how many.
    @discardableResult
    public func cutAll() -> Int {
        let links = state.withLock { Array($0.links.values) }
        for link in links { Self.shut(link) }
        return links.count
    }

    public func stop() {
        state.withLock { state in
            state.isStopped = true
            state.isReleased = true
        }
        shutdown(listener, Int32(SHUT_RDWR))
        cutAll()
    }

    // MARK: Connections

    private func acceptAll() {
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else {
                if errno == EINTR || errno == ECONNABORTED { continue }
                close(listener)
                return
            }
            _ = fcntl(client, F_SETFD, FD_CLOEXEC)
            guard let port = upstream(), let server = Self.connected(to: port) else {
                close(client)
                continue
            }
            for descriptor in [client, server] {
                var on: Int32 = 1
                setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
            }
            let link = Link(client: client, server: server)
            let number = state.withLock { state in
                state.next += 1
                state.links[state.next] = link
                return state.next
            }
            let conversation = ProxyConversation()
            Thread.detachNewThread { [self] in
                let ended = DispatchSemaphore(value: 0)
                Thread.detachNewThread {
                    Self.pumpBack(link, conversation)
                    ended.signal()
                }
                pumpForth(link, conversation)
                Self.shut(link)
                ended.wait()
                _ = state.withLock { $0.links.removeValue(forKey: number) }
                close(link.client)
                close(link.server)
            }
        }
    }

    /// What the server says goes back to the worker, unless it is the answer that must get lost.
    private static func pumpBack(_ link: Link, _ conversation: ProxyConversation) {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var swallowed: [UInt8] = []
        let committed = Array("COMMIT\0".utf8)
        while true {
            let count = recv(link.server, &chunk, chunk.count, 0)
            guard count > 0 else { break }
            if conversation.isAnswerLost {
                swallowed += chunk[..<count]
                if swallowed.firstRange(of: committed) != nil { break }
                continue
            }
            guard send(link.client, chunk[..<count]) else { break }
        }
        shut(link)
    }

    /// What the worker says goes to the server, message by message.
    private func pumpForth(_ link: Link, _ conversation: ProxyConversation) {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var buffer = FrontendMessages()
        var endsAtSync = false
        var isInside = Inside.no
        while true {
            let count = recv(link.client, &chunk, chunk.count, 0)
            guard count > 0 else { return }
            buffer.append(chunk[..<count])
            var outgoing: [UInt8] = []
            while var message = buffer.next() {
                if let fault = takeFault(for: message, isInside: isInside) {
                    switch fault {
                    case .cutBeforeCommit: return
                    case .cutDuringCommit: endsAtSync = true
                    case .cutAfterCommit: conversation.loseAnswer()
                    case .rollbackForCommit: message.rollBackInstead()
                    case .holdCommit, .holdTransaction:
                        guard Self.send(link.server, outgoing[...]) else { return }
                        outgoing = []
                        waitForRelease()
                    }
                }
                if message.isBegin { isInside = .begun }
                if message.isSync && isInside == .begun { isInside = .idle }
                if message.isEnd { isInside = .no }
                outgoing += message.bytes
                if endsAtSync && message.isSync {
                    _ = Self.send(link.server, outgoing[...])
                    return
                }
            }
            guard Self.send(link.server, outgoing[...]) else { return }
        }
    }

    /// Where a connection is in a transaction.
    private enum Inside {
        case no
        case begun
        /// The round trip of the BEGIN is over.
        case idle
    }

    private func takeFault(for message: FrontendMessages.Message, isInside: Inside) -> Fault? {
        guard message.isCommit || isInside == .idle else { return nil }
        return state.withLock { state in
            guard let fault = state.armed else { return nil }
            let isDue = fault == .holdTransaction ? isInside == .idle && !message.isEnd : message.isCommit
            guard isDue else { return nil }
            state.armed = nil
            state.fired[fault, default: 0] += 1
            return fault
        }
    }

    private func waitForRelease() {
        while !state.withLock({ $0.isReleased }) { usleep(5000) }
    }

    // MARK: Sockets

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    private static func connected(to port: UInt16) -> Int32? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = loopback(port)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if result == 0 { return descriptor }
        close(descriptor)
        return nil
    }

    private static func send(_ descriptor: Int32, _ bytes: ArraySlice<UInt8>) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static func shut(_ link: Link) {
        shutdown(link.client, Int32(SHUT_RDWR))
        shutdown(link.server, Int32(SHUT_RDWR))
    }
}

/// What the two directions of a connection tell each other.
private final class ProxyConversation: Sendable {
    private let answerLost = Atomic<Bool>(false)

    var isAnswerLost: Bool { answerLost.load(ordering: .acquiring) }

    func loseAnswer() { answerLost.store(true, ordering: .releasing) }
}

import Glibc
import HTTP2
import ServiceRuntime
import Synchronization

/// An HTTP proxy for tests: answers CONNECT, remembers its head, and passes bytes on to that port of 127.0.0.1.
final class ConnectProxy: Sendable {
    let port: UInt16
    private let shared = Shared()

    private final class Shared: Sendable {
        let heads = Mutex<[String]>([])
        let stop = StopFlag()
    }

    var heads: [String] { shared.heads.withLock { $0 } }

    /// Answers with `answer` instead of agreeing, if there is one.
    init(answer: String? = nil) throws {
        let listener = try LoopbackListener(port: 0)
        port = listener.port
        // The accepting thread alone uses it from here on.
        nonisolated(unsafe) let handedOver = listener
        let shared = shared
        _ = try WorkerThread.spawn(name: "test-proxy") {
            blockBrokenPipeSignal()
            let listener = handedOver
            while Self.waits(listener.descriptor, shared.stop) {
                guard let client = listener.take() else { continue }
                _ = try? WorkerThread.spawn(name: "test-tunnel") {
                    blockBrokenPipeSignal()
                    Self.serve(client, shared, answer)
                    close(client)
                }
            }
        }
    }

    deinit { shared.stop.raise() }

    /// Until there is something to read; false when stopped.
    private static func waits(_ descriptor: Int32, _ stop: StopFlag) -> Bool {
        var entries = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: stop.fileDescriptor, events: Int16(POLLIN), revents: 0),
        ]
        poll(&entries, 2, -1)
        return !stop.isRaised
    }

    private static func serve(_ client: Int32, _ shared: Shared, _ answer: String?) {
        var head: [UInt8] = []
        while !head.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard waits(client, shared.stop) else { return }
            var byte: UInt8 = 0
            guard read(client, &byte, 1) == 1 else { return }
            head.append(byte)
        }
        let text = String(decoding: head, as: UTF8.self)
        shared.heads.withLock { $0.append(text) }
        let reply = answer ?? "HTTP/1.1 200 Connection established\r\nX-Proxy: test\r\n\r\n"
        guard send(client, Array(reply.utf8)) else { return }
        guard answer == nil, let port = text.split(separator: " ").dropFirst().first?.split(separator: ":").last,
            let server = connect(UInt16(port) ?? 0)
        else { return }
        defer { close(server) }
        while true {
            var entries = [client, server, shared.stop.fileDescriptor].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            poll(&entries, 3, -1)
            if entries[2].revents != 0 { return }
            for (from, to) in [(0, 1), (1, 0)] where entries[from].revents != 0 {
                var chunk = [UInt8](repeating: 0, count: 16 << 10)
                let count = read(entries[from].fd, &chunk, chunk.count)
                if count < 0, errno == EAGAIN { continue }
                guard count > 0, send(entries[to].fd, Array(chunk[..<count])) else { return }
            }
        }
    }

    private static func send(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count > 0 { rest = rest.dropFirst(count) } else if errno != EAGAIN && errno != EINTR { return false }
        }
        return true
    }

    private static func connect(_ port: UInt16) -> Int32? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else {
            close(descriptor)
            return nil
        }
        return descriptor
    }
}

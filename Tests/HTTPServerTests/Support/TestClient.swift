import CZlib
import Glibc

struct ClientError: Error, CustomStringConvertible {
    let description: String
}

/// A blocking socket that sends literal bytes; every read has a limit of ten seconds.
final class TestClient {
    let fd: Int32
    private var received: [UInt8] = []

    init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        if let receiveBuffer { option(SO_RCVBUF, receiveBuffer) }
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw ClientError(description: "connect: \(errno)") }
        var one: Int32 = 1
        setsockopt(fd, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
    }

    deinit { Glibc.close(fd) }

    private func option(_ name: Int32, _ value: Int32) {
        var value = value
        setsockopt(fd, SOL_SOCKET, name, &value, 4)
    }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var position = 0
        while position < bytes.count {
            let count = bytes[position...].withUnsafeBytes {
                Glibc.send(fd, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw ClientError(description: "send: \(errno)") }
            position += count
        }
    }

    func finishSending() { shutdown(fd, Int32(SHUT_WR)) }

    /// Closes with a reset instead of a goodbye.
    func reset() {
        var value = linger(l_onoff: 1, l_linger: 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
        shutdown(fd, Int32(SHUT_RDWR))
    }

    /// False: the server closed.
    private func readMore() throws -> Bool {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = chunk.withUnsafeMutableBytes { recv(fd, $0.baseAddress, $0.count, 0) }
        guard count >= 0 else { throw ClientError(description: "recv: \(errno)") }
        received.append(contentsOf: chunk[..<count])
        return count > 0
    }

    func readToEnd() throws -> String {
        while try readMore() {}
        defer { received = [] }
        return String(decoding: received, as: UTF8.self)
    }

    /// Whether something has come by now, without waiting.
    func hasBytes() -> Bool {
        var byte: UInt8 = 0
        return !received.isEmpty || recv(fd, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0
    }

    struct Response {
        let head: String
        let body: [UInt8]
        var text: String { String(decoding: body, as: UTF8.self) }
        var status: Int { Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0 }
    }

    /// Reads one answer; its length must be told by Content-Length (none: no body).
    func read(isHead: Bool = false) throws -> Response {
        let separator = Array("\r\n\r\n".utf8)
        while true {
            if let end = received.indices.first(where: { received[$0...].starts(with: separator) }) {
                let head = String(decoding: received[..<end], as: UTF8.self)
                let line = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length: ") }
                let length = isHead ? 0 : line.flatMap { Int($0.dropFirst(16)) } ?? 0
                while received.count < end + 4 + length {
                    guard try readMore() else { throw ClientError(description: "closed inside a body") }
                }
                let body = Array(received[(end + 4)..<(end + 4 + length)])
                received.removeFirst(end + 4 + length)
                return Response(head: head, body: body)
            }
            guard try readMore() else { throw ClientError(description: "closed before an answer") }
        }
    }
}

func post(_ path: String, _ body: String, headers: String = "") -> String {
    "POST \(path) HTTP/1.1\r\nHost: h\r\n\(headers)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
}

func post(_ path: String, _ body: [UInt8], headers: String = "") -> [UInt8] {
    Array("POST \(path) HTTP/1.1\r\nHost: h\r\n\(headers)Content-Length: \(body.count)\r\n\r\n".utf8) + body
}

func gzipped(_ bytes: [UInt8]) -> [UInt8] {
    var stream = z_stream()
    deflateInit2_(
        &stream,
        9,
        Z_DEFLATED,
        15 + 16,
        8,
        Z_DEFAULT_STRATEGY,
        ZLIB_VERSION,
        Int32(MemoryLayout<z_stream>.size)
    )
    defer { deflateEnd(&stream) }
    var input = bytes
    var output = [UInt8](repeating: 0, count: Int(deflateBound(&stream, UInt(bytes.count))) + 64)
    return input.withUnsafeMutableBufferPointer { source in
        output.withUnsafeMutableBufferPointer { target in
            stream.next_in = source.baseAddress
            stream.avail_in = UInt32(source.count)
            stream.next_out = target.baseAddress
            stream.avail_out = UInt32(target.count)
            deflate(&stream, Z_FINISH)
            return Array(target[..<(target.count - Int(stream.avail_out))])
        }
    }
}

import Glibc

/// One blocking connection to an HTTP server on 127.0.0.1, that sends what a test wants, right or wrong. For one thread.
public final class HTTPConnection {
    public struct Answer: Sendable {
        public let status: Int
        /// The status line and the headers.
        public let head: String
        public let body: String

        /// The value of a header; names count without their case.
        public func header(_ name: String) -> String? {
            let prefix = name.lowercased() + ":"
            let line = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix(prefix) }
            return line.map { String($0.dropFirst(prefix.count).drop { $0 == " " }) }
        }
    }

    public enum Failure: Error, Hashable, Sendable {
        case refused
        /// The server ended the connection where an answer might have begun.
        case closed
        /// The connection ended in the middle of an answer.
        case cutShort
        case timedOut
    }

    private let descriptor: Int32
    private var buffer: [UInt8] = []

    /// - Parameters:
    ///   - port: where the server listens.
    ///   - seconds: how long an answer may take.
    /// - Throws: `refused` when nobody listens.
    public init(port: UInt16, seconds: Int = 20) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw Failure.refused }
    }

    deinit { close(descriptor) }

    /// Sends bytes as they are; what a closed connection does not take is lost, and the answer says so.
    public func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    /// One exchange. With a body, `Content-Type: application/json` and its length are added unless `headers` say so.
    public func request(
        _ method: String,
        _ path: String,
        token: String? = nil,
        headers: [String] = [],
        body: [UInt8]? = nil
    ) throws -> Answer {
        send(Self.bytes(method, path, token: token, headers: headers, body: body))
        return try answer()
    }

    /// A request's bytes.
    public static func bytes(
        _ method: String,
        _ path: String,
        token: String? = nil,
        headers: [String] = [],
        body: [UInt8]? = nil
    ) -> [UInt8] {
        var lines = ["\(method) \(path) HTTP/1.1", "Host: test"] + headers
        if let token { lines.append("Authorization: Bearer \(token)") }
        if let body {
            let given = headers.map { $0.lowercased() }
            if !given.contains(where: { $0.hasPrefix("content-type:") }) {
                lines.append("Content-Type: application/json")
            }
            if !given.contains(where: { $0.hasPrefix("transfer-encoding:") }) {
                lines.append("Content-Length: \(body.count)")
            }
        }
        return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + (body ?? [])
    }

    /// The next answer; one without a Content-Length has no body.
    public func answer() throws -> Answer {
        let separator = Array("\r\n\r\n".utf8)
        while true {
            if let end = buffer.firstRange(of: separator) {
                let head = String(decoding: buffer[..<end.lowerBound], as: UTF8.self)
                let lengthLine = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
                let length = lengthLine.flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
                if buffer.count >= end.upperBound + length {
                    let body = String(decoding: buffer[end.upperBound..<(end.upperBound + length)], as: UTF8.self)
                    buffer.removeFirst(end.upperBound + length)
                    let status = Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0
                    return Answer(status: status, head: head, body: body)
                }
            }
            try receive()
        }
    }

    /// Whether the server has ended the connection; waits for it as long as for an answer.
    public func waitUntilClosed() -> Bool {
        do {
            while true { try receive() }
        } catch {
            return error as? Failure != .timedOut
        }
    }

    private func receive() throws {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &chunk, chunk.count, 0)
        if count > 0 {
            buffer.append(contentsOf: chunk[..<count])
            return
        }
        if count < 0, errno == EAGAIN { throw Failure.timedOut }
        throw buffer.isEmpty ? Failure.closed : Failure.cutShort
    }
}

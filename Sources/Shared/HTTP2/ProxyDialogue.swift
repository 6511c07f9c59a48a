import Glibc

/// Asks an HTTP proxy for a tunnel, over a socket that does not block.
final class ProxyDialogue {
    private var request: [UInt8]
    private var written = 0
    private var answer: [UInt8] = []
    private static let longestAnswer = 8192

    init(host: String, port: UInt16, authorization: String?) {
        let authority = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        var text = "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n"
        if let authorization { text += "Proxy-Authorization: \(authorization)\r\n" }
        request = Array((text + "\r\n").utf8)
    }

    var wantsWrite: Bool { written < request.count }

    /// True once the tunnel stands.
    func advance(_ descriptor: Int32) throws(HTTP2Failure) -> Bool {
        while written < request.count {
            let count = request.withUnsafeBytes { bytes in
                send(descriptor, bytes.baseAddress.map { $0 + written }, bytes.count - written, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                written += count
            } else if errno == EAGAIN {
                return false
            } else if errno != EINTR {
                throw HTTP2Failure(.closed, "by the proxy")
            }
        }
        // One byte at a time, so that nothing of what follows the head is taken: it belongs to TLS.
        while true {
            var byte: UInt8 = 0
            let count = recv(descriptor, &byte, 1, 0)
            if count == 0 { throw HTTP2Failure(.closed, "by the proxy") }
            if count < 0 {
                if errno == EAGAIN { return false }
                if errno == EINTR { continue }
                throw HTTP2Failure(.closed, "by the proxy")
            }
            answer.append(byte)
            guard answer.count <= Self.longestAnswer else {
                throw HTTP2Failure(.proxyRefused, "its answer is too long")
            }
            if byte == UInt8(ascii: "\n"), Self.isWhole(answer) { return try Self.check(answer) }
        }
    }

    private static func isWhole(_ answer: [UInt8]) -> Bool {
        answer.suffix(4).elementsEqual([13, 10, 13, 10]) || answer.suffix(2).elementsEqual([10, 10])
    }

    private static func check(_ answer: [UInt8]) throws(HTTP2Failure) -> Bool {
        // "HTTP/1.1 200 …"
        let isHTTP = answer.starts(with: Array("HTTP/1.".utf8)) && answer.count > 12
        guard isHTTP, answer[8] == 32, let status = Int(String(decoding: answer[9..<12], as: UTF8.self)) else {
            throw HTTP2Failure(.proxyRefused, "its answer is not HTTP")
        }
        guard (200...299).contains(status) else { throw HTTP2Failure(.proxyRefused, "status \(status)") }
        return true
    }
}

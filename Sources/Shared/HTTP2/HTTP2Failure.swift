/// Why a connection could not be made or ended. Holds nothing of what was sent.
public struct HTTP2Failure: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: String, Sendable {
        /// The name has no address.
        case unresolved
        /// No connection to the server or the proxy.
        case unreachable
        /// The proxy said no to CONNECT.
        case proxyRefused = "proxy_refused"
        /// Certificate, host name or protocol version: TLS did not come about.
        case untrusted
        /// The server does not speak HTTP/2 there (ALPN).
        case noHTTP2 = "no_http2"
        /// No answer in time: while connecting, or to a ping.
        case timeout
        /// The peer closed or reset the connection.
        case closed
        /// What came was not HTTP/2.
        case violation
        /// OpenSSL, nghttp2 or the system gave nothing to work with.
        case noResources = "no_resources"
    }

    public let code: Code
    public let detail: String

    public init(_ code: Code, _ detail: String = "") {
        self.code = code
        self.detail = detail
    }

    public var description: String {
        let text =
            switch code {
            case .unresolved: "the host's name has no address: check it, and the name servers"
            case .unreachable: "the host can't be reached: check the network, the port and the proxy"
            case .proxyRefused: "the proxy refuses the connection: check its address, its rules and credentials"
            case .untrusted: "TLS fails: check the host's name, and the file of authorities"
            case .noHTTP2: "the server does not speak HTTP/2: check host and port"
            case .timeout: "no answer in time: check the network"
            case .closed: "the server closed the connection: it is made again"
            case .violation: "the server does not keep to HTTP/2: check host and port"
            case .noResources: "the system gives no further connection: raise the limit of open files"
            }
        return detail.isEmpty ? text : "\(text) (\(detail))"
    }
}

/// A request as it came.
public struct ServerRequest: Sendable {
    /// In the order of arrival, pseudo-headers first.
    public let headers: [(name: String, value: String)]
    public let body: [UInt8]

    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// Hears of a server's connections, on the thread that drives them.
public protocol ServerConnectionHandler: AnyObject {
    /// A whole request is there; it is answered now or later by `respond` or `reset`.
    func received(_ request: ServerRequest, stream: Int32, on connection: ServerConnection)
}

/// Limits of a fetch.
public struct FetchLimits: Sendable {
    /// To connect, TLS included.
    public var connectMilliseconds = 5000
    /// From the first step to the last byte.
    public var totalMilliseconds = 10_000
    /// The longest body.
    public var bodyBytes = 1 << 20

    public init() {}
}

/// An HTTP proxy. Never prints its credentials.
public struct FetchProxy: Sendable, CustomStringConvertible, CustomReflectable {
    /// `http://host:port`
    let address: String
    let user: String?
    let password: String?

    public init(host: String, port: UInt16, user: String? = nil, password: String? = nil) {
        address = host.contains(":") ? "http://[\(host)]:\(port)" : "http://\(host):\(port)"
        self.user = user
        self.password = password
    }

    public var description: String { address }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Why there is no document. Holds nothing of what the server sent.
public struct FetchFailure: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
    /// The status of an answer that is not 200.
    public let status: Int?

    init(_ description: String, status: Int? = nil) {
        self.description = description
        self.status = status
    }
}

/// Gets small documents over HTTPS, and posts forms. Blocks: call it on a thread of your own. Any thread may.
///
/// The server's certificate and name are verified. Redirects are followed three times and to `https://` alone; none
/// from a plain URL. A proxy is used as `https_proxy` and `no_proxy` say.
public struct HTTPFetcher: Sendable {
    private let limits: FetchLimits
    private let certificates: String?
    private let proxy: FetchProxy?

    /// - Parameters:
    ///   - limits: how long and how much.
    ///   - certificates: a PEM file of authorities that is used instead of the system's.
    ///   - proxy: used instead of what `https_proxy` says.
    public init(limits: FetchLimits = FetchLimits(), certificates: String? = nil, proxy: FetchProxy? = nil) {
        self.limits = limits
        self.certificates = certificates
        self.proxy = proxy
    }

    /// Gets a document.
    ///
    /// - Parameters:
    ///   - url: what to get.
    ///   - isCancelled: asked about once a second, on this thread; true ends the fetch.
    /// - Returns: the body of a 200.
    /// - Throws: what went wrong, in words for the operator.
    public func get(
        _ url: FetchURL,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws(FetchFailure) -> [UInt8] {
        try CurlTransfer(limits: limits, isCancelled: isCancelled).run(url, certificates: certificates, proxy: proxy)
    }

    /// Posts a form (`application/x-www-form-urlencoded`). Redirects are not followed.
    ///
    /// - Parameters:
    ///   - form: its text, encoded.
    ///   - url: where to.
    ///   - isCancelled: asked about once a second, on this thread; true ends it.
    /// - Returns: the body of a 200.
    /// - Throws: what went wrong, in words for the operator.
    public func post(
        form: String,
        to url: FetchURL,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws(FetchFailure) -> [UInt8] {
        try CurlTransfer(limits: limits, isCancelled: isCancelled)
            .run(url, form: form, certificates: certificates, proxy: proxy)
    }
}

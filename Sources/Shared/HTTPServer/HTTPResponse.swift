/// What a client gets: a status, a few headers and a body in memory.
public struct HTTPResponse: Sendable {
    public var status: Int
    public var contentType: HTTPContentType
    /// Further headers. Date, Content-Length, Content-Type and Connection are the server's own.
    public var headers: [HTTPHeader]
    public var body: [UInt8]
    /// Closes the connection once the answer is out.
    public var closesConnection = false

    public init(
        status: Int,
        contentType: HTTPContentType = .json,
        headers: [HTTPHeader] = [],
        body: [UInt8] = []
    ) {
        self.status = status
        self.contentType = contentType
        self.headers = headers
        self.body = body
    }
}

/// A header of an answer. Control bytes in the value are sent as spaces, so that no value can add a header.
public struct HTTPHeader: Sendable {
    public let name: StaticString
    public let value: String

    public init(_ name: StaticString, _ value: String) {
        self.name = name
        self.value = value
    }

    public static func retryAfter(seconds: Int) -> HTTPHeader { HTTPHeader("Retry-After", String(seconds)) }
    /// The methods of a route, for 405: `GET, HEAD`.
    public static func allow(_ methods: String) -> HTTPHeader { HTTPHeader("Allow", methods) }
}

public struct HTTPContentType: Sendable {
    public let text: StaticString

    public init(_ text: StaticString) {
        self.text = text
    }

    public static let json = HTTPContentType("application/json")
    public static let problem = HTTPContentType("application/problem+json")
    public static let text = HTTPContentType("text/plain; charset=utf-8")
    /// Prometheus' text format.
    public static let metrics = HTTPContentType("text/plain; version=0.0.4; charset=utf-8")
}

/// Status line with its line end; a status without a phrase of its own gets an empty one.
func statusLine(_ status: Int) -> StaticString? {
    switch status {
    case 200: "HTTP/1.1 200 OK\r\n"
    case 201: "HTTP/1.1 201 Created\r\n"
    case 202: "HTTP/1.1 202 Accepted\r\n"
    case 204: "HTTP/1.1 204 No Content\r\n"
    case 304: "HTTP/1.1 304 Not Modified\r\n"
    case 400: "HTTP/1.1 400 Bad Request\r\n"
    case 401: "HTTP/1.1 401 Unauthorized\r\n"
    case 403: "HTTP/1.1 403 Forbidden\r\n"
    case 404: "HTTP/1.1 404 Not Found\r\n"
    case 405: "HTTP/1.1 405 Method Not Allowed\r\n"
    case 408: "HTTP/1.1 408 Request Timeout\r\n"
    case 409: "HTTP/1.1 409 Conflict\r\n"
    case 411: "HTTP/1.1 411 Length Required\r\n"
    case 413: "HTTP/1.1 413 Content Too Large\r\n"
    case 414: "HTTP/1.1 414 URI Too Long\r\n"
    case 415: "HTTP/1.1 415 Unsupported Media Type\r\n"
    case 417: "HTTP/1.1 417 Expectation Failed\r\n"
    case 422: "HTTP/1.1 422 Unprocessable Content\r\n"
    case 429: "HTTP/1.1 429 Too Many Requests\r\n"
    case 431: "HTTP/1.1 431 Request Header Fields Too Large\r\n"
    case 500: "HTTP/1.1 500 Internal Server Error\r\n"
    case 501: "HTTP/1.1 501 Not Implemented\r\n"
    case 503: "HTTP/1.1 503 Service Unavailable\r\n"
    default: nil
    }
}

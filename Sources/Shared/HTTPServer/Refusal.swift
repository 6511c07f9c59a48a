/// Every reason for which the server itself turns a request away; its code is what is counted and what the client reads.
enum Refusal: UInt8, CaseIterable {
    case malformed, framing, foldedHeader, version, host, repeatedHeader, target, methodNotImplemented
    case headTooLarge, targetTooLong, lengthRequired, bodyTooLarge, decompressedTooLarge, gzip, contentEncoding
    case expectation, timeout, tooManyConnections, overloaded, unanswered

    var status: Int {
        switch self {
        case .malformed, .framing, .foldedHeader, .version, .host, .repeatedHeader, .target, .gzip: 400
        case .timeout: 408
        case .lengthRequired: 411
        case .bodyTooLarge, .decompressedTooLarge: 413
        case .targetTooLong: 414
        case .contentEncoding: 415
        case .expectation: 417
        case .headTooLarge: 431
        case .methodNotImplemented: 501
        case .tooManyConnections, .overloaded, .unanswered: 503
        }
    }

    var code: StaticString {
        switch self {
        case .malformed: "malformed_request"
        case .framing: "bad_framing"
        case .foldedHeader: "folded_header"
        case .version: "http_version"
        case .host: "host_header"
        case .repeatedHeader: "repeated_header"
        case .target: "bad_target"
        case .methodNotImplemented: "method_not_implemented"
        case .headTooLarge: "headers_too_large"
        case .targetTooLong: "target_too_long"
        case .lengthRequired: "length_required"
        case .bodyTooLarge: "body_too_large"
        case .decompressedTooLarge: "decompressed_body_too_large"
        case .gzip: "bad_gzip"
        case .contentEncoding: "content_encoding"
        case .expectation: "expectation"
        case .timeout: "request_timeout"
        case .tooManyConnections: "too_many_connections"
        case .overloaded: "too_much_arriving"
        case .unanswered: "not_confirmed"
        }
    }

    var title: String {
        switch self {
        case .malformed: "The request is not HTTP/1.1"
        case .framing: "The length of the body is ambiguous"
        case .foldedHeader: "A header goes over several lines"
        case .version: "This version of HTTP is not spoken here"
        case .host: "The Host header is missing or repeated"
        case .repeatedHeader: "A header that may occur once is repeated"
        case .target: "The request target is not a path"
        case .methodNotImplemented: "This method is not implemented"
        case .headTooLarge: "The headers are too large"
        case .targetTooLong: "The request target is too long"
        case .lengthRequired: "The length of the body is missing"
        case .bodyTooLarge: "The body is too large"
        case .decompressedTooLarge: "The decompressed body is too large"
        case .gzip: "The body is not whole gzip data"
        case .contentEncoding: "This content encoding is not supported"
        case .expectation: "This expectation is not supported"
        case .timeout: "The request took too long to arrive"
        case .tooManyConnections: "Too many connections"
        case .overloaded: "Too many requests are arriving at once"
        case .unanswered: "Not confirmed, safe to send again"
        }
    }

    var detail: String {
        switch self {
        case .malformed: "Send requests as RFC 9112 describes them, over plain HTTP/1.1."
        case .framing: "Send one Content-Length, or Transfer-Encoding: chunked alone, never both."
        case .foldedHeader: "Send each header on one line."
        case .version: "Use HTTP/1.1."
        case .host: "Send exactly one Host header."
        case .repeatedHeader:
            "Send Authorization, Content-Type, Content-Encoding, Expect and Transfer-Encoding at most once."
        case .target: "Send a path that starts with a slash, without a fragment."
        case .methodNotImplemented: "Use one of the methods that the interface's description names."
        case .headTooLarge: "Send fewer or shorter headers."
        case .targetTooLong: "Send a shorter path and query."
        case .lengthRequired: "Send Content-Length or Transfer-Encoding: chunked."
        case .bodyTooLarge: "Split the data over several requests, or send it with Content-Encoding: gzip."
        case .decompressedTooLarge: "Split the data over several requests."
        case .gzip: "Compress the whole body with gzip, or leave Content-Encoding away."
        case .contentEncoding: "Use gzip, or leave Content-Encoding away."
        case .expectation: "Send Expect: 100-continue or no expectation."
        case .timeout: "Send the request again over a faster connection, or in smaller parts."
        case .tooManyConnections, .overloaded: "Try again after the time that Retry-After gives."
        case .unanswered: "Send the same request again after the time that Retry-After gives."
        }
    }

    var response: HTTPResponse {
        let problem = HTTPProblem(status: status, code: "\(code)", title: title, detail: detail)
        let headers: [HTTPHeader] = status == 503 ? [.retryAfter(seconds: 5)] : []
        return problem.response(headers: headers)
    }
}

import Authentication
import Domain
import HTTPServer
import JSON

/// Something wrong with one field of a request: the field's path and the rule, never the value.
public struct FieldError: Hashable, Sendable {
    /// The day it is about; nil for the request's own fields.
    public var index: Int?
    public var field: String
    public var code: StaticCode
    public var message: StaticCode

    /// Of one in a list, with the text of its field where that is a long one.
    static let heldBytes = MemoryLayout<FieldError>.stride + 32

    init(index: Int? = nil, field: String, code: StaticString, message: StaticString) {
        self.index = index
        self.field = field
        self.code = StaticCode(code)
        self.message = StaticCode(message)
    }
}

/// A text of ours, known when the program is built: what comes from outside can't get into it.
public struct StaticCode: Hashable, Sendable, CustomStringConvertible {
    let text: StaticString

    init(_ text: StaticString) {
        self.text = text
    }

    public var description: String { text.description }

    public static func == (left: StaticCode, right: StaticCode) -> Bool { left.description == right.description }

    public func hash(into hasher: inout Hasher) { hasher.combine(description) }
}

/// An answer other than success: what RFC 9457 wants to know of it.
public struct RequestProblem: Error, Hashable, Sendable {
    public var status: Int
    public var code: String
    public var title: String
    public var detail: String
    public var errors: [FieldError] = []
    /// Seconds to wait before the request is sent again; nil where that would not help.
    public var retryAfter: Int?
    /// What it is counted as where `code` alone would not tell whoever runs the service why; nil: as `code`.
    public var reason: String?

    /// Whether it speaks against the service rather than against the request. Only these count against the door in
    /// heartbeats: a client that loops on bad requests must not look like a door that refuses everybody. Tokens of
    /// others' making are ours: a wrong key, issuer, audience or clock refuses all users.
    public var isOurs: Bool {
        if status >= 500 { return true }
        switch status == 401 ? AuthenticationError.Code(rawValue: code) : nil {
        case .badSignature, .wrongIssuer, .wrongAudience, .notYetValid: return true
        case .missing, .malformed, .expired, nil: return false
        }
    }

    /// The further members of the problem's JSON, `"errors":[…]`; empty without errors.
    public var members: [UInt8] {
        guard !errors.isEmpty else { return [] }
        var writer = JSONWriter(reserving: 32 + errors.count * 128)
        writer.key("errors")
        write(errors, into: &writer)
        return writer.bytes
    }
}

func write(_ errors: [FieldError], into writer: inout JSONWriter) {
    writer.beginArray()
    for error in errors {
        writer.beginObject()
        if let index = error.index {
            writer.key("index")
            writer.integer(index)
        }
        writer.key("field")
        writer.string(error.field)
        writer.key("code")
        writer.string(error.code.text)
        writer.key("message")
        writer.string(error.message.text)
        writer.endObject()
    }
    writer.endArray()
}

extension RequestProblem {
    static func badJSON(_ error: JSONError) -> RequestProblem {
        RequestProblem(
            status: 400,
            code: error.code.rawValue,
            title: "The body can't be read",
            detail: error.description
        )
    }

    static func badShape(_ field: String, _ message: StaticString) -> RequestProblem {
        RequestProblem(
            status: 400,
            code: "bad_shape",
            title: "The body has another shape",
            detail: "Send it as the interface's description at /openapi.json shows.",
            errors: [FieldError(field: field, code: "bad_shape", message: message)]
        )
    }

    static func badField(_ field: String, _ code: StaticString, _ message: StaticString) -> RequestProblem {
        invalid([FieldError(field: field, code: code, message: message)])
    }

    static func invalid(_ errors: [FieldError]) -> RequestProblem {
        RequestProblem(
            status: 422,
            code: "invalid",
            title: "The data break a rule",
            detail: "Correct the fields that errors lists; nothing of this request was stored.",
            errors: errors
        )
    }

    /// A rule broken on a route where that refuses the whole body.
    static func refusedWhole(_ errors: [FieldError]) -> RequestProblem {
        RequestProblem(
            status: 400,
            code: "invalid",
            title: "The data break a rule",
            detail: "Correct the fields that errors lists; nothing of this request was stored.",
            errors: errors
        )
    }

    static func refusedWhole(_ field: String, _ code: StaticString, _ message: StaticString) -> RequestProblem {
        refusedWhole([FieldError(field: field, code: code, message: message)])
    }

    static func badQuery(_ name: StaticString) -> RequestProblem {
        RequestProblem(
            status: 400,
            code: "bad_query",
            title: "The query can't be read",
            detail: "Send \(name) once, as true or false, or leave it out."
        )
    }

    static func unauthorized(_ error: AuthenticationError) -> RequestProblem {
        RequestProblem(status: 401, code: error.code.rawValue, title: "Not authenticated", detail: error.description)
    }

    /// The token's role is none of those that a route takes.
    static func forbidden(roles: [Role]) -> RequestProblem {
        RequestProblem(
            status: 403,
            code: "forbidden",
            title: "This token may not do this",
            detail: "This takes a token with the role \(roles.map(\.rawValue).joined(separator: " or "))."
        )
    }

    static let notFound = RequestProblem(
        status: 404,
        code: "not_found",
        title: "There is nothing here",
        detail: "The paths that there are stand in /openapi.json."
    )

    static let methodNotAllowed = RequestProblem(
        status: 405,
        code: "method_not_allowed",
        title: "This method is not allowed here",
        detail: "Use one of the methods that the header Allow lists."
    )

    static let unsupportedMediaType = RequestProblem(
        status: 415,
        code: "media_type",
        title: "This media type is not read here",
        detail: "Send JSON with Content-Type: application/json."
    )

    static let forbiddenSource = RequestProblem(
        status: 403,
        code: "forbidden",
        title: "This token may not write this source",
        detail: "Users write sources of their device and hand-typed ones; cloud sources need a connector's token."
    )

    static let tooLarge = RequestProblem(
        status: 413,
        code: "record_too_large",
        title: "The request is too large for a record",
        detail: "Split the data over several requests."
    )

    /// Kafka has not acknowledged within the request's deadline.
    static let deadlinePassed = notConfirmed(because: "deadline")
    /// Kafka, or the library for it, says that a record is not in the log.
    static let notAcknowledged = notConfirmed(because: "not_acknowledged")
    /// The producer did not take the record.
    static let notProduced = notConfirmed(because: "not_produced")
    /// The process ended while it waited.
    static let stopped = notConfirmed(because: "stopping")

    private static func notConfirmed(because reason: String) -> RequestProblem {
        RequestProblem(
            status: 503,
            code: "not_confirmed",
            title: "Not confirmed, safe to send again",
            detail: "Kafka did not confirm in time. Send the same request again after the time that Retry-After gives.",
            retryAfter: 5,
            reason: reason
        )
    }

    static let queueFull = RequestProblem(
        status: 503,
        code: "queue_full",
        title: "Not accepted, safe to send again",
        detail: "Too much is waiting for Kafka. Send the same request again after the time that Retry-After gives.",
        retryAfter: 2
    )

    static let overloaded = RequestProblem(
        status: 503,
        code: "overloaded",
        title: "Not accepted, safe to send again",
        detail: "Too much is in flight to Kafka. Send the same request again after the time that Retry-After gives.",
        retryAfter: 2
    )

    /// The user's bucket is empty for so many seconds.
    static func rateLimited(seconds: Int) -> RequestProblem {
        RequestProblem(
            status: 429,
            code: "rate_limited",
            title: "Too many requests of this user",
            detail: "Send the same request again after the time that Retry-After gives, and gather more days in each.",
            retryAfter: seconds
        )
    }

    static let notReady = RequestProblem(
        status: 503,
        code: "not_ready",
        title: "Not ready, safe to send again",
        detail: "The service is starting, stopping or without Kafka. Send again after the time that Retry-After gives.",
        retryAfter: 5
    )
}

extension RequestProblem {
    var response: HTTPResponse { response(of: nil) }

    /// With the request's id, which logs have too, as the problem's `instance`.
    func response(of event: EventID?) -> HTTPResponse {
        var members = members
        if let event {
            if !members.isEmpty { members.append(UInt8(ascii: ",")) }
            members.append(contentsOf: #""instance":"urn:uuid:"#.utf8)
            event.append(to: &members)
            members.append(UInt8(ascii: "\""))
        }
        var headers: [HTTPHeader] = []
        if let retryAfter { headers.append(.retryAfter(seconds: retryAfter)) }
        if status == 401 { headers.append(HTTPHeader("WWW-Authenticate", "Bearer")) }
        return HTTPProblem(status: status, code: code, title: title, detail: detail, members: members)
            .response(headers: headers)
    }
}

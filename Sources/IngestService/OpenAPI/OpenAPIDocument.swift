import Authentication
import HTTPServer
import JSON
import Observability

/// The interface's description, made out of the route table: a route can't be there without being described.
enum OpenAPIDocument {
    static let bytes = make(RouteTable.routes)

    /// What each status of a refusal means.
    static let problems: [(status: Int, text: String)] = [
        (400, "Not JSON, another shape, a query that can't be read, or not HTTP as it should be."),
        (401, "No token, or one that is not accepted; code says why."),
        (403, "The token's role may not do this."),
        (404, "There is nothing at this path."),
        (405, "The path has other methods: see Allow."),
        (408, "The request took too long to arrive."),
        (411, "The length is missing."),
        (413, "Too large: on the wire, decompressed, or for one record."),
        (414, "The path and query are too long."),
        (415, "Another media type or content encoding."),
        (417, "Another expectation than 100-continue."),
        (422, "The shape is right, and an item breaks a rule: errors lists them."),
        (429, "Too many requests of this user: send again after Retry-After."),
        (431, "The headers are too large."),
        (501, "The server knows no such method."),
        (503, "Not confirmed, safe to send again after Retry-After."),
    ]

    /// Any route can be refused so.
    static let everywhere = [400, 408, 413, 414, 415, 417, 431, 503]
    /// Any route that takes a token, too.
    static let withToken = [401, 403, 429]

    static func statuses(of route: Route) -> [Int] {
        var statuses = everywhere + route.documentation.problems
        if route.isWrite { statuses += withToken }
        if route.method.hasBody { statuses.append(411) }
        return Set(statuses).sorted()
    }

    static func make(_ routes: [Route]) -> [UInt8] {
        var writer = JSONWriter(reserving: 64 << 10)
        writer.beginObject()
        writer.key("openapi")
        writer.string("3.1.0")
        writer.key("info")
        writer.beginObject()
        writer.key("title")
        writer.string("Daybook")
        writer.key("version")
        writer.string(BuildInfo.current.version.description)
        writer.key("description")
        writer.string(introduction)
        writer.endObject()
        writer.key("paths")
        writer.beginObject()
        var done: Set<String> = []
        for route in routes where done.insert(route.path.text.description).inserted {
            writer.key(route.path.text)
            writer.beginObject()
            for other in routes where other.path.text.description == route.path.text.description {
                write(other, into: &writer)
            }
            writer.endObject()
        }
        writer.endObject()
        writeComponents(into: &writer)
        writer.endObject()
        return writer.bytes
    }

    private static let introduction: StaticString =
        """
        Days of health figures, from phones and connectors to Kafka. A 2xx says that everything accepted is acknowledged \
        by all in-sync replicas. Every other answer is a problem (RFC 9457). Bodies may be gzip. Another path is answered \
        404, another method of a path 405 with Allow, a method that HTTP does not know 501.
        """

    private static func write(_ route: Route, into writer: inout JSONWriter) {
        let documentation = route.documentation
        writer.key(lowercase: route.method)
        writer.beginObject()
        writer.key("summary")
        writer.string(documentation.summary)
        writer.key("description")
        writer.string(documentation.description + roles(route))
        writer.key("operationId")
        writer.string(operationID(route))
        if documentation.isDeprecated {
            writer.key("deprecated")
            writer.bool(true)
        }
        writer.key("security")
        writer.raw((route.isWrite ? #"[{"token":[]}]"# : "[]").utf8)
        writer.key("parameters")
        writer.beginArray()
        for parameter in documentation.parameters { write(parameter, into: &writer) }
        if documentation.takesTimeZone { write(timeZone, into: &writer) }
        writer.endArray()
        if let body = documentation.body { write(body, into: &writer) }
        writer.key("responses")
        writer.beginObject()
        write(documentation.success, into: &writer)
        for status in statuses(of: route) {
            writer.key(text: String(status))
            writer.raw(##"{"$ref":"#/components/responses/Problem\##(status)"}"##.utf8)
        }
        writer.endObject()
        writer.endObject()
    }

    private static func roles(_ route: Route) -> String {
        route.isWrite ? " Takes a token with the role \(route.roles.map(\.rawValue).joined(separator: " or "))." : ""
    }

    private static func operationID(_ route: Route) -> String {
        let words = route.path.text.description.split { !$0.isLetter && !$0.isNumber }
        return ([route.method.name.lowercased()] + words.map(String.init)).joined(separator: "_")
    }

    private static let timeZone = RouteDocumentation.Parameter(
        name: "X-Time-Zone",
        location: .header,
        schema: #"{"type":"string"}"#,
        description: "The user's zone (IANA), where neither the body nor the token names one.",
        example: #""Europe/Athens""#
    )

    private static func write(_ parameter: RouteDocumentation.Parameter, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("name")
        writer.string(parameter.name)
        writer.key("in")
        writer.string(parameter.location.rawValue)
        if parameter.location == .path {
            writer.key("required")
            writer.bool(true)
        }
        writer.key("description")
        writer.string(parameter.description)
        writer.key("schema")
        writer.raw(parameter.schema.utf8)
        writer.key("example")
        writer.raw(parameter.example.utf8)
        writer.endObject()
    }

    private static func write(_ body: RouteDocumentation.Body, into writer: inout JSONWriter) {
        writer.key("requestBody")
        writer.beginObject()
        writer.key("required")
        writer.bool(true)
        writer.key("content")
        writer.beginObject()
        writer.key("application/json")
        writer.beginObject()
        writer.key("schema")
        writer.raw(body.schema.utf8)
        writer.key("examples")
        writer.beginObject()
        for example in body.examples {
            writer.key(text: example.name)
            writer.beginObject()
            writer.key("value")
            writer.raw(example.json.utf8)
            writer.endObject()
        }
        writer.endObject()
        writer.endObject()
        writer.endObject()
        writer.endObject()
    }

    private static func write(_ success: RouteDocumentation.Success, into writer: inout JSONWriter) {
        writer.key(text: String(success.status))
        writer.beginObject()
        writer.key("description")
        writer.string(success.description)
        writer.key("content")
        writer.beginObject()
        writer.key("application/json")
        writer.beginObject()
        writer.key("schema")
        writer.raw(success.schema.utf8)
        writer.key("example")
        writer.raw(success.example.utf8)
        writer.endObject()
        writer.endObject()
        writer.endObject()
    }

    private static func writeComponents(into writer: inout JSONWriter) {
        writer.key("components")
        writer.beginObject()
        writer.key("securitySchemes")
        writer.raw(#"{"token":{"type":"http","scheme":"bearer","bearerFormat":"JWT"}}"#.utf8)
        writer.key("schemas")
        writer.beginObject()
        for schema in OpenAPISchemas.all {
            writer.key(text: schema.name)
            writer.raw(schema.json.utf8)
        }
        writer.endObject()
        writer.key("responses")
        writer.beginObject()
        for problem in problems {
            writer.key(text: "Problem\(problem.status)")
            writer.beginObject()
            writer.key("description")
            writer.string(problem.text)
            if let header = header(problem.status) {
                writer.key("headers")
                writer.raw(header.utf8)
            }
            writer.key("content")
            writer.raw(##"{"application/problem+json":{"schema":{"$ref":"#/components/schemas/Problem"}}}"##.utf8)
            writer.endObject()
        }
        writer.endObject()
        writer.endObject()
    }

    private static func header(_ status: Int) -> String? {
        switch status {
        case 401: #"{"WWW-Authenticate":{"schema":{"type":"string"},"required":true}}"#
        case 405: #"{"Allow":{"schema":{"type":"string"},"required":true}}"#
        case 429, 503: #"{"Retry-After":{"schema":{"type":"integer"},"required":true,"description":"In seconds."}}"#
        default: nil
        }
    }
}

extension JSONWriter {
    fileprivate mutating func key(lowercase method: HTTPMethod) { key(text: method.name.lowercased()) }
}

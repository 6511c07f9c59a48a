import Authentication
import Domain
import Foundation
import Testing

@testable import IngestService

/// Every status that the description gives an operation is provoked from the running service, and no other comes.
@Suite(.serialized)
struct OpenAPIStatusTests {
    /// One operation of the description, and how to ask for it.
    private struct Operation {
        let method: String
        let path: String
        let content: [String: Any]
        let target: String
        let body: String?
        let role: Role
        let statuses: Set<Int>

        var name: String { "\(method) \(path)" }
        var isSecured: Bool { (content["security"] as? [Any])?.isEmpty == false }
        var success: Int { statuses.min() ?? 0 }

        init(_ method: String, _ path: String, _ content: [String: Any]) throws {
            self.method = method.uppercased()
            self.path = path
            self.content = content
            target = try Document.target(path, content)
            body = try #require(try Document.examples(content).first)
            role = (content["description"] as? String)?.contains("role connector") == true ? .connector : .user
            statuses = Set((content["responses"] as? [String: Any] ?? [:]).keys.compactMap { Int($0) })
        }

        /// The bytes of a request.
        func request(
            target: String? = nil,
            token: String? = nil,
            headers: [String] = [],
            body: String? = nil,
            hasLength: Bool = true
        ) -> String {
            var lines = ["\(method) \(target ?? self.target) HTTP/1.1", "Host: test"] + headers
            if let token { lines.append("Authorization: Bearer \(token)") }
            let body = body ?? self.body
            if body != nil { lines.append("Content-Type: application/json") }
            if hasLength, method != "GET" { lines.append("Content-Length: \(body?.utf8.count ?? 0)") }
            return lines.joined(separator: "\r\n") + "\r\n\r\n" + (hasLength ? body ?? "" : "")
        }
    }

    /// Bodies with the right shape whose items break a rule.
    private static let invalid = [
        "/v1/days": #"{"source":"manual","days":[{"date":"2026-09-02","steps":-1}]}"#,
        "/v1/users/{id}/days": #"{"source":"oura","days":[{"date":"2026-09-02","steps":-1}]}"#,
        "/api/sync/apple-health": #"{"date":"2026-09-02","steps":1000000}"#,
        "/api/v1/wearable/data": #"{"device_id":"w","points":[{"timestamp":"never"}]}"#,
        "/v1/device-tokens": #"{"token":"abc","platform":"ios"}"#,
        "/v1/preferences/pins/{metric}": #"{"source":"nobody"}"#,
    ]

    @Test func `every documented status is answered, and nothing else is`() throws {
        let settings = [
            "DAYBOOK_REQUEST_ARRIVAL_DEADLINE_MS": "500", "DAYBOOK_RATE_LIMIT_PER_MINUTE": "1",
            "DAYBOOK_RATE_LIMIT_BURST": "1",
        ]
        let ingest = try IngestUnderTest(settings)
        let document = try Document(Array(ingest.connect().request("GET", "/openapi.json").body.utf8))
        let operations = try document.paths.flatMap { path, methods in
            try methods.map { method, content in try Operation(method, path, content) }
        }
        #expect(operations.count == RouteTable.routes.count)
        var seen: [String: Set<Int>] = [:]
        // All are asked first: those that send too slowly take their time together.
        var asked: [(operation: Operation, status: Int, client: Client)] = []
        for operation in operations {
            for status in operation.statuses where status != 503 {
                let client = try ingest.connect()
                for request in try Self.requests(for: operation, status) { client.send(request) }
                asked.append((operation, status, client))
            }
        }
        for (operation, status, client) in asked {
            // The request that empties the bucket is answered first.
            if status == 429 { #expect(try client.answer().status == operation.success, "\(operation.name)") }
            let answer = try client.answer()
            #expect(answer.status == status, "\(operation.name): \(answer.head) \(answer.body)")
            seen[operation.name, default: []].insert(answer.status)
        }
        for (name, statuses) in try away(operations) { seen[name, default: []].formUnion(statuses) }
        for operation in operations {
            #expect(seen[operation.name] == operation.statuses, "\(operation.name)")
        }
    }

    @Test func `what no operation can be asked for is described for all`() throws {
        let ingest = try IngestUnderTest()
        let document = try Document()
        let introduction = (document.root["info"] as? [String: Any])?["description"] as? String ?? ""
        func expect(_ status: Int, _ method: String, _ path: String) throws -> Client.Answer {
            let answer = try ingest.connect().request(method, path, headers: ["Content-Length: 0"])
            #expect(answer.status == status, "\(method) \(path)")
            #expect(document.component("responses", "Problem\(status)") != nil)
            #expect(introduction.contains(String(status)), "\(status)")
            return answer
        }
        _ = try expect(404, "GET", "/nowhere")
        _ = try expect(501, "CONNECT", "test:443")
        for (path, methods) in document.paths {
            let target = path.replacingOccurrences(of: "{", with: "").replacingOccurrences(of: "}", with: "")
            let answer = try expect(405, "PATCH", target)
            let allowed = methods.keys.map { $0.uppercased() }.sorted().joined(separator: ", ")
            #expect(answer.head.split(separator: "\r\n").contains("Allow: \(allowed)"), "\(path): \(answer.head)")
        }
    }

    /// What is to be sent so that an operation answers this.
    private static func requests(for operation: Operation, _ status: Int) throws -> [String] {
        // Each on behalf of somebody else: every bucket holds one request.
        let user = UserID(high: .random(in: 0...UInt64.max), low: .random(in: 0...UInt64.max)).description
        let target =
            operation.role == .connector
            ? try Document.target(operation.path, operation.content, segment: user) : operation.target
        let token = operation.isSecured ? try IngestUnderTest.token(user, role: operation.role) : nil
        func request(_ headers: [String] = [], body: String? = nil, hasLength: Bool = true) -> String {
            operation.request(target: target, token: token, headers: headers, body: body, hasLength: hasLength)
        }
        switch status {
        case operation.success: return [request()]
        case 400:
            guard operation.body != nil else { return [request(["Content-Length: 0", "Content-Length: 1"])] }
            return [request(body: #"{"days""#)]
        case 401: return [operation.request()]
        case 403:
            let role: Role = .operator
            return [operation.request(target: target, token: try IngestUnderTest.token(user, role: role))]
        case 404:
            let parameter = operation.path.hasSuffix("{token}") ? "" : "nobody"
            let elsewhere = try Document.target(operation.path, operation.content, segment: parameter)
            return [operation.request(target: elsewhere, token: token)]
        case 408: return [String(request().prefix(20))]
        case 411: return [request(hasLength: false)]
        case 413: return [operation.request(target: target, headers: ["Content-Length: 9000000"], hasLength: false)]
        case 414:
            let long = target + (target.contains("?") ? "&" : "?") + String(repeating: "x", count: 5000)
            return [operation.request(target: long, token: token)]
        case 415: return [request(["Content-Encoding: br"])]
        case 417: return [request(["Expect: magic"])]
        case 422:
            if let body = invalid[operation.path] { return [request(body: body)] }
            let wrong = try Document.target(operation.path, operation.content, segment: "%00")
            return [operation.request(target: wrong, token: token)]
        case 429: return [request(), request()]
        case 431: return [request((0..<100).map { "X-\($0): y" })]
        default:
            Issue.record("\(operation.name) may answer \(status), and nobody here knows when")
            return [request()]
        }
    }

    /// What a service says that has no Kafka, and to more clients than it takes.
    private func away(_ operations: [Operation]) throws -> [String: Set<Int>] {
        let ingest = try IngestUnderTest(
            ["DAYBOOK_KAFKA_BROKERS": "127.0.0.1:1", "DAYBOOK_MAX_CONNECTIONS": "1"],
            waitsUntilReady: false
        )
        let client = try ingest.connect()
        var seen: [String: Set<Int>] = [:]
        for operation in operations where operation.isSecured {
            client.send(operation.request(token: try IngestUnderTest.token(role: operation.role)))
            let answer = try client.answer()
            #expect(answer.status == 503 && answer.head.contains("Retry-After: "), "\(operation.name)")
            seen[operation.name, default: []].insert(answer.status)
        }
        for operation in operations where !operation.isSecured {
            // A client too many is told before it can ask.
            let answer = try ingest.connect().answer()
            #expect(answer.status == 503 && answer.head.contains("Retry-After: "), "\(operation.name)")
            seen[operation.name, default: []].insert(answer.status)
        }
        return seen
    }
}

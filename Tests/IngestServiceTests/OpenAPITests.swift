import Authentication
import Domain
import Foundation
import HTTPServer
import JSON
import MessageContract
import Testing

@testable import IngestService

struct OpenAPITests {
    @Test func `every route is described, and nothing else is`() throws {
        let document = try Document()
        #expect(document.root["openapi"] as? String == "3.1.0")
        let described = document.paths.flatMap { path, methods in methods.keys.map { "\($0.uppercased()) \(path)" } }
        let routed = RouteTable.routes.map { "\($0.method.name) \($0.path.text)" }
        #expect(Set(described) == Set(routed))
        #expect(described.count == routed.count)
        let ids = document.paths.values.flatMap(\.values).compactMap { $0["operationId"] as? String }
        #expect(Set(ids).count == routed.count)
    }

    @Test func `every reference leads somewhere`() throws {
        let document = try Document()
        for reference in Document.references(document.root) {
            let parts = reference.split(separator: "/").map(String.init)
            #expect(parts.count == 4 && document.component(parts[2], parts[3]) != nil, "\(reference)")
        }
    }

    @Test func `every status that can be answered is in it, with its headers`() throws {
        let document = try Document()
        let catalogue: [RequestProblem] = [
            .notFound, .methodNotAllowed, .unsupportedMediaType, .forbiddenSource, .tooLarge, .deadlinePassed,
            .queueFull,
            .notReady, .overloaded, .rateLimited(seconds: 1), .badShape("", ""), .invalid([]), .refusedWhole([]),
            .badQuery(""), .forbidden(roles: []),
            .unauthorized(.init(.missing)), .badJSON(.init(.syntax)),
        ]
        for status in Set(catalogue.map(\.status) + HTTPProblem.serverRefusals.map(\.status)) {
            #expect(document.component("responses", "Problem\(status)") != nil, "\(status)")
        }
        for problem in catalogue {
            let headers = problem.response.headers.map(\.name.description)
            let described = document.component("responses", "Problem\(problem.status)")?["headers"] as? [String: Any]
            #expect(headers.allSatisfy { described?[$0] != nil }, "\(problem.status)")
        }
        for route in RouteTable.routes {
            let path = route.path.text.description
            let responses = document.paths[path]?[route.method.name.lowercased()]?["responses"] as? [String: Any]
            let statuses = Set((responses ?? [:]).keys.compactMap { Int($0) })
            #expect(statuses.contains(route.documentation.success.status))
            // No way past these, whatever the route.
            let server = HTTPProblem.serverRefusals.map(\.status).filter { ![411, 501].contains($0) }
            #expect(statuses.isSuperset(of: server), "\(path)")
            if route.isWrite { #expect(statuses.isSuperset(of: [401, 403, 503]), "\(path)") }
            if route.method.hasBody { #expect(statuses.isSuperset(of: [411, 415]), "\(path)") }
        }
    }

    @Test func `metrics and sources are those of the ledger`() throws {
        let document = try Document()
        #expect(document.component("schemas", "Source")?["enum"] as? [String] == Source.allCases.map(\.description))
        let day = document.component("schemas", "Day")?["properties"] as? [String: [String: Any]]
        #expect(Set((day ?? [:]).keys) == Set(Metric.allCases.map(\.description) + ["date"]))
        #expect(day?["steps"]?["maximum"] as? Int == 100_000)
    }
}

/// The running service against its own description.
@Suite(.serialized)
struct OpenAPIServiceTests {
    @Test func `it is served without a token, and every example in it is accepted`() throws {
        let ingest = try IngestUnderTest()
        let client = try ingest.connect()
        let answer = try client.request("GET", "/openapi.json")
        #expect(answer.status == 200 && answer.head.contains("Content-Type: application/json"))
        let document = try Document(Array(answer.body.utf8))
        let token = try IngestUnderTest.token()
        let connector = try IngestUnderTest.token(role: .connector)
        var tried = 0
        for (path, methods) in document.paths.sorted(by: { $0.key < $1.key }) {
            for (method, operation) in methods {
                let target = try Document.target(path, operation)
                let isSecured = (operation["security"] as? [Any])?.isEmpty == false
                let isConnector = (operation["description"] as? String)?.contains("role connector") == true
                let responses = try #require(operation["responses"] as? [String: Any])
                let success = responses.keys.filter { $0.hasPrefix("2") }
                for body in try Document.examples(operation) {
                    let answer = try client.request(
                        method.uppercased(),
                        target,
                        token: isSecured ? (isConnector ? connector : token) : nil,
                        headers: body == nil && method != "get" ? ["Content-Length: 0"] : [],
                        body: body
                    )
                    #expect(success == [String(answer.status)], "\(method) \(target): \(answer.body)")
                    let shown = try Self.successExample(responses[String(answer.status)])
                    let got = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any] ?? [:]
                    #expect(Set(got.keys).isSuperset(of: shown.keys), "\(method) \(target)")
                    tried += 1
                }
            }
        }
        #expect(tried >= RouteTable.routes.count)
        #expect(try ingest.texts(.accounts).count == 4)
        #expect(try ingest.texts(.devices).count == 3)
        #expect(try ingest.texts(.points).count == 1)
        #expect(ingest.finish())
    }

    private static func successExample(_ response: Any?) throws -> [String: Any] {
        let content = try #require((response as? [String: Any])?["content"] as? [String: [String: Any]])
        return try #require(content["application/json"]?["example"] as? [String: Any])
    }
}

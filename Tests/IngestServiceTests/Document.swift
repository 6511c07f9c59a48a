import Foundation
import Testing

@testable import IngestService

/// The description as other programs read it.
struct Document {
    let root: [String: Any]
    let paths: [String: [String: [String: Any]]]

    init(_ bytes: some Collection<UInt8> = OpenAPIDocument.bytes) throws {
        root = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        paths = try #require(root["paths"] as? [String: [String: [String: Any]]])
    }

    func component(_ kind: String, _ name: String) -> [String: Any]? {
        ((root["components"] as? [String: Any])?[kind] as? [String: Any])?[name] as? [String: Any]
    }

    /// Every `$ref` in a value.
    static func references(_ value: Any) -> [String] {
        switch value {
        case let object as [String: Any]:
            object.flatMap { key, value in
                key == "$ref" ? [value as? String ?? ""] : references(value)
            }
        case let list as [Any]: list.flatMap(references)
        default: []
        }
    }
}

extension Document {
    /// An operation's path and query with the examples of its parameters; another text as the path's segment if given.
    static func target(
        _ path: String,
        _ operation: [String: Any],
        segment: String? = nil
    ) throws -> String {
        var path = path
        var query: [String] = []
        for parameter in operation["parameters"] as? [[String: Any]] ?? [] {
            let name = try #require(parameter["name"] as? String)
            let value = try #require(parameter["example"])
            let example = (value as? String) ?? (value as? Bool).map { String($0) } ?? ""
            switch parameter["in"] as? String {
            case "path": path = path.replacingOccurrences(of: "{\(name)}", with: segment ?? example)
            case "query": query.append("\(name)=\(example)")
            default: break
            }
        }
        return query.isEmpty ? path : path + "?" + query.joined(separator: "&")
    }

    /// One of nil for a route without a body.
    static func examples(_ operation: [String: Any]) throws -> [String?] {
        guard let body = operation["requestBody"] as? [String: Any] else { return [nil] }
        let content = try #require(body["content"] as? [String: [String: Any]])
        let examples = try #require(content["application/json"]?["examples"] as? [String: [String: Any]])
        return try examples.values.map { example in
            let value = try #require(example["value"])
            return String(decoding: try JSONSerialization.data(withJSONObject: value), as: UTF8.self)
        }
    }

    /// Of every operation, by path: its own statuses, and that another method is told so.
    var statuses: [String: Set<Int>] {
        paths.mapValues { methods in
            let described = methods.values.flatMap { ($0["responses"] as? [String: Any] ?? [:]).keys }
            return Set(described.compactMap { Int($0) }).union([405])
        }
    }

    /// What the answers that a service counted say, and the document does not; empty if all is well.
    func undescribed(in metrics: String) -> [String] {
        let statuses = statuses
        return metrics.matches(of: /daybook_ingest_requests_total\{route="([^"]*)",status="(\d+)"\} [1-9]/)
            .filter { match in
                let status = Int(match.output.2) ?? 0
                guard match.output.1 != "none" else { return component("responses", "Problem\(status)") == nil }
                return statuses[String(match.output.1)]?.contains(status) != true
            }
            .map { "\($0.output.2) at \($0.output.1)" }
    }
}

import Authentication
import HTTPServer
import JSON

extension Route {
    /// Retired: old apps still send samples, and want to hear that all went well.
    static let postTraineeSamples = Route(
        method: .post,
        path: PathPattern("/v1/trainee/health/samples"),
        kind: .write(roles: [.user]) { tools in
            { call throws(RequestProblem) in
                let samples: JSONValue?
                do {
                    samples = try tools.object(call).member("samples")
                } catch let problem as RequestProblem {
                    throw problem
                } catch {
                    throw .refusedWhole("samples", "duplicate_key", "Send this field once.")
                }
                guard var list = samples?.array else { throw .badShape("samples", "This must be an array.") }
                var index = 0
                while let sample = list.next() {
                    guard sample.object != nil else {
                        throw .refusedWhole("samples[\(index)]", "not_an_object", "A sample must be an object.")
                    }
                    index += 1
                }
                return RoutePlan(records: [], answer: FixedAnswer(status: 201, json: Array(#"{"accepted":0}"#.utf8)))
            }
        },
        documentation: RouteDocumentation(
            summary: "Retired: stores nothing",
            description: "Checks the body's shape, answers as it always has, and stores nothing. Send days instead.",
            isDeprecated: true,
            body: .init(
                schema:
                    #"{"type":"object","required":["samples"],"properties":{"samples":{"type":"array","#
                    + #""items":{"type":"object"}}}}"#,
                examples: [.init("a sample", #"{"samples":[{"type":"heart_rate","value":61}]}"#)]
            ),
            success: .init(
                status: 201,
                description: "Nothing was stored.",
                schema: #"{"type":"object","required":["accepted"],"properties":{"accepted":{"const":0}}}"#,
                example: #"{"accepted":0}"#
            )
        )
    )
}

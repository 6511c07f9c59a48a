import Authentication
import Domain
import HTTPServer
import JSON
import MessageContract

extension Route {
    static let putPin = Route(
        method: .put,
        path: PathPattern("/v1/preferences/pins/{metric}"),
        kind: .write(roles: [.user]) { tools in
            { call throws(RequestProblem) in
                guard let metric = Metric.allCases.first(where: { call.parameter.equals($0.name) }) else {
                    throw .notFound
                }
                let fields = BodyFields(try tools.object(call))
                guard let value = try fields.value("source") else {
                    throw .badShape("source", "Name a source, or send null to take the pin away.")
                }
                guard !value.isNull else { return RoutePlan(.preference(metric, source: nil), call) }
                guard let text = value.text else { throw .badShape("source", "This must be a string or null.") }
                guard let source = Source.allCases.first(where: { text.equals($0.name) }) else {
                    throw .badField("source", "unknown_source", "Send one of the sources that the description names.")
                }
                return RoutePlan(.preference(metric, source: source), call)
            }
        },
        documentation: RouteDocumentation(
            summary: "Pin a metric to a source",
            description: "The pinned source comes first for this metric, on all of the user's days. null unpins.",
            parameters: [
                .init(
                    name: "metric",
                    location: .path,
                    schema: ##"{"$ref":"#/components/schemas/Metric"}"##,
                    description: "The metric.",
                    example: #""steps""#
                )
            ],
            body: .init(
                schema:
                    #"{"type":"object","required":["source"],"properties":{"source":{"oneOf":[{"type":"null"},"#
                    + ##"{"$ref":"#/components/schemas/Source"}]}}}"##,
                examples: [.init("pin", #"{"source":"oura"}"#), .init("unpin", #"{"source":null}"#)]
            ),
            success: .written,
            problems: [404, 422]
        )
    )
}

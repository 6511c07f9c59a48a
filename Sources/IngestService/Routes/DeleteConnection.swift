import Authentication
import Domain
import HTTPServer
import MessageContract

extension Route {
    static let deleteConnection = Route(
        method: .delete,
        path: PathPattern("/v1/connections/{source}"),
        kind: .write(roles: [.user]) { _ in
            { call throws(RequestProblem) in
                guard let source = Source.allCases.first(where: { call.parameter.equals($0.name) }) else {
                    throw .notFound
                }
                let removesData = try RequestBytes.flag("data", query: call.query)
                return RoutePlan(.disconnect(source, removesData: removesData), call)
            }
        },
        documentation: RouteDocumentation(
            summary: "Disconnect a source",
            description:
                "It stops being a reason for wakes and a sign of freshness, until its next push. With data=true what it "
                + "gave until now is removed, too.",
            parameters: [
                .init(
                    name: "source",
                    location: .path,
                    schema: ##"{"$ref":"#/components/schemas/Source"}"##,
                    description: "The source.",
                    example: #""oura""#
                ),
                .init(
                    name: "data",
                    location: .query,
                    schema: #"{"type":"boolean","default":false}"#,
                    description: "Also removes its data.",
                    example: "true"
                ),
            ],
            success: .written,
            problems: [404]
        )
    )
}

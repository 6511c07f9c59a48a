import HTTPServer

extension Route {
    static let getOpenAPI = Route(
        method: .get,
        path: PathPattern("/openapi.json"),
        kind: .read { HTTPResponse(status: 200, body: OpenAPIDocument.bytes) },
        documentation: RouteDocumentation(
            summary: "This description",
            description: "OpenAPI 3.1, for everybody.",
            success: .init(
                status: 200,
                description: "The description of this interface.",
                schema: #"{"type":"object","required":["openapi","paths"]}"#,
                example: #"{"openapi":"3.1.0","paths":{}}"#
            )
        )
    )
}

import Authentication
import Domain
import HTTPServer

extension Route {
    /// Days of any user, from a provider's cloud.
    static let postUserDays = Route(
        method: .post,
        path: PathPattern("/v1/users/{id}/days"),
        kind: .write(roles: [.connector]) { tools in
            { call throws(RequestProblem) in
                guard let user = UserID(ascii: call.parameter.octets.span) else { throw .notFound }
                return try DaysPlan.make(call, tools, user: user, isConnector: true)
            }
        },
        documentation: RouteDocumentation(
            summary: "Store days of a user, from a cloud source",
            description: "For connectors. " + DaysPlan.description,
            takesTimeZone: true,
            parameters: [
                .init(
                    name: "id",
                    location: .path,
                    schema: #"{"type":"string","format":"uuid"}"#,
                    description: "The user: a token's sub, if that is a UUID.",
                    example: #""00000000-0000-4000-8000-000000000001""#
                ),
                DaysPlan.strict,
            ],
            body: .init(
                schema: ##"{"$ref":"#/components/schemas/DaysRequest"}"##,
                examples: [
                    .init(
                        "a ring",
                        #"{"source":"oura","days":[{"date":"2026-09-02","hrv_rmssd_ms":62.5,"sleep_minutes":431}]}"#
                    )
                ]
            ),
            success: DaysPlan.success,
            problems: [404, 422]
        )
    )
}

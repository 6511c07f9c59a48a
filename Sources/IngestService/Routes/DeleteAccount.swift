import Authentication
import HTTPServer
import MessageContract

extension Route {
    static let deleteAccount = Route(
        method: .delete,
        path: PathPattern("/v1/account"),
        kind: .write(roles: [.user]) { _ in
            { call throws(RequestProblem) in RoutePlan(.delete, call) }
        },
        documentation: RouteDocumentation(
            summary: "Delete all of the user's data",
            description:
                "Everything that was received until now goes and stays away, whatever is replayed; what comes later is "
                + "stored again.",
            success: .written
        )
    )
}

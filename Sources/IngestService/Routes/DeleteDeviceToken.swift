import Authentication
import HTTPServer
import MessageContract

extension Route {
    static let deleteDeviceToken = Route(
        method: .delete,
        path: PathPattern("/v1/device-tokens/{token}"),
        kind: .write(roles: [.user]) { _ in
            { call throws(RequestProblem) in
                guard let token = RequestBytes.decodedSegment(call.parameter), DeviceToken.isPlausible(token) else {
                    throw .badField("token", "bad_token", "Send the token as it was registered, percent-encoded.")
                }
                return try RoutePlan(DeviceRecord(user: call.identity.user, registration: nil), of: token, call)
            }
        },
        documentation: RouteDocumentation(
            summary: "Withdraw a device",
            description: "Withdraws the caller's own registration of this token; another user's stays.",
            parameters: [
                .init(
                    name: "token",
                    location: .path,
                    schema: #"{"type":"string","minLength":8,"maxLength":2048,"pattern":"^[A-Za-z0-9_:.=-]+$"}"#,
                    description: "The token as it was registered.",
                    example: #""740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad""#
                )
            ],
            success: .written,
            problems: [404, 422]
        )
    )
}

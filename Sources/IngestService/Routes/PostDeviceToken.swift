import Authentication
import Domain
import HTTPServer
import MessageContract
import TimeZones

extension Route {
    static let postDeviceToken = Route(
        method: .post,
        path: PathPattern("/v1/device-tokens"),
        kind: .write(roles: [.user]) { tools in
            { call throws(RequestProblem) in
                let fields = BodyFields(try tools.object(call))
                let registration = try readRegistration(fields, tools, call)
                let record = DeviceRecord(user: call.identity.user, registration: registration)
                return try RoutePlan(record, of: Array(registration.token.utf8), call)
            }
        },
        documentation: RouteDocumentation(
            summary: "Register a device for silent pushes",
            description:
                "At every launch of the app. It needs no permission to show alerts. A token belongs to whoever "
                + "registered it last.",
            body: .init(
                schema:
                    #"{"type":"object","required":["token","platform"],"properties":{"#
                    + #""token":{"type":"string","minLength":8,"maxLength":2048,"pattern":"^[A-Za-z0-9_:.=-]+$","#
                    + #""description":"APNs: 64 or more hex digits. FCM: the registration token."},"#
                    + #""platform":{"enum":["ios","android"]},"#
                    + #""environment":{"enum":["production","sandbox",null],"default":"production"},"#
                    + #""app_id":{"type":["string","null"],"maxLength":256,"#
                    + #""description":"Bundle id or package name; required on ios."},"#
                    + #""app_version":{"type":["string","null"],"maxLength":256},"#
                    + #""os_version":{"type":["string","null"],"maxLength":256},"#
                    + #""time_zone":{"type":["string","null"],"maxLength":64,"description":"IANA."}}}"#,
                examples: [
                    .init(
                        "iOS",
                        #"{"token":"740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad","platform":"ios","#
                            + #""environment":"production","app_id":"com.example.app","app_version":"4.2.0","#
                            + #""os_version":"26.1","time_zone":"Europe/Athens"}"#
                    ),
                    .init(
                        "Android",
                        #"{"token":"dGhpcyBpcyBub3QgYSB0b2tlbg:APA91bH-example_token","platform":"android","#
                            + #""app_id":"com.example.app"}"#
                    ),
                ]
            ),
            success: .written,
            problems: [422]
        )
    )

    private static func readRegistration(
        _ fields: BodyFields,
        _ tools: LoopTools,
        _ call: RouteCall
    ) throws(RequestProblem) -> DeviceRecord.Registration {
        let longest = RecordLimits.deviceTextBytes
        let token = Array(try fields.required("token", longest: RecordLimits.deviceTokenBytes).utf8)
        guard let platform = DeviceRecord.Platform(rawValue: try fields.required("platform", longest: longest)) else {
            throw .badField("platform", "unknown_value", "Send ios or android.")
        }
        let isGood =
            switch platform {
            case .ios: DeviceToken.isHex(token) && DeviceToken.hexDigits.contains(token.count)
            case .android: DeviceToken.isPlausible(token)
            }
        guard isGood else {
            throw .badField("token", "bad_token", "Send an APNs token as hex, or an FCM registration token.")
        }
        let given = try fields.text("environment", longest: longest) ?? DeviceRecord.Environment.production.rawValue
        guard let environment = DeviceRecord.Environment(rawValue: given) else {
            throw .badField("environment", "unknown_value", "Send production or sandbox, or leave it out.")
        }
        let app = try fields.text("app_id", longest: longest) ?? ""
        guard platform == .android || !app.isEmpty else {
            throw .badField("app_id", "missing_app_id", "Send the app's bundle id: its pushes are addressed to it.")
        }
        let zone = try fields.text("time_zone", longest: RecordLimits.zoneBytes)
        guard zone.map({ tools.zones.offset($0, at: call.receivedAt) != nil }) ?? true else {
            throw .badField("time_zone", "unknown_time_zone", "Send a zone of the IANA database, or leave it out.")
        }
        let kept = platform == .ios ? DeviceToken.normal(token) : token
        return DeviceRecord.Registration(
            token: String(decoding: kept, as: UTF8.self),
            platform: platform,
            environment: environment,
            appID: app,
            appVersion: try fields.text("app_version", longest: longest) ?? "",
            osVersion: try fields.text("os_version", longest: longest) ?? "",
            timeZone: zone
        )
    }
}

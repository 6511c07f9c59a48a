import Authentication
import Domain
import HTTPServer
import MessageContract

extension Route {
    /// Days of the caller, from their device or their own hand.
    static let postDays = Route(
        method: .post,
        path: PathPattern("/v1/days"),
        kind: .write(roles: [.user]) { tools in
            { call throws(RequestProblem) in
                try DaysPlan.make(call, tools, user: call.identity.user, isConnector: false)
            }
        },
        documentation: RouteDocumentation(
            summary: "Store days of the token's user",
            description: DaysPlan.description,
            takesTimeZone: true,
            parameters: [DaysPlan.strict],
            body: .init(
                schema: ##"{"$ref":"#/components/schemas/DaysRequest"}"##,
                examples: [
                    .init("a phone", DaysPlan.example),
                    .init(
                        "typed in",
                        #"{"source":"manual","days":[{"date":"2026-09-01","water_ml":1500},{"date":"2026-09-02","water_ml":900}]}"#
                    ),
                ]
            ),
            success: DaysPlan.success,
            problems: [422]
        )
    )
}

/// What both routes of days do.
enum DaysPlan {
    static func make(
        _ call: RouteCall,
        _ tools: LoopTools,
        user: UserID,
        isConnector: Bool
    ) throws(RequestProblem) -> RoutePlan {
        let isStrict = try RequestBytes.flag("strict", query: call.query)
        let context = DaysContext(
            receivedAt: call.receivedAt,
            claimedZone: call.identity.timeZone,
            headerZone: call.headerZone,
            fallbackZone: tools.fallbackZone
        )
        let request = try tools.days.decode(padded: call.paddedBody, context)
        guard DaysRules.mayWrite(request.source, isConnector: isConnector) else { throw .forbiddenSource }
        guard request.badDays == 0 || (!isStrict && request.badDays < request.dayCount) else {
            throw .invalid(request.errors)
        }
        let plan = try LanePlan(request, tools.writer, taking: tools.days.recordText)
        return plan.plan(for: user, answer: DaysAnswer(request, event: call.event))
    }

    static let description =
        "Items are independent: good days are stored, bad ones come back by index; if all are bad the answer is 422. "
        + "A metric that is left out or null leaves the stored value alone, and so does a 0 unless zeros says that it "
        + "was observed."

    static let strict = RouteDocumentation.Parameter(
        name: "strict",
        location: .query,
        schema: #"{"type":"boolean","default":false}"#,
        description: "Any bad day refuses the whole request.",
        example: "true"
    )

    static let example =
        #"{"source":"apple_health","origin":"","observed_at":"2026-09-02T21:14:05Z","time_zone":"Europe/Athens","#
        + #""days":[{"date":"2026-09-02","steps":11842,"active_energy_kcal":612,"sleep_minutes":431}]}"#

    static let success = RouteDocumentation.Success(
        status: 202,
        description: "Everything accepted is acknowledged by Kafka.",
        schema: ##"{"$ref":"#/components/schemas/DaysAnswer"}"##,
        example:
            #"{"accepted":14,"skipped":[{"index":2,"date":"2026-08-30","field":"steps","code":"zero"}],"errors":[],"#
            + #""event_id":"01990000-0000-7abc-8000-000000000123","position":"ZGF5Ym9vay5kYXlzLmxpdmUudjEvMy80Mg"}"#
    )
}

import Authentication
import HTTPServer
import JSON

extension Route {
    /// Steps as the trainees' apps send them.
    static let postTraineeDays = Route(
        method: .post,
        path: PathPattern("/v1/trainee/health/days"),
        kind: .write(roles: [.user]) { tools in
            { call throws(RequestProblem) in
                let collector = DaysCollector(
                    source: TraineeDays.source(of: call.identity.platform),
                    zone: tools.zone(call, fallback: "UTC"),
                    receivedAt: call.receivedAt,
                    oldestDays: TraineeDays.oldestDays
                )
                var days = TraineeDays(collector: collector)
                try days.read(try tools.object(call))
                let request = days.collector.request
                var writer = JSONWriter()
                writer.beginObject()
                writer.key("days")
                writer.integer(request.days.count)
                writer.endObject()
                return try LanePlan(request, tools.writer).plan(
                    for: call.identity.user,
                    answer: LegacyDaysAnswer(status: 201, json: writer.bytes, request)
                )
            }
        },
        documentation: RouteDocumentation(
            summary: "Store steps, as the trainees' apps send them",
            description:
                "Any violation refuses the whole body with 400. Days older than 90 days or more than one day ahead (in "
                + "the zone of the token, else of X-Time-Zone, else UTC) and days with no steps are left out silently; "
                + "of two days with one date the last counts. The token's platform says which store they are from.",
            takesTimeZone: true,
            body: .init(
                schema:
                    #"{"type":"object","required":["days"],"properties":{"days":{"type":"array","minItems":1,"#
                    + #""maxItems":90,"items":{"type":"object","required":["date","steps"],"properties":{"#
                    + #""date":{"type":"string","format":"date"},"#
                    + #""steps":{"type":"integer","minimum":0,"maximum":100000}}}}}}"#,
                examples: [
                    .init(
                        "two days",
                        #"{"days":[{"date":"2026-09-01","steps":7050},{"date":"2026-09-02","steps":8421}]}"#
                    )
                ]
            ),
            success: .init(
                status: 201,
                description: "Everything accepted is acknowledged by Kafka.",
                schema:
                    #"{"type":"object","required":["days"],"properties":{"days":{"type":"integer","minimum":0,"#
                    + #""description":"Days written."}}}"#,
                example: #"{"days":2}"#
            )
        )
    )
}

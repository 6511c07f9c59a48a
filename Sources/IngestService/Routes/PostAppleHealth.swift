import Authentication
import Domain
import HTTPServer
import JSON
import TimeZones

extension Route {
    /// Days as the first apps for Apple Health send them.
    static let postAppleHealth = Route(
        method: .post,
        path: PathPattern("/api/sync/apple-health"),
        kind: .write(roles: [.user]) { tools in
            { call throws(RequestProblem) in
                let zone = tools.zone(call, fallback: tools.fallbackZone)
                let fallbackOffset = tools.zones.offset(tools.fallbackZone, at: call.receivedAt) ?? 0
                var days = AppleHealthDays(
                    collector: DaysCollector(source: .appleHealth, zone: zone, receivedAt: call.receivedAt),
                    today: call.receivedAt.day(secondsFromUTC: fallbackOffset),
                    todayZone: tools.fallbackZone
                )
                try days.read(try tools.object(call))
                let request = days.collector.request
                guard request.badDays < request.dayCount else { throw .invalid(request.errors) }
                return try LanePlan(request, tools.writer).plan(
                    for: call.identity.user,
                    answer: LegacyDaysAnswer(
                        status: 200,
                        json: answer(days: request.days.count, warnings: days.warnings),
                        request
                    )
                )
            }
        },
        documentation: RouteDocumentation(
            summary: "Store days, as the first iOS apps send them",
            description:
                "One day, or several as days. Zeros, and steps below zero, are missing reads. A date that is missing or "
                + "malformed becomes today in DAYBOOK_FALLBACK_ZONE, and warnings says so; so it does of each bad day, "
                + "whose neighbours are stored. If all days are bad the answer is 422.",
            takesTimeZone: true,
            body: .init(
                schema: #"{"oneOf":[\#(daySchema),\#(daysSchema)]}"#,
                examples: [
                    .init(
                        "one day",
                        #"{"date":"2026-09-02","steps":8421,"active_calories":512.5,"basal_calories":1611,"#
                            + #""total_calories":2123.5,"active_minutes":61,"exercise_minutes":34,"water_oz":50.7,"#
                            + #""resting_heart_rate":58,"hrv":48.2,"sleep_minutes":431,"distance_m":6201.4}"#
                    ),
                    .init(
                        "several days",
                        #"{"days":[{"date":"2026-09-01","steps":7050},{"date":"2026-09-02","steps":8421,"hrv":null}]}"#
                    ),
                ]
            ),
            success: .init(
                status: 200,
                description: "Everything accepted is acknowledged by Kafka.",
                schema:
                    #"{"type":"object","required":["success","days","warnings"],"properties":{"success":{"const":true},"#
                    + #""days":{"type":"integer","minimum":0,"description":"Days written."},"#
                    + #""warnings":{"type":"array","items":{"type":"string"}}}}"#,
                example: #"{"success":true,"days":1,"warnings":[]}"#
            ),
            problems: [422]
        )
    )

    private static func answer(days: Int, warnings: [String]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("success")
        writer.bool(true)
        writer.key("days")
        writer.integer(days)
        writer.key("warnings")
        writer.beginArray()
        for warning in warnings { writer.string(warning) }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    private static var daySchema: String {
        let fields = AppleHealthDays.fields.map { field in
            let definition = MetricLedger[field.metric]
            let unit = field.metric == .water ? "fluid ounces" : definition.unit.description
            let low = field.metric == .steps ? "" : #""minimum":0,"#
            let type = definition.isWhole ? "integer" : "number"
            let divisor = field.metric == .water ? AppleHealthDays.millilitresPerOunce : 1
            let high = Int(Double(definition.tenths.upperBound / 10) / divisor)
            return
                #""\#(field.name)":{"type":["\#(type)","null"],\#(low)"maximum":\#(high),"description":"In \#(unit)."}"#
        }
        return #"{"type":"object","not":{"required":["days"]},"properties":{"date":{"type":"string","format":"date"},"#
            + fields.joined(separator: ",") + "}}"
    }

    private static var daysSchema: String {
        #"{"type":"object","required":["days"],"properties":{"days":{"type":"array","minItems":1,"maxItems":400,"#
            + #""items":\#(daySchema)}}}"#
    }
}

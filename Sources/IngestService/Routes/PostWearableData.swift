import Authentication
import HTTPServer
import JSON
import MessageContract
import Observability

extension Route {
    /// Time series of a wearable.
    static let postWearableData = Route(
        method: .post,
        path: PathPattern("/api/v1/wearable/data"),
        kind: .write(roles: [.user]) { tools in
            { call throws(RequestProblem) in
                var read = WearablePoints(receivedAt: call.receivedAt)
                try read.read(try tools.object(call))
                let parts = PointsRecord.split(
                    deviceID: read.deviceID,
                    timeZone: tools.zone(call, fallback: tools.fallbackZone).name,
                    points: read.points
                )
                let key = RecordKey.user(call.identity.user)
                return RoutePlan(
                    records: parts.map {
                        .init(topic: .points, schema: .points1, keyedBy: key, value: $0.encoded())
                    },
                    answer: PointsAnswer(accepted: read.accepted, bad: read.bad, errors: read.errors)
                )
            }
        },
        documentation: RouteDocumentation(
            summary: "Store a wearable's time series",
            description:
                "Points are independent: good ones are stored, bad ones come back by index; if all are bad the answer "
                + "is 422. A timestamp seen again replaces, field by field. null is absent, and so is a heart rate of 0.",
            takesTimeZone: true,
            body: .init(
                schema:
                    #"{"type":"object","required":["device_id","points"],"properties":{"#
                    + #""device_id":{"type":"string","minLength":1,"maxLength":128},"#
                    + #""points":{"type":"array","minItems":1,"maxItems":5000,"items":{"type":"object","#
                    + #""required":["timestamp"],"properties":{"timestamp":{"type":"string","format":"date-time"},"#
                    + #""heart_rate":{"type":["number","null"],"maximum":300,"description":"20 to 300 beats a minute."},"#
                    + #""steps":{"type":["integer","null"],"minimum":0,"maximum":100000},"#
                    + #""calories":{"type":["number","null"],"minimum":0,"maximum":20000,"#
                    + #""description":"Active kilocalories."},"#
                    + #""data":{"type":["object","null"],"description":"At most 4096 bytes and four levels."}}}}}}"#,
                examples: [
                    .init(
                        "a minute",
                        #"{"device_id":"watch-7","points":[{"timestamp":"2026-09-02T21:14:00Z","heart_rate":61,"steps":12,"#
                            + #""calories":1.4,"data":{"cadence":{"mean":96}}},"#
                            + #"{"timestamp":"2026-09-03T00:15:00+03:00","heart_rate":null,"steps":0}]}"#
                    )
                ]
            ),
            success: .init(
                status: 202,
                description: "Everything accepted is acknowledged by Kafka.",
                schema:
                    #"{"type":"object","required":["accepted","errors"],"properties":{"#
                    + #""accepted":{"type":"integer","minimum":0},"#
                    + ##""errors":{"type":"array","items":{"$ref":"#/components/schemas/FieldError"}}}}"##,
                example: #"{"accepted":2,"errors":[]}"#
            ),
            problems: [422]
        )
    )
}

final class PointsAnswer: RouteAnswer {
    let accepted: Int
    let bad: Int
    let errors: [FieldError]

    init(accepted: Int, bad: Int, errors: [FieldError]) {
        self.accepted = accepted
        self.bad = bad
        self.errors = errors
    }

    var status: Int { 202 }
    var heldBytes: Int { errors.count * FieldError.heldBytes }

    func writeBody(_ positions: RecordPositions, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("accepted")
        writer.integer(accepted)
        writer.key("errors")
        write(errors, into: &writer)
        writer.endObject()
    }

    func count(in metrics: IngestMetrics) {
        metrics.acceptedPoints.add(accepted)
        metrics.badPoints.add(bad)
    }
}

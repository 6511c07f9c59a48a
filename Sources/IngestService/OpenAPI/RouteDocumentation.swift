/// What the interface's description says of a route. Schemas and examples are JSON text; a test reads all of it.
struct RouteDocumentation: Sendable {
    struct Parameter: Sendable {
        enum Location: String, Sendable {
            case path, query, header
        }

        var name: String
        var location: Location
        var schema: String
        var description: String
        var example: String
    }

    struct Example: Sendable {
        var name: String
        var json: String

        init(_ name: String, _ json: String) {
            self.name = name
            self.json = json
        }
    }

    struct Body: Sendable {
        var schema: String
        /// Each is accepted by the running service.
        var examples: [Example]
    }

    struct Success: Sendable {
        var status: Int
        var description: String
        var schema: String
        var example: String

        /// Of routes that write one record.
        static let written = Success(
            status: 202,
            description: "The record is acknowledged by Kafka.",
            schema: ##"{"$ref":"#/components/schemas/WrittenAnswer"}"##,
            example:
                #"{"event_id":"01990000-0000-7abc-8000-000000000123","position":"ZGF5Ym9vay5hY2NvdW50cy52MS8zLzQy"}"#
        )
    }

    var summary: String
    var description: String
    var isDeprecated = false
    /// The header `X-Time-Zone` is looked at.
    var takesTimeZone = false
    var parameters: [Parameter] = []
    var body: Body?
    var success: Success
    /// Statuses of refusals besides those that any route has.
    var problems: [Int] = []
}

import Domain
import MessageContract
import TimeZones

@testable import IngestService

/// `POST /v1/days`: body to records, which the aggregator must be able to read. Plain bodies are read a quicker way:
/// whatever comes out is what the general way gives.
final class DaysTarget: FuzzTarget {
    private let decoder: DaysRequestDecoder
    private let reader: DaysRecordDecoder

    init() throws {
        decoder = try DaysRequestDecoder(zones: ZoneTable())
        reader = try DaysRecordDecoder()
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        let context = DaysContext(
            receivedAt: FuzzSamples.now,
            claimedZone: nil,
            headerZone: nil,
            fallbackZone: "UTC"
        )
        try withPadded(input) { body in
            for record in try records(of: body, context) { try readBack(record) }
            let quick = outcome { () throws(RequestProblem) in try decoder.decode(padded: body, context) }
            let general = outcome { () throws(RequestProblem) in try decoder.decodeTree(padded: body, context) }
            try check(quick == general, "the two ways to read a body differ")
        }
    }

    private func records(of body: UnsafeRawBufferPointer, _ context: DaysContext) throws -> [RoutePlan.Record] {
        do {
            let request = try decoder.decode(padded: body, context)
            let answer = DaysAnswer(request, event: FuzzSamples.event)
            _ = answer.body(positions: [])
            let plan = try LanePlan(request)
            if let text = decoder.recordText {
                let taken = try LanePlan(request, taking: text)
                try check(taken.records == plan.records, "days taken from the body differ from those that are written")
            }
            return plan.plan(for: FuzzSamples.user, answer: answer).records
        } catch let problem as RequestProblem {
            _ = problem.response
            return []
        }
    }

    private func outcome(_ decode: () throws(RequestProblem) -> DaysRequest) -> Result<DaysRequest, RequestProblem> {
        Result(catching: decode)
    }

    private func readBack(_ record: RoutePlan.Record) throws {
        let headers = SampleHeaders(schema: "days/1")
        try record.key.withUnsafeBytes { key in
            try record.value.withUnsafeBytes { value in
                try headers.withViews { headers in
                    let read = reader.decode(key: key, value: value, headers: headers, appendTime: nil)
                    if case .failure(let reason) = read {
                        throw FuzzFinding(description: "a record that was accepted is poison: \(reason)")
                    }
                }
            }
        }
    }
}

/// Headers as ingest writes them.
struct SampleHeaders {
    var schema: String
    var event = Array(FuzzSamples.event.description.utf8)
    var receivedAt = Array(FuzzSamples.now.description.utf8)

    func withViews<Result>(_ body: (RecordHeaders) throws -> Result) rethrows -> Result {
        try Array(schema.utf8).withUnsafeBytes { schema in
            try event.withUnsafeBytes { event in
                try receivedAt.withUnsafeBytes { received in
                    var headers = RecordHeaders()
                    (headers.schema, headers.eventID, headers.receivedAt) = (schema, event, received)
                    return try body(headers)
                }
            }
        }
    }
}

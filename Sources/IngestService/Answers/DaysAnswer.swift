public import Domain
import JSON
import MessageContract
import Observability

/// What the sender of days is told once all records are acknowledged.
public final class DaysAnswer: Sendable {
    public let accepted: Int
    public let skipped: [DaysRequest.Skipped]
    public let errors: [FieldError]
    /// How many days the errors are about.
    public let badDays: Int
    public let event: EventID

    public init(_ request: borrowing DaysRequest, event: EventID) {
        accepted = request.days.count
        skipped = request.skipped
        errors = request.errors
        badDays = request.badDays
        self.event = event
    }

    /// The body of the 202.
    public func body(positions: RecordPositions) -> [UInt8] {
        var writer = JSONWriter(reserving: 192 + (skipped.count + errors.count) * 96)
        writeBody(positions, into: &writer)
        return writer.bytes
    }
}

extension DaysAnswer: RouteAnswer {
    var status: Int { 202 }
    var heldBytes: Int {
        skipped.count * MemoryLayout<DaysRequest.Skipped>.stride + errors.count * FieldError.heldBytes
    }

    func writeBody(_ positions: RecordPositions, into writer: inout JSONWriter) {
        guard skipped.isEmpty, errors.isEmpty else { return writeLists(positions, into: &writer) }
        writeUsualBody(positions, into: &writer)
    }

    /// Nothing is said of any day: the same body in one piece.
    private func writeUsualBody(_ positions: RecordPositions, into writer: inout JSONWriter) {
        writer.value(room: 160 + positions.tokenRoom) { start in
            var place = TextPlace(start)
            place.put(#"{"accepted":"#)
            // A request has 400 days at most.
            place.put { DecimalText.writeTenths(Int32(truncatingIfNeeded: accepted) &* 10, to: $0) }
            place.put(#","skipped":[],"errors":[],"event_id":""#)
            place.put {
                event.write(to: $0)
                return EventID.textLength
            }
            place.put(#"","position":""#)
            place.put { positions.writeToken(to: $0) }
            place.put(#""}"#)
            return place.count
        }
    }

    private func writeLists(_ positions: RecordPositions, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("accepted")
        writer.integer(accepted)
        writer.key("skipped")
        writer.beginArray()
        for item in skipped {
            writer.beginObject()
            writer.key("index")
            writer.integer(item.index)
            writer.key("date")
            writer.string(item.date.description)
            if let metric = item.metric {
                writer.key("field")
                writer.string(MetricLedger[metric].name)
            }
            writer.key("code")
            writer.string(item.reason.rawValue)
            writer.endObject()
        }
        writer.endArray()
        writer.key("errors")
        write(errors, into: &writer)
        writer.key("event_id")
        writer.string(ascii: event.ascii)
        writer.key("position")
        positions.writeToken(into: &writer)
        writer.endObject()
    }

    func count(in metrics: IngestMetrics) {
        metrics.accepted.add(accepted)
        metrics.skipped.add(skipped.count)
        metrics.bad.add(badDays)
    }
}

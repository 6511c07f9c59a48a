import Authentication
import Domain
import HTTPServer
import JSON
import MessageContract

/// Records to be written, and what is answered once all of them are acknowledged. Without records: at once.
struct RoutePlan: Sendable {
    struct Record: Sendable, Hashable {
        var topic: Topic
        var schema: Schema
        var key: [UInt8]
        var value: [UInt8]
    }

    var records: [Record]
    var answer: any RouteAnswer
}

/// What a sender is told on success. An object, so that it waits for Kafka without being copied.
protocol RouteAnswer: AnyObject, Sendable {
    var status: Int { get }
    /// Writes the body, given where the records went.
    func writeBody(_ positions: [RecordPosition], into writer: inout JSONWriter)
    /// Counts the request's items once they are acknowledged.
    func count(in metrics: IngestMetrics)
}

extension RouteAnswer {
    func count(in metrics: IngestMetrics) {}

    func body(positions: [RecordPosition]) -> [UInt8] {
        var writer = JSONWriter()
        writeBody(positions, into: &writer)
        return writer.bytes
    }
}

/// An answer that is known beforehand.
final class FixedAnswer: RouteAnswer {
    let status: Int
    private let json: [UInt8]

    init(status: Int, json: [UInt8]) {
        self.status = status
        self.json = json
    }

    func writeBody(_ positions: [RecordPosition], into writer: inout JSONWriter) { writer.raw(json) }
}

/// The answer of routes that write one record: which it is.
final class WrittenAnswer: RouteAnswer {
    private let event: EventID

    init(event: EventID) {
        self.event = event
    }

    var status: Int { 202 }

    func writeBody(_ positions: [RecordPosition], into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("event_id")
        writer.string(ascii: event.ascii)
        writer.key("position")
        writer.string(unescaped: RecordPosition.token(positions))
        writer.endObject()
    }
}

extension RoutePlan {
    /// One record of the caller's account.
    init(_ record: AccountRecord, _ call: RouteCall) {
        let written = Record(
            topic: .accounts,
            schema: .account1,
            key: call.identity.user.key,
            value: record.encoded()
        )
        self.init(records: [written], answer: WrittenAnswer(event: call.event))
    }
}

extension UserID {
    /// The key of a user's records.
    var key: [UInt8] {
        let text = ascii
        return text.span.withUnsafeBufferPointer { Array($0) }
    }
}

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

/// What a sender is told on success.
protocol RouteAnswer: Sendable {
    var status: Int { get }
    /// The body, given where the records went.
    func body(positions: [RecordPosition]) -> [UInt8]
    /// Counts the request's items once they are acknowledged.
    func count(in metrics: IngestMetrics)
}

extension RouteAnswer {
    func count(in metrics: IngestMetrics) {}
}

/// An answer that is known beforehand.
struct FixedAnswer: RouteAnswer {
    let status: Int
    let json: [UInt8]

    func body(positions: [RecordPosition]) -> [UInt8] { json }
}

/// The answer of routes that write one record: which it is.
struct WrittenAnswer: RouteAnswer {
    let event: EventID

    var status: Int { 202 }

    func body(positions: [RecordPosition]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("event_id")
        writer.string(appending: event.append(to:))
        writer.key("position")
        writer.string(RecordPosition.token(positions))
        writer.endObject()
        return writer.bytes
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
        var bytes: [UInt8] = []
        bytes.reserveCapacity(36)
        append(to: &bytes)
        return bytes
    }
}

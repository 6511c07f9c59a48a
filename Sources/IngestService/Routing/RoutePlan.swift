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
        var keyedBy: RecordKey
        var value: [UInt8]

        init(topic: Topic, schema: Schema, keyedBy: RecordKey, value: [UInt8]) {
            self.topic = topic
            self.schema = schema
            self.keyedBy = keyedBy
            self.value = value
        }

        var key: [UInt8] { keyedBy.withBytes { Array($0) } }
    }

    /// Most requests have no more than this one, which needs no memory of its own.
    private let first: Record?
    private let others: [Record]
    let answer: any RouteAnswer

    init(records: [Record], answer: any RouteAnswer) {
        first = records.first
        others = Array(records.dropFirst())
        self.answer = answer
    }

    init(_ record: Record?, _ second: Record? = nil, answer: any RouteAnswer) {
        first = record
        others = second.map { [$0] } ?? []
        self.answer = answer
    }

    var records: [Record] { (first.map { [$0] } ?? []) + others }
    var recordCount: Int { first == nil ? 0 : 1 + others.count }

    func forEachRecord(_ body: (Record) throws -> Void) rethrows {
        if let first { try body(first) }
        for record in others { try body(record) }
    }
}

/// A record's key.
enum RecordKey: Sendable, Hashable {
    case user(UserID)
    case bytes([UInt8])

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        switch self {
        case .user(let user): return try user.withText(body)
        case .bytes(let bytes): return try bytes.withUnsafeBytes(body)
        }
    }

    var count: Int {
        switch self {
        case .user: 36
        case .bytes(let bytes): bytes.count
        }
    }
}

/// What a sender is told on success. An object, so that it waits for Kafka without being copied.
protocol RouteAnswer: AnyObject, Sendable {
    var status: Int { get }
    /// Writes the body, given where the records went.
    func writeBody(_ positions: RecordPositions, into writer: inout JSONWriter)
    /// Counts the request's items once they are acknowledged.
    func count(in metrics: IngestMetrics)
    /// About what it keeps in memory beside itself while it waits, in bytes; always the same.
    var heldBytes: Int { get }
}

extension RouteAnswer {
    func count(in metrics: IngestMetrics) {}
    var heldBytes: Int { 0 }

    func body(positions: RecordPositions) -> [UInt8] {
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

    func writeBody(_ positions: RecordPositions, into writer: inout JSONWriter) { writer.raw(json) }
    var heldBytes: Int { json.count }
}

/// The answer of routes that write one record: which it is.
final class WrittenAnswer: RouteAnswer {
    private let event: EventID

    init(event: EventID) {
        self.event = event
    }

    var status: Int { 202 }

    func writeBody(_ positions: RecordPositions, into writer: inout JSONWriter) {
        writer.beginObject()
        writer.key("event_id")
        writer.string(ascii: event.ascii)
        writer.key("position")
        positions.writeToken(into: &writer)
        writer.endObject()
    }
}

extension RoutePlan {
    /// One record of the caller's account.
    init(_ record: AccountRecord, _ call: RouteCall) {
        let written = Record(
            topic: .accounts,
            schema: .account1,
            keyedBy: .user(call.identity.user),
            value: record.encoded()
        )
        self.init(written, answer: WrittenAnswer(event: call.event))
    }
}

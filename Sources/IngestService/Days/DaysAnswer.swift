import Authentication
public import Domain
import JSON
import MessageContract

/// What the sender of days is told once all records are acknowledged.
public struct DaysAnswer: Sendable {
    /// Where a record went.
    public struct Position: Hashable, Sendable {
        public var topic: String
        public var partition: Int32
        public var offset: Int64

        public init(topic: String, partition: Int32, offset: Int64) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
        }
    }

    public var accepted: Int
    public var skipped: [DaysRequest.Skipped]
    public var errors: [FieldError]
    /// How many days the errors are about.
    public var badDays: Int
    public var event: EventID

    public init(_ request: DaysRequest, event: EventID) {
        accepted = request.days.count
        skipped = request.skipped
        errors = request.errors
        badDays = request.badDays
        self.event = event
    }

    /// The body of the 202.
    public func body(positions: [Position]) -> [UInt8] {
        var writer = JSONWriter(reserving: 192 + (skipped.count + errors.count) * 96)
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
        writer.string(appending: event.append(to:))
        writer.key("position")
        writer.string(Self.token(positions))
        writer.endObject()
        return writer.bytes
    }

    /// Opaque to clients: base64url of `topic/partition/offset`, separated by commas.
    public static func token(_ positions: [Position]) -> [UInt8] {
        var text: [UInt8] = []
        for (number, position) in positions.enumerated() {
            if number > 0 { text.append(UInt8(ascii: ",")) }
            text.append(contentsOf: "\(position.topic)/\(position.partition)/\(position.offset)".utf8)
        }
        return Base64URL.encode(text)
    }
}

public import Domain

/// What the headers of every record but a heartbeat say: which request it is of, and when it arrived.
public struct Envelope: Hashable, Sendable {
    public let event: EventID
    public let receivedAt: Instant

    public init(event: EventID, receivedAt: Instant) {
        self.event = event
        self.receivedAt = receivedAt
    }

    /// The version of what carries no time of its own.
    public var version: Version { Version(observedAt: nil, receivedAt: receivedAt, event: event) }

    /// Checks the headers of a record that should be of this schema; `appendTime` as for records of days.
    init(_ headers: RecordHeaders, schema expected: Schema, appendTime: Instant?) throws(PoisonReason) {
        guard let schema = headers.schema else { throw .missingHeader }
        guard Schema(id: schema) == expected else { throw .unknownSchema }
        guard let eventText = headers.eventID, let receivedText = headers.receivedAt else { throw .missingHeader }
        guard let event = EventID(ascii: eventText.octets.span) else { throw .badEventID }
        guard let receivedAt = Instant(rfc3339: receivedText.octets.span), receivedAt >= .earliest else {
            throw .badReceivedAt
        }
        if let appendTime, receivedAt > appendTime.advanced(bySeconds: RecordLimits.clockSeconds) { throw .clock }
        self.init(event: event, receivedAt: receivedAt)
    }
}

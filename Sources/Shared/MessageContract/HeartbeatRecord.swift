public import Domain
public import JSON

/// Written by every ingest process to each live partition, so that readers know how far they are, and whether the
/// door is open.
public struct HeartbeatRecord: Hashable, Sendable {
    /// Write requests since this process's last heartbeat.
    public var requests: Int
    /// How many of them were answered 2xx.
    public var answered: Int

    public init(requests: Int, answered: Int) {
        self.requests = requests
        self.answered = answered
    }

    /// The record's value; `received-at` is its header.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reserving: 64)
        writer.beginObject()
        writer.key("requests")
        writer.integer(requests)
        writer.key("answered")
        writer.integer(answered)
        writer.endObject()
        return writer.bytes
    }
}

/// A heartbeat with the time it was written at.
public struct DecodedHeartbeat: Hashable, Sendable {
    public let receivedAt: Instant
    public let counts: HeartbeatRecord
}

extension DecodedHeartbeat {
    /// The same without a parser to use again: heartbeats are few.
    public static func decode(
        value: UnsafeRawBufferPointer?,
        headers: RecordHeaders,
        appendTime: Instant?
    ) -> Result<DecodedHeartbeat, PoisonReason> {
        guard let parser = try? JSONParser(maximumDepth: 8) else { return .failure(.badJSON) }
        return decode(value: value, headers: headers, appendTime: appendTime, parser: parser)
    }

    /// Reads a record of `heartbeat/1`; `appendTime` as for records of days.
    public static func decode(
        value: UnsafeRawBufferPointer?,
        headers: RecordHeaders,
        appendTime: Instant?,
        parser: JSONParser
    ) -> Result<DecodedHeartbeat, PoisonReason> {
        guard let schema = headers.schema, let received = headers.receivedAt else { return .failure(.missingHeader) }
        guard Schema(id: schema) == .heartbeat1 else { return .failure(.unknownSchema) }
        guard let receivedAt = Instant(rfc3339: received.octets.span), receivedAt >= .earliest else {
            return .failure(.badReceivedAt)
        }
        if let appendTime, receivedAt > appendTime.advanced(bySeconds: RecordLimits.clockSeconds) {
            return .failure(.clock)
        }
        guard let value else { return .failure(.missingValue) }
        guard value.count <= 4096 else { return .failure(.tooLarge) }
        do {
            guard let object = try parser.parse(copying: value).object,
                let requests = try object.member("requests")?.integer, (0...Int64(Int32.max)).contains(requests),
                let answered = try object.member("answered")?.integer, (0...requests).contains(answered)
            else { return .failure(.badShape) }
            let counts = HeartbeatRecord(requests: Int(requests), answered: Int(answered))
            return .success(DecodedHeartbeat(receivedAt: receivedAt, counts: counts))
        } catch {
            return .failure(error.code == .duplicateKey ? .duplicateKey : .badJSON)
        }
    }
}

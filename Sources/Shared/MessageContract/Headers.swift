/// Names of record headers.
public enum HeaderName {
    public static let schema: StaticString = "schema"
    public static let eventID: StaticString = "event-id"
    public static let receivedAt: StaticString = "received-at"
    public static let route: StaticString = "route"
    public static let traceparent: StaticString = "traceparent"
}

/// Names of the headers that a dead letter carries besides those of the record it was. None holds a value of it.
public enum DeadLetterHeaders {
    public static let topic: StaticString = "origin-topic"
    public static let partition: StaticString = "origin-partition"
    public static let offset: StaticString = "origin-offset"
    /// The record's append time, in milliseconds since 1970.
    public static let timestamp: StaticString = "origin-timestamp"
    public static let clusterID: StaticString = "cluster-id"
    /// A `PoisonReason` code, or one of the aggregator's.
    public static let reason: StaticString = "reason"
    public static let build: StaticString = "build"
    /// How many bytes the record had, where it is too large for the dead-letter topic and was left out: it stands at
    /// its origin as long as that topic keeps it.
    public static let omittedBytes: StaticString = "omitted-bytes"
    /// Counts from 1; a redriven record carries the attempt that failed, and its next dead letter the one after.
    public static let attempt: StaticString = "attempt"

    private static let all: [StaticString] = [
        topic, partition, offset, timestamp, clusterID, reason, build, omittedBytes, attempt,
    ]

    /// Whether a header is one of these, and so none of the record's own.
    public static func contains(_ name: UnsafeRawBufferPointer) -> Bool {
        all.contains { name.equals($0) }
    }
}

/// What a record's value is, as its `schema` header says.
public enum Schema: Sendable, Hashable, CaseIterable {
    case days1
    case heartbeat1
    case account1
    case device1
    case points1

    public var id: StaticString {
        switch self {
        case .days1: "days/1"
        case .heartbeat1: "heartbeat/1"
        case .account1: "account/1"
        case .device1: "device/1"
        case .points1: "points/1"
        }
    }

    /// Nil for a schema, or a version of one, that this build does not know.
    public init?(id: UnsafeRawBufferPointer) {
        for schema in Self.allCases where id.equals(schema.id) {
            self = schema
            return
        }
        return nil
    }
}

/// The headers of a record that a reader needs, as views of the record's bytes.
public struct RecordHeaders {
    public var schema: UnsafeRawBufferPointer?
    public var eventID: UnsafeRawBufferPointer?
    public var receivedAt: UnsafeRawBufferPointer?

    public init() {}

    /// Takes a header if it is one of these; of two with one name the last counts.
    public mutating func note(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer?) {
        switch name.count {
        case 6: if name.equals(HeaderName.schema) { schema = value }
        case 8: if name.equals(HeaderName.eventID) { eventID = value }
        case 11: if name.equals(HeaderName.receivedAt) { receivedAt = value }
        default: break
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Byte for byte the same as an ASCII literal.
    func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        let other = text.utf8Start
        for index in 0..<count where self[index] != other[index] { return false }
        return true
    }

    /// The same bytes for what reads spans.
    var octets: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: baseAddress?.assumingMemoryBound(to: UInt8.self), count: count)
    }
}

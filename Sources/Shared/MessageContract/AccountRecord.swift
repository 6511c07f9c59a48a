public import Domain
public import JSON

/// What a person decided about their account: a record of `account/1`, keyed by user. It holds no health value.
public enum AccountRecord: Hashable, Sendable {
    /// Everything that is older goes and stays away.
    case delete
    /// A source counts as disconnected until its next push; `removesData`: and what it gave until now goes, too.
    case disconnect(Source, removesData: Bool)
    /// Pins a metric to a source; nil takes the pin away.
    case preference(Metric, source: Source?)

    public enum Kind: String, CaseIterable, Sendable {
        case delete, disconnect, preference

        var name: StaticString {
            switch self {
            case .delete: "delete"
            case .disconnect: "disconnect"
            case .preference: "preference"
            }
        }
    }

    public var kind: Kind {
        switch self {
        case .delete: .delete
        case .disconnect: .disconnect
        case .preference: .preference
        }
    }

    /// The record's value, as JSON that an operator can read.
    public func encoded() -> [UInt8] {
        var writer = JSONWriter(reserving: 96)
        writer.beginObject()
        writer.key("kind")
        writer.string(kind.name)
        switch self {
        case .delete: break
        case .disconnect(let source, let removesData):
            writer.key("source")
            writer.string(source.name)
            writer.key("data")
            writer.bool(removesData)
        case .preference(let metric, let source):
            writer.key("metric")
            writer.string(metric.name)
            writer.key("source")
            if let source { writer.string(source.name) } else { writer.null() }
        }
        writer.endObject()
        return writer.bytes
    }
}

/// One record of an account, ready to be applied.
public struct DecodedAccount: Hashable, Sendable {
    public let user: UserID
    public let record: AccountRecord
    public let envelope: Envelope

    public init(user: UserID, record: AccountRecord, envelope: Envelope) {
        self.user = user
        self.record = record
        self.envelope = envelope
    }

    /// The version of a preference.
    public var version: Version { envelope.version }

    /// What is older than this is removed; nil where the record removes nothing.
    public var watermark: Version? {
        switch record {
        case .delete, .disconnect(_, removesData: true): .watermark(deletedAt: envelope.receivedAt)
        case .disconnect(_, removesData: false), .preference: nil
        }
    }
}

/// Reads records of `account/1`. One decoder belongs to one thread.
public final class AccountRecordDecoder {
    private let parser: JSONParser

    /// - Throws: `outOfMemory`.
    public init() throws(JSONError) {
        parser = try JSONParser(maximumDepth: 8)
    }

    /// Checks and reads a record, as `DaysRecordDecoder.decode` does. A kind that this build does not know is poison.
    public func decode(
        key: UnsafeRawBufferPointer?,
        value: UnsafeRawBufferPointer?,
        headers: RecordHeaders,
        appendTime: Instant?
    ) -> Result<DecodedAccount, PoisonReason> {
        RecordMembers.decode(
            (key, value, headers, appendTime),
            schema: .account1,
            limit: RecordLimits.smallValueBytes,
            parser: parser
        ) { (user: UserID, envelope, members) throws(PoisonReason) in
            DecodedAccount(user: user, record: try read(members), envelope: envelope)
        }
    }

    private func read(_ members: RecordMembers) throws(PoisonReason) -> AccountRecord {
        guard let text = try members.text("kind") else { throw .badShape }
        guard let kind = AccountRecord.Kind.allCases.first(where: { text.equals($0.name) }) else { throw .unknownKind }
        switch kind {
        case .delete: return .delete
        case .disconnect:
            guard let source = try members.source("source") else { throw .badSource }
            let data = try members.value("data")
            guard data == nil || data?.bool != nil else { throw .badShape }
            return .disconnect(source, removesData: data?.bool ?? false)
        case .preference:
            guard let name = try members.text("metric") else { throw .badShape }
            guard let metric = Metric.allCases.first(where: { name.equals($0.name) }) else { throw .badMetric }
            return .preference(metric, source: try members.source("source"))
        }
    }
}

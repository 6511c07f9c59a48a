internal import Domain
internal import JSON
internal import Kafka
internal import MessageContract

/// What a record turned out to be.
enum RecordContent {
    case days(DecodedDays)
    case account(DecodedAccount)
    case device(DecodedDevice)
    case heartbeat(DecodedHeartbeat)
    case poison(PoisonReason)

    var receivedAt: Int64 {
        switch self {
        case .days(let days): days.receivedAt.microseconds
        case .account(let change): change.envelope.receivedAt.microseconds
        case .device(let device): device.envelope.receivedAt.microseconds
        case .heartbeat(let heartbeat): heartbeat.receivedAt.microseconds
        case .poison: 0
        }
    }

    init<Decoded>(_ decoded: Result<Decoded, PoisonReason>, _ content: (Decoded) -> RecordContent) {
        switch decoded {
        case .success(let value): self = content(value)
        case .failure(let reason): self = .poison(reason)
        }
    }

    /// How much work it makes in a batch; a record always makes some. A pin or a deletion may touch all of the user's
    /// days.
    var dayCount: Int {
        switch self {
        case .days(let days): max(1, days.readings.count)
        case .account: 400
        case .device, .heartbeat, .poison: 1
        }
    }

    /// Whether the brake counts it.
    var isCounted: Bool {
        if case .heartbeat = self { return false }
        return true
    }
}

/// A record on its way into a batch, kept whole so that it can become a dead letter.
struct PendingRecord {
    let record: KafkaRecord
    var content: RecordContent
}

/// Reads records by their schema. Belongs to one thread.
struct RecordReader {
    /// What a lane's topics hold; a record of another schema is poison there.
    enum Kind: Sendable {
        case days, accounts, devices
    }

    private let kind: Kind
    private let accounts: AccountRecordDecoder
    private let devices: DeviceRecordDecoder
    private let days: DaysRecordDecoder
    private let parser: JSONParser
    /// Off where the broker's times are made up.
    private let believesAppendTimes: Bool

    init(_ kind: Kind, believesAppendTimes: Bool) throws {
        self.kind = kind
        accounts = try AccountRecordDecoder()
        devices = try DeviceRecordDecoder()
        days = try DaysRecordDecoder()
        parser = try JSONParser(maximumDepth: 4)
        self.believesAppendTimes = believesAppendTimes
    }

    func read(_ record: KafkaRecord) -> PendingRecord {
        let appended = believesAppendTimes && record.timestampType == .appended
        let (microseconds, overflow) = record.timestampMilliseconds.multipliedReportingOverflow(by: 1000)
        let appendTime = appended && !overflow ? Instant(microseconds: microseconds) : nil
        let content: RecordContent = record.withKey { key in
            record.withValue { value in
                var headers = RecordHeaders()
                record.forEachHeader { name, value in headers.note(name: name, value: value) }
                switch kind {
                case .accounts:
                    let change = accounts.decode(key: key, value: value, headers: headers, appendTime: appendTime)
                    return RecordContent(change, RecordContent.account)
                case .devices:
                    let device = devices.decode(key: key, value: value, headers: headers, appendTime: appendTime)
                    return RecordContent(device, RecordContent.device)
                case .days: break
                }
                if let schema = headers.schema, Schema(id: schema) == .heartbeat1 {
                    let heartbeat = DecodedHeartbeat.decode(
                        value: value,
                        headers: headers,
                        appendTime: appendTime,
                        parser: parser
                    )
                    return RecordContent(heartbeat, RecordContent.heartbeat)
                }
                let decoded = days.decode(key: key, value: value, headers: headers, appendTime: appendTime)
                return RecordContent(decoded, RecordContent.days)
            }
        }
        return PendingRecord(record: record, content: content)
    }
}

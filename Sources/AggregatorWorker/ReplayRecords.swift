public import Aggregation
public import Domain
internal import JSON
public import Kafka
public import MessageContract

/// Which records of a stretch of log a replay takes; nil for all.
public struct ReplayFilter: Hashable, Sendable {
    public var user: UserID?
    public var source: Source?
    /// As ingest wrote it into the record's header.
    public var route: String?

    public init(user: UserID? = nil, source: Source? = nil, route: String? = nil) {
        self.user = user
        self.source = source
        self.route = route
    }
}

/// What a replay read and did, in records and days.
public struct ReplayCounts: Hashable, Sendable {
    /// Records that were read, whatever they were.
    public var read = 0
    /// Records that the filter took and that were applied.
    public var applied = 0
    public var changed = 0
    public var confirmed = 0
    public var older = 0
    public var suppressed = 0
    public var belowFloor = 0
    public var sourceRows = 0
    public var canonical = 0
    /// Users whose account, pins or connections changed.
    public var accounts = 0
    /// By reason. They are dead letters already, and are not put aside again.
    public var poison: [String: Int] = [:]
    /// Batches that met a conflict and were tried again.
    public var retries = 0

    public init() {}

    /// Counts a batch of so many records.
    public mutating func note(_ batch: BatchCounts, _ records: Int) {
        applied += records
        changed += batch.changed
        confirmed += batch.confirmed
        older += batch.older
        suppressed += batch.suppressed
        belowFloor += batch.belowFloor
        sourceRows += batch.sourceRowsWritten
        canonical += batch.canonicalWritten
        accounts += batch.accountsChanged
    }

    public static func += (left: inout ReplayCounts, right: ReplayCounts) {
        left.read += right.read
        left.applied += right.applied
        left.changed += right.changed
        left.confirmed += right.confirmed
        left.older += right.older
        left.suppressed += right.suppressed
        left.belowFloor += right.belowFloor
        left.sourceRows += right.sourceRows
        left.canonical += right.canonical
        left.accounts += right.accounts
        left.poison.merge(right.poison, uniquingKeysWith: +)
        left.retries += right.retries
    }
}

/// Reads records for a replay as the worker reads them, and keeps those that the filter takes until there are enough
/// for a batch. Belongs to one thread.
public struct ReplayBatch {
    private static let recordLimit = 4000

    public private(set) var days: [DecodedDays] = []
    public private(set) var accounts: [DecodedAccount] = []
    public private(set) var devices: [DecodedDevice] = []
    /// In days, as `RecordContent.dayCount`.
    public private(set) var work = 0
    /// A batch of so many days is full.
    public var dayLimit = 2000
    private let filter: ReplayFilter
    private let userKey: [UInt8]?
    private let reader: RecordReader

    /// - Parameters:
    ///   - topic: what is read: days or accounts.
    ///   - filter: what is taken.
    ///   - believesAppendTimes: off where the broker's times are made up.
    /// - Throws: where there is no memory for a parser.
    public init(_ topic: Topic, _ filter: ReplayFilter, believesAppendTimes: Bool) throws {
        self.filter = filter
        // A device's key is its token's hash.
        userKey = topic == .devices ? nil : filter.user.map { Array($0.description.utf8) }
        let kind: RecordReader.Kind =
            switch topic {
            case .accounts: .accounts
            case .devices: .devices
            case .daysLive, .daysHistory, .points, .deadLetters: .days
            }
        reader = try RecordReader(kind, believesAppendTimes: believesAppendTimes)
    }

    public var isEmpty: Bool { days.isEmpty && accounts.isEmpty && devices.isEmpty }

    /// Deletions and pins may touch all of a user's days, so few of them make a batch.
    public var isFull: Bool {
        days.count + accounts.count + devices.count >= Self.recordLimit || work >= dayLimit
    }

    /// Takes a record, or counts why not.
    public mutating func take(_ record: KafkaRecord, _ counts: inout ReplayCounts) {
        counts.read += 1
        if let userKey, !record.withKey({ $0?.elementsEqual(userKey) ?? false }) { return }
        if let route = filter.route {
            let isTheirs = record.withHeader(named: HeaderName.route) { $0?.elementsEqual(route.utf8) ?? false }
            guard isTheirs else { return }
        }
        let content = reader.read(record).content
        switch content {
        case .days(let decoded):
            if let source = filter.source, decoded.source != source { return }
            days.append(decoded)
        case .account(let change):
            if let source = filter.source, change.record.source != source { return }
            accounts.append(change)
        case .device(let device):
            if filter.source != nil { return }
            if let user = filter.user, device.record.user != user { return }
            devices.append(device)
        case .heartbeat: return
        case .poison(let reason):
            counts.poison[reason.code, default: 0] += 1
            return
        }
        work += content.dayCount
    }

    public mutating func removeAll() {
        days.removeAll(keepingCapacity: true)
        accounts.removeAll(keepingCapacity: true)
        devices.removeAll(keepingCapacity: true)
        work = 0
    }
}

extension AccountRecord {
    /// The source that it is about, if it is about one.
    fileprivate var source: Source? {
        switch self {
        case .delete: nil
        case .disconnect(let source, _): source
        case .preference(_, let source): source
        }
    }
}

public import Domain

/// The partition's move that a batch makes in its own transaction; it fails where the partition is not mine any more.
public struct Fence: Hashable, Sendable {
    public let name: PartitionName
    public let owner: UUID128
    public let epoch: Int64
    /// What this lane last read or wrote there; never the first record's offset, since gaps are normal.
    public let position: Int64
    public let nextOffset: Int64
    public let lastRecord: Int64?
    /// In microseconds since 1970; 0 leaves the stored time alone.
    public let appliedThrough: Int64
    public let brake: [UInt8]?
    public let brakedAt: Int64?

    public init(
        name: PartitionName,
        owner: UUID128,
        epoch: Int64,
        position: Int64,
        nextOffset: Int64,
        lastRecord: Int64?,
        appliedThrough: Int64,
        brake: [UInt8]?,
        brakedAt: Int64?
    ) {
        self.name = name
        self.owner = owner
        self.epoch = epoch
        self.position = position
        self.nextOffset = nextOffset
        self.lastRecord = lastRecord
        self.appliedThrough = appliedThrough
        self.brake = brake
        self.brakedAt = brakedAt
    }
}

/// A user whom a batch touches, with the bucket that a new account is placed in.
public struct TouchedUser: Hashable, Sendable {
    public let user: UserID
    public let bucket: Int16

    public init(user: UserID, bucket: Int16) {
        self.user = user
        self.bucket = bucket
    }
}

/// Days of one user that a batch reads, both ends included.
public struct DayRange: Hashable, Sendable {
    public let user: UserID
    public var first: CalendarDay
    public var last: CalendarDay

    public init(user: UserID, first: CalendarDay, last: CalendarDay) {
        self.user = user
        self.first = first
        self.last = last
    }
}

public struct UserDay: Hashable, Comparable, Sendable {
    public let user: UserID
    public let day: CalendarDay

    public init(user: UserID, day: CalendarDay) {
        self.user = user
        self.day = day
    }

    public static func < (left: UserDay, right: UserDay) -> Bool {
        left.user == right.user ? left.day < right.day : left.user < right.user
    }
}

public struct UserSource: Hashable, Sendable {
    public let user: UserID
    public let source: Source

    public init(user: UserID, source: Source) {
        self.user = user
        self.source = source
    }
}

public struct Account: Hashable, Sendable {
    /// Watermark of the newest deletion; version 0 for none.
    public let deleted: Version
    public let preferences: Preferences

    public init(deleted: Version, preferences: Preferences) {
        self.deleted = deleted
        self.preferences = preferences
    }
}

/// What a batch reads under the locks of its accounts.
public struct BatchSnapshot {
    /// False: the partition's row was not as expected; nothing may be written.
    public var isFenceHeld: Bool
    public var ruleVersion: Int32
    public var windowFormat: Int16
    public var retentionFloor: CalendarDay
    public var accounts: [UserID: Account]
    /// Watermarks of deletions of one source's data.
    public var deletedSources: [UserSource: Version]
    /// Every source row in the ranges asked for, by day, each day's rows sorted by provenance.
    public var days: [UserDay: [SourceRow]]

    public init(
        isFenceHeld: Bool,
        ruleVersion: Int32,
        windowFormat: Int16,
        retentionFloor: CalendarDay,
        accounts: [UserID: Account],
        deletedSources: [UserSource: Version],
        days: [UserDay: [SourceRow]]
    ) {
        self.isFenceHeld = isFenceHeld
        self.ruleVersion = ruleVersion
        self.windowFormat = windowFormat
        self.retentionFloor = retentionFloor
        self.accounts = accounts
        self.deletedSources = deletedSources
        self.days = days
    }
}

/// What a batch writes; every list sorted by its table's key and without repetitions.
public struct BatchWrites {
    public struct SourceWrite {
        public let key: UserDay
        public let row: SourceRow

        public init(key: UserDay, row: SourceRow) {
            self.key = key
            self.row = row
        }
    }

    public struct CanonicalWrite {
        public let key: UserDay
        public let day: CanonicalDay

        public init(key: UserDay, day: CanonicalDay) {
            self.key = key
            self.day = day
        }
    }

    public struct ConnectionWrite {
        public let user: UserID
        public let provenance: Provenance
        /// In microseconds since 1970.
        public var lastPushAt: Int64
        /// 0 where no value changed.
        public var lastDataAt: Int64

        public init(user: UserID, provenance: Provenance, lastPushAt: Int64, lastDataAt: Int64) {
            self.user = user
            self.provenance = provenance
            self.lastPushAt = lastPushAt
            self.lastDataAt = lastDataAt
        }
    }

    public struct AccountWrite {
        public let user: UserID
        public let account: Account

        public init(user: UserID, account: Account) {
            self.user = user
            self.account = account
        }
    }

    public var sourceRows: [SourceWrite] = []
    /// Source rows that a deletion emptied.
    public var removedSourceRows: [(key: UserDay, provenance: Provenance)] = []
    public var canonicalDays: [CanonicalWrite] = []
    public var removedCanonicalDays: [UserDay] = []
    public var connections: [ConnectionWrite] = []
    /// Users whose connections go if their last push is older (in microseconds since 1970).
    public var removedConnections: [(user: UserID, before: Int64)] = []
    public var accounts: [AccountWrite] = []
    /// The version of the rules with which the canonical days were made.
    public var ruleVersion: Int32 = MetricLedger.ruleVersion

    public init() {}
}

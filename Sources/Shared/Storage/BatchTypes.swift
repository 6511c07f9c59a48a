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
    /// What the batch's heartbeats tell of the door; empty for most batches.
    public let door: [DoorMinute]

    public init(
        name: PartitionName,
        owner: UUID128,
        epoch: Int64,
        position: Int64,
        nextOffset: Int64,
        lastRecord: Int64?,
        appliedThrough: Int64,
        brake: [UInt8]?,
        brakedAt: Int64?,
        door: [DoorMinute] = []
    ) {
        self.door = door
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

/// The door's write requests of one minute, and how many of them it answered 2xx.
public struct DoorMinute: Hashable, Sendable {
    /// Minutes since 1970.
    public let minute: Int64
    public var requests: Int
    public var answered: Int

    public init(minute: Int64, requests: Int, answered: Int) {
        self.minute = minute
        self.requests = requests
        self.answered = answered
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

/// A source of a user as its registers stand; both only grow.
public struct AccountSource: Hashable, Sendable {
    /// Watermark of the newest deletion of the source's data; version 0 for none.
    public var deleted: Version
    /// The newest disconnect, in microseconds since 1970; 0 for none.
    public var disconnectedAt: Int64

    public init(deleted: Version = Version(rawValue: 0), disconnectedAt: Int64 = 0) {
        self.deleted = deleted
        self.disconnectedAt = disconnectedAt
    }
}

public struct ConnectionKey: Hashable, Comparable, Sendable {
    public let user: UserID
    public let provenance: Provenance

    public init(user: UserID, provenance: Provenance) {
        self.user = user
        self.provenance = provenance
    }

    public static func < (left: ConnectionKey, right: ConnectionKey) -> Bool {
        left.user == right.user ? left.provenance < right.provenance : left.user < right.user
    }
}

/// A connection's row. Times are microseconds since 1970.
public struct StoredConnection: Hashable, Sendable {
    public let lastPushAt: Int64
    public let lastDataAt: Int64
    /// As `Window.encoded` writes it; empty where there is none.
    public let window: [UInt8]
    /// Where the row lies; nil for one that is not stored.
    public let place: RowPlace?

    public init(lastPushAt: Int64, lastDataAt: Int64, window: [UInt8], place: RowPlace? = nil) {
        self.place = place
        self.lastPushAt = lastPushAt
        self.lastDataAt = lastDataAt
        self.window = window
    }
}

/// An entry of a device token.
public struct DeviceKey: Hashable, Comparable, Sendable {
    public let hash: DeviceTokenHash
    public let user: UserID

    public init(hash: DeviceTokenHash, user: UserID) {
        self.hash = hash
        self.user = user
    }

    public static func < (left: DeviceKey, right: DeviceKey) -> Bool {
        left.hash == right.hash ? left.user < right.user : left.hash < right.hash
    }
}

/// What a batch reads under the locks of its accounts, before it knows which days it needs.
public struct BatchSnapshot {
    /// False: the partition's row was not as expected; nothing may be written.
    public var isFenceHeld: Bool
    public var ruleVersion: Int32
    public var windowFormat: Int16
    public var retentionFloor: CalendarDay
    /// The oldest build that the schema allows to write.
    public var oldestBuild: Int32 = 0
    public var accounts: [UserID: Account] = [:]
    public var accountSources: [UserSource: AccountSource] = [:]
    /// Every connection of the touched users.
    public var connections: [ConnectionKey: StoredConnection] = [:]
    /// The oldest wake that no push has answered, in microseconds since 1970, of the users who have one: few.
    public var openWakes: [UserID: Int64] = [:]

    public init(isFenceHeld: Bool, ruleVersion: Int32, windowFormat: Int16, retentionFloor: CalendarDay) {
        self.isFenceHeld = isFenceHeld
        self.ruleVersion = ruleVersion
        self.windowFormat = windowFormat
        self.retentionFloor = retentionFloor
    }

    /// What is older is gone and stays away (D7): the larger of the account's and the source's watermark.
    public func watermark(_ user: UserID, _ source: Source) -> Version {
        let account = accounts[user]?.deleted ?? Version(rawValue: 0)
        guard !accountSources.isEmpty else { return account }
        return max(account, accountSources[UserSource(user: user, source: source)]?.deleted ?? account)
    }
}

/// The pushes of a user's phones behind a wake that were applied together, in microseconds since 1970.
public struct WakeAnswer: Hashable, Sendable {
    public let user: UserID
    /// The first push, which answers all wakes before it.
    public var firstAt: Int64
    /// The last one, which answers those between the two, and heals.
    public var lastAt: Int64
    /// The oldest wake that they may answer.
    public let openSince: Int64
    /// Whether one of the pushes, or what was applied together with them, changed a value.
    public var broughtData: Bool

    public init(user: UserID, firstAt: Int64, lastAt: Int64, openSince: Int64, broughtData: Bool = false) {
        self.user = user
        self.firstAt = firstAt
        self.lastAt = lastAt
        self.openSince = openSince
        self.broughtData = broughtData
    }
}

/// What a batch writes; every list sorted by its table's key and without repetitions.
public struct BatchWrites {
    public struct SourceWrite {
        public let key: UserDay
        public let row: SourceRow
        /// Where the stored row lies; nil for a new one.
        public let place: RowPlace?

        public init(key: UserDay, row: SourceRow, place: RowPlace?) {
            self.place = place
            self.key = key
            self.row = row
        }
    }

    /// A day that becomes what a reading says, row and canonical day, though neither was read: it is the day's only
    /// row, and has so many values, all of one older version. Where that does not hold, nothing is written.
    public struct Replacement {
        public let key: UserDay
        public let provenance: Provenance
        public let reading: Reading
        /// How many values the stored row has to have.
        public let storedCount: Int

        public init(key: UserDay, provenance: Provenance, reading: Reading, storedCount: Int) {
            self.key = key
            self.provenance = provenance
            self.reading = reading
            self.storedCount = storedCount
        }
    }

    public struct CanonicalWrite {
        public let key: UserDay
        public let day: CanonicalDay
        /// Where the stored row lies; nil for a new one.
        public let place: RowPlace?

        public init(key: UserDay, day: CanonicalDay, place: RowPlace?) {
            self.place = place
            self.key = key
            self.day = day
        }
    }

    public struct ConnectionWrite {
        public let key: ConnectionKey
        public let state: StoredConnection

        public init(key: ConnectionKey, state: StoredConnection) {
            self.key = key
            self.state = state
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

    public struct DeviceWrite {
        public let key: DeviceKey
        /// Of the token's hash, as of every key of a record.
        public let bucket: Int16
        public let entry: DeviceEntry

        public init(key: DeviceKey, bucket: Int16, entry: DeviceEntry) {
            self.key = key
            self.bucket = bucket
            self.entry = entry
        }
    }

    public var sourceRows: [SourceWrite] = []
    /// Source rows that a deletion emptied.
    public var removedSourceRows: [(key: UserDay, provenance: Provenance)] = []
    public var canonicalDays: [CanonicalWrite] = []
    public var removedCanonicalDays: [UserDay] = []
    public var connections: [ConnectionWrite] = []
    /// Connections that a deletion removed.
    public var removedConnections: [ConnectionKey] = []
    /// Users who answered a wake.
    public var answers: [WakeAnswer] = []
    /// When these users may be due for a wake at the earliest, in microseconds since 1970.
    public var wakes: [(user: UserID, dueAt: Int64)] = []
    /// Users who have no connection left.
    public var removedWakes: [UserID] = []
    /// Entries of device tokens; when they were deactivated is not written.
    public var devices: [DeviceWrite] = []
    /// Entries whose user is not locked, and of which only the versions stay, as another user has registered the token
    /// with this newer version.
    public var outdatedDevices: [(key: DeviceKey, newer: Version)] = []
    /// Users who deleted their account: of registrations below the watermark only the versions stay.
    public var deletedDevices: [(user: UserID, watermark: Version)] = []
    public var accounts: [AccountWrite] = []
    public var accountSources: [(key: UserSource, state: AccountSource)] = []
    /// The version of the rules with which the canonical days were made.
    public var ruleVersion: Int32 = MetricLedger.ruleVersion

    public init() {}

    /// Nothing is written.
    public var isEmpty: Bool {
        sourceRows.isEmpty && removedSourceRows.isEmpty && canonicalDays.isEmpty && removedCanonicalDays.isEmpty
            && connections.isEmpty && removedConnections.isEmpty && wakes.isEmpty && removedWakes.isEmpty
            && accounts.isEmpty && accountSources.isEmpty && devices.isEmpty && outdatedDevices.isEmpty
            && deletedDevices.isEmpty && answers.isEmpty
    }
}

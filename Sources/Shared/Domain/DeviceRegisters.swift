/// One user's entry of a device token: two registers that only grow, so that it does not matter in which order, how
/// often and in what portions records come (D3).
public struct DeviceEntry: Hashable, Sendable {
    /// The newest registration by this user; version 0 for none.
    public private(set) var registered: Version
    /// The newest withdrawal by this user; version 0 for none.
    public private(set) var withdrawn: Version
    /// When the token was found to be dead; the instant 0 for never. It comes from a sender, not from a record.
    public var deactivatedAt: Instant
    /// Of the newest registration; nil where it can't be live any more, whatever comes.
    public fileprivate(set) var registration: DeviceRegistration?

    public init(
        registered: Version = Version(rawValue: 0),
        withdrawn: Version = Version(rawValue: 0),
        deactivatedAt: Instant = Instant(microseconds: 0),
        registration: DeviceRegistration? = nil
    ) {
        self.registered = registered
        self.withdrawn = withdrawn
        self.deactivatedAt = deactivatedAt
        self.registration = registration
    }

    fileprivate mutating func apply(_ change: DeviceRegistration?, version: Version) {
        guard let change else {
            withdrawn = max(withdrawn, version)
            return
        }
        guard version >= registered else { return }
        registration = version > registered ? change : max(registration ?? change, change)
        registered = version
    }
}

/// All entries of one device token.
///
/// Its owner is the user of its newest registration. It is live if that is newer than the owner's withdrawal and than
/// the deactivation of the token, and not below the deletion of the owner's account. None of that comes back by itself:
/// a token that is not live any more is so again only by a newer registration.
public struct DeviceRegisters: Hashable, Sendable {
    public private(set) var entries: [UserID: DeviceEntry]

    public init(entries: [UserID: DeviceEntry] = [:]) {
        self.entries = entries
    }

    /// - Parameters:
    ///   - change: nil withdraws the user's own registration.
    ///   - version: the record's.
    ///   - user: whose entry it is.
    public mutating func apply(_ change: DeviceRegistration?, version: Version, of user: UserID) {
        entries[user, default: DeviceEntry()].apply(change, version: version)
    }

    /// The larger user id, should two have the same version.
    public var owner: UserID? {
        entries.max { ($0.value.registered, $0.key) < ($1.value.registered, $1.key) }?.key
    }

    /// Forgets the registrations that can't be live any more, so that only their versions stay.
    ///
    /// - Parameter watermark: the deletion of a user's account; version 0 for none, or where it is not known.
    public mutating func settle(watermark: (UserID) -> Version) {
        let owner = owner
        for (user, entry) in entries where entry.registration != nil {
            let isOutdated = user != owner || entry.registered <= entry.withdrawn
            if isOutdated || entry.registered < watermark(user) { entries[user]?.registration = nil }
        }
    }

    /// Whether a push to the token would be this user's.
    ///
    /// - Parameters:
    ///   - user: who may own it.
    ///   - watermark: the deletion of the user's account; version 0 for none.
    /// - Returns: false for everybody but the owner.
    public func isLive(of user: UserID, watermark: Version) -> Bool {
        guard user == owner, let entry = entries[user], entry.registration != nil else { return false }
        let isDead = entries.values.contains { $0.deactivatedAt >= entry.registered.instant }
        return !isDead && entry.registered > entry.withdrawn && entry.registered >= watermark
    }
}

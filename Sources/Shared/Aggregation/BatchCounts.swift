/// What a batch did, in days and records.
public struct BatchCounts: Hashable, Sendable {
    public var records = 0
    /// Days of which a value or a `closed` bit changed.
    public var changed = 0
    /// Days that a newer reading left as they were.
    public var confirmed = 0
    /// Days for which what is stored is newer.
    public var older = 0
    /// Days that a deletion had outdated before they came.
    public var suppressed = 0
    /// Days that retention has dropped.
    public var belowFloor = 0
    public var sourceRowsWritten = 0
    public var canonicalWritten = 0
    /// Users whose account, preferences or connections an accounts record changed.
    public var accountsChanged = 0
    /// Entries of device tokens that a registration or a withdrawal changed.
    public var deviceEntriesWritten = 0

    public init() {}

    public static func += (left: inout BatchCounts, right: BatchCounts) {
        left.records += right.records
        left.changed += right.changed
        left.confirmed += right.confirmed
        left.older += right.older
        left.suppressed += right.suppressed
        left.belowFloor += right.belowFloor
        left.sourceRowsWritten += right.sourceRowsWritten
        left.canonicalWritten += right.canonicalWritten
        left.accountsChanged += right.accountsChanged
        left.deviceEntriesWritten += right.deviceEntriesWritten
    }
}

public import Domain
public import MessageContract
public import Storage

/// The pure middle of a batch of device records: registers that only grow, so their order does not matter.
public struct DevicesMerge {
    private let records: [DecodedDevice]
    private let snapshot: BatchSnapshot

    /// - Parameters:
    ///   - records: in any order.
    ///   - snapshot: read under the locks of the records' users.
    public init(_ records: [DecodedDevice], _ snapshot: BatchSnapshot) {
        self.records = records
        self.snapshot = snapshot
    }

    /// The tokens whose entries are needed.
    public var hashes: [DeviceTokenHash] { Set(records.map(\.hash)).sorted() }

    /// - Parameter stored: all entries of `hashes`.
    /// - Returns: what has to be written; nothing where the records were known already.
    public func finish(_ stored: [DeviceTokenHash: DeviceRegisters]) -> (writes: BatchWrites, counts: BatchCounts) {
        var writes = BatchWrites()
        var reachable: Set<UserID> = []
        for (hash, records) in Dictionary(grouping: records, by: \.hash).sorted(by: { $0.key < $1.key }) {
            let before = stored[hash] ?? DeviceRegisters()
            var after = before
            for record in records {
                after.apply(record.record.registration, version: record.version, of: record.record.user)
            }
            after.settle(watermark: deleted)
            let mine = Set(records.map(\.record.user))
            add(hash, before, after, mine, to: &writes)
            for user in mine
            where after.isLive(of: user, watermark: deleted(user)) && !before.isLive(of: user, watermark: deleted(user))
            {
                reachable.insert(user)
            }
        }
        writes.wakes = wakes(reachable)
        var counts = BatchCounts()
        counts.records = records.count
        counts.deviceEntriesWritten = writes.devices.count
        return (writes, counts)
    }

    private func add(
        _ hash: DeviceTokenHash,
        _ before: DeviceRegisters,
        _ after: DeviceRegisters,
        _ mine: Set<UserID>,
        to writes: inout BatchWrites
    ) {
        let newest = after.owner.flatMap { after.entries[$0]?.registered } ?? Version(rawValue: 0)
        let bucket = Int16(Partitioner.bucket(ofKey: hash.hex))
        for (user, entry) in after.entries.sorted(by: { $0.key < $1.key }) where entry != before.entries[user] {
            let key = DeviceKey(hash: hash, user: user)
            if mine.contains(user) {
                writes.devices.append(.init(key: key, bucket: bucket, entry: entry))
            } else {
                writes.outdatedDevices.append((key, newest))
            }
        }
    }

    private func deleted(_ user: UserID) -> Version {
        snapshot.accounts[user]?.deleted ?? Version(rawValue: 0)
    }

    /// The condition that was missing has come true: these users are due by the newest push of the phones that are
    /// connected. Without one there is nobody to wake, and the connection will put them on the schedule.
    private func wakes(_ users: Set<UserID>) -> [(user: UserID, dueAt: Int64)] {
        var pushes: [UserID: Int64] = [:]
        for (key, connection) in snapshot.connections where users.contains(key.user) {
            let source = key.provenance.source
            let disconnected = snapshot.accountSources[UserSource(user: key.user, source: source)]?.disconnectedAt ?? 0
            guard source.kind == .onDevice, connection.lastPushAt > disconnected else { continue }
            pushes[key.user] = max(pushes[key.user] ?? 0, connection.lastPushAt)
        }
        return pushes.sorted { $0.key < $1.key }.map { user, pushedAt in
            (user, WakeRule.due(afterPush: Instant(microseconds: pushedAt)).microseconds)
        }
    }
}

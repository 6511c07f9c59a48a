import Aggregation
import Domain
import MessageContract
import Storage
import Testing

@Suite struct `The merge of device records` {
    private let ann = UserID(high: 1, low: 1)
    private let bob = UserID(high: 1, low: 2)
    private let hash = DeviceTokenHash(InlineArray(repeating: 7))
    private let start: Int64 = 1_780_000_000_000_000

    private func record(_ user: UserID, minute: Int, withdraws: Bool = false) -> DecodedDevice {
        let received = Instant(microseconds: start).advanced(bySeconds: minute * 60)
        let registration = withdraws ? nil : DeviceRegistration(token: "a token", platform: .android)
        return DecodedDevice(
            hash: hash,
            record: DeviceRecord(user: user, registration: registration),
            envelope: Envelope(event: EventID(high: 0, low: 0), receivedAt: received)
        )
    }

    /// Ann and Bob with a phone each that pushed when all began.
    private func snapshot(deleted: Version = Version(rawValue: 0), disconnectedAt: Int64 = 0) -> BatchSnapshot {
        var snapshot = BatchSnapshot(
            isFenceHeld: true,
            ruleVersion: 1,
            windowFormat: 1,
            retentionFloor: CalendarDay(daysSinceEpoch: 0)
        )
        for user in [ann, bob] {
            snapshot.accounts[user] = Account(deleted: deleted, preferences: Preferences())
            for (source, pushedAt) in [(Source.appleHealth, start), (.oura, start + 9_000_000)] {
                let key = ConnectionKey(user: user, provenance: Provenance(source: source, origin: ""))
                snapshot.connections[key] = StoredConnection(lastPushAt: pushedAt, lastDataAt: 0, window: [])
            }
            let key = UserSource(user: user, source: .appleHealth)
            snapshot.accountSources[key] = AccountSource(disconnectedAt: disconnectedAt)
        }
        return snapshot
    }

    private func merge(
        _ records: [DecodedDevice],
        onto stored: DeviceRegisters = DeviceRegisters(),
        _ snapshot: BatchSnapshot
    ) -> BatchWrites {
        DevicesMerge(records, snapshot).finish([hash: stored]).writes
    }

    private func stored(_ records: DecodedDevice..., deactivatedAt: Int64 = 0) -> DeviceRegisters {
        var registers = DeviceRegisters()
        for record in records {
            registers.apply(record.record.registration, version: record.version, of: record.record.user)
        }
        return DeviceRegisters(
            entries: registers.entries.mapValues { entry in
                var entry = entry
                entry.deactivatedAt = Instant(microseconds: deactivatedAt)
                return entry
            }
        )
    }

    private var due: Int64 { start + 4 * 3_600_000_000 }

    @Test func `a first token puts its user on the wake schedule, by the last push of a connected phone`() {
        let writes = merge([record(ann, minute: 600)], snapshot())
        #expect(writes.devices.count == 1 && writes.devices.first?.entry.registration != nil)
        #expect(writes.wakes.map(\.user) == [ann] && writes.wakes.map(\.dueAt) == [due])
        let disconnected = merge([record(ann, minute: 600)], snapshot(disconnectedAt: start))
        #expect(disconnected.devices.count == 1 && disconnected.wakes.isEmpty)
    }

    @Test func `the app's next launch writes the version and leaves the schedule alone, a replay writes nothing`() {
        let first = record(ann, minute: 1)
        let again = merge([record(ann, minute: 2)], onto: stored(first), snapshot())
        #expect(again.devices.count == 1 && again.wakes.isEmpty)
        let replay = merge([first], onto: stored(first, record(ann, minute: 2)), snapshot())
        #expect(replay.devices.isEmpty && replay.outdatedDevices.isEmpty && replay.wakes.isEmpty)
    }

    @Test func `the last token dies; weeks later one is registered, and the user is due at once (W14)`() {
        let dead = stored(record(ann, minute: 1), deactivatedAt: start + 3_600_000_000)
        #expect(merge([record(ann, minute: 1)], onto: dead, snapshot()).wakes.isEmpty)
        let late = merge([record(ann, minute: 30)], onto: dead, snapshot())
        #expect(late.devices.count == 1 && late.wakes.isEmpty, "registered before the token died")
        #expect(merge([record(ann, minute: 40_000)], onto: dead, snapshot()).wakes.map(\.dueAt) == [due])
    }

    @Test func `a token that moves is taken from one and makes the other due`() {
        let writes = merge([record(bob, minute: 2)], onto: stored(record(ann, minute: 1)), snapshot())
        #expect(writes.devices.map(\.key.user) == [bob] && writes.wakes.map(\.user) == [bob])
        #expect(writes.outdatedDevices.map(\.key.user) == [ann])
        #expect(writes.outdatedDevices.map(\.newer) == [record(bob, minute: 2).version])
        let late = merge([record(ann, minute: 1)], onto: stored(record(bob, minute: 2)), snapshot())
        #expect(late.devices.map(\.entry.registration) == [nil] && late.wakes.isEmpty)
    }

    @Test func `withdrawn, or older than a deletion: versions only, and nobody is due`() {
        let withdrawn = merge([record(ann, minute: 2, withdraws: true), record(ann, minute: 1)], snapshot())
        #expect(withdrawn.devices.map(\.entry.registration) == [nil] && withdrawn.wakes.isEmpty)
        let watermark = record(ann, minute: 5).version
        let deleted = merge([record(ann, minute: 4)], snapshot(deleted: watermark))
        #expect(deleted.devices.map(\.entry.registration) == [nil] && deleted.wakes.isEmpty)
        #expect(deleted.devices.map(\.entry.registered) == [record(ann, minute: 4).version])
        #expect(merge([record(ann, minute: 5)], snapshot(deleted: watermark)).wakes.count == 1)
    }

    @Test func `a deletion clears the user's tokens, and only a newer one does so again`() throws {
        func delete(minute: Int) -> DecodedAccount {
            let received = Instant(microseconds: start).advanced(bySeconds: minute * 60)
            return DecodedAccount(
                user: ann,
                record: .delete,
                envelope: Envelope(event: EventID(high: 0, low: 0), receivedAt: received)
            )
        }
        let first = try AccountsMerge([delete(minute: 3)], snapshot()).finish(StoredDays()).writes
        let watermark = Version.watermark(deletedAt: delete(minute: 3).envelope.receivedAt)
        #expect(first.deletedDevices.map(\.user) == [ann] && first.deletedDevices.map(\.watermark) == [watermark])
        let known = snapshot(deleted: watermark)
        #expect(try AccountsMerge([delete(minute: 2)], known).finish(StoredDays()).writes.deletedDevices.isEmpty)
    }
}

import Domain
import Kafka
import Storage
import Testing

@testable import Daybook

struct AccountChangeTests {
    private let user = UserID(high: 1, low: 2)
    private let published = AccountChange.Published(
        place: TopicPartition(topic: "accounts", partition: 3),
        offset: 7,
        clusterID: "a",
        event: EventID(high: 3, low: 4),
        receivedAt: Instant(microseconds: 1_790_000_000_000_000)
    )

    private func state(_ next: Int64, cluster: String = "a") -> PartitionState {
        PartitionState(
            clusterID: cluster,
            owner: UUID128(high: 0, low: 1),
            epoch: 1,
            nextOffset: next,
            lastRecord: nil,
            appliedThrough: 0,
            brake: nil,
            brakedAt: nil
        )
    }

    @Test func `sources and metrics are taken by name, and a slip is named`() throws {
        #expect(try AccountWords.source("oura") == .oura)
        #expect(try AccountWords.sourceOrNone("none") == nil)
        #expect(try AccountWords.sourceOrNone("garmin") == .garmin)
        #expect(try AccountWords.metric("sleep_minutes") == .sleepMinutes)
        #expect(throws: CommandFailure.self) { try AccountWords.source("none") }
        do {
            _ = try AccountWords.metric("step")
            Issue.record("no such metric")
        } catch let failure as CommandFailure {
            #expect(failure.nextStep.hasPrefix("Did you mean 'steps'?") && failure.exitCode == .usage)
        }
    }

    @Test func `a record is applied once the position in its own log has passed it`() {
        #expect(!AccountChange.isApplied(published, nil))
        #expect(!AccountChange.isApplied(published, state(7)))
        #expect(AccountChange.isApplied(published, state(8)))
        #expect(!AccountChange.isApplied(published, state(8, cluster: "b")))
    }

    @Test func `a clock that readers would not believe is found`() {
        let at = published.receivedAt
        let seconds = at.microseconds / 1_000_000
        #expect(AccountChange.secondsTooFarAhead(at, appendedAtMilliseconds: nil) == nil)
        #expect(AccountChange.secondsTooFarAhead(at, appendedAtMilliseconds: (seconds - 300) * 1000) == nil)
        #expect(AccountChange.secondsTooFarAhead(at, appendedAtMilliseconds: (seconds - 301) * 1000) == 301)
        #expect(AccountChange.secondsTooFarAhead(at, appendedAtMilliseconds: (seconds + 900) * 1000) == nil)
    }

    @Test func `the outcome says where the record is and whether it has been applied`() {
        #expect(
            AccountChange.text(published, of: user, did: "deleted", isApplied: true)
                == "\(user): deleted (accounts/3 at offset 7, applied)"
        )
        #expect(AccountChange.text(published, of: user, did: "deleted", isApplied: false).contains("not applied yet"))
        #expect(!AccountChange.text(published, of: user, did: "deleted", isApplied: nil).contains("applied"))
        #expect(AccountChange.json(published, of: user, isApplied: nil).text().contains("\"applied\": null"))
    }

    @Test func `a check of the database says all that is missing`() throws {
        let month = try #require(CalendarDay("2026-12-01"))
        #expect(MigrateCommand.check(DatabaseCheck(version: 2)).isFine)
        let found = MigrateCommand.check(
            DatabaseCheck(version: 1, missingSteps: ["2 roles"], fault: "changed", missingMonths: [month])
        )
        #expect(!found.isFine && found.lines.count == 3)
        #expect(found.lines.contains { $0.contains("2026-12:") })
        #expect(found.json.text().contains("\"2026-12\""))
        #expect(!MigrateCommand.check(DatabaseCheck(version: 2, fault: "changed")).isFine)
    }
}

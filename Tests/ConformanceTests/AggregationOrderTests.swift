import Aggregation
import Domain
import MessageContract
import ServiceRuntime
import Storage
import Testing

/// Days and what people decided about their accounts, in whatever order they are applied.
@Suite struct `Days and accounts in any order on PostgreSQL` {
    private typealias Database = AggregationDatabase

    private let today = AggregationDatabase.today
    private let alice = UserID(high: 0xA11C_E000_0000_4000, low: 0x8000_0000_0000_0001)

    private enum Event {
        case days(DecodedDays)
        case account(DecodedAccount)
    }

    private func accountChange(_ user: UserID, minute: Int, _ generator: inout SplitMix64) -> DecodedAccount {
        let received = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: minute * 60)
        let kinds: [AccountRecord] = [
            .delete, .disconnect(.oura, removesData: true), .disconnect(.appleHealth, removesData: false),
            .preference(.steps, source: .oura), .preference(.steps, source: .manual), .preference(.steps, source: nil),
        ]
        let event = EventID(high: 0, low: UInt64.random(in: 0...1, using: &generator))
        return DecodedAccount(
            user: user,
            record: kinds[Int.random(in: 0..<kinds.count, using: &generator)],
            envelope: Envelope(event: event, receivedAt: received)
        )
    }

    private func events(_ users: [UserID], _ generator: inout SplitMix64) -> [Event] {
        // Days that fit a window, and days that push one another out of it.
        let reach = [3, 60].randomElement(using: &generator) ?? 3
        // Of a user with one source days are replaced unread.
        let haveOne = Bool.random(using: &generator)
        return (0..<70).map { _ in
            let user = users[Int.random(in: 0..<users.count, using: &generator)]
            let minute = Int.random(in: 0...40, using: &generator)
            if Int.random(in: 0..<8, using: &generator) == 0 {
                return .account(accountChange(user, minute: minute, &generator))
            }
            let days = (0..<Int.random(in: 1...4, using: &generator)).map { _ -> (Int, MetricValues) in
                var values = MetricValues()
                for metric in [Metric.steps, .sleepMinutes, .hrvSDNN] where Bool.random(using: &generator) {
                    values[metric] = Int32.random(in: 1...2, using: &generator) * 10
                }
                return (Int.random(in: 0...reach, using: &generator) - 1, values)
            }
            let sources: [Source] = haveOne ? [.oura] : [.appleHealth, .oura, .manual]
            return .days(
                record(
                    user,
                    sources.randomElement(using: &generator) ?? .oura,
                    minute: minute,
                    origin: haveOne || Int.random(in: 0..<3, using: &generator) > 0 ? "" : "watch",
                    closed: Int.random(in: 0..<4, using: &generator) == 0,
                    tie: UInt64.random(in: 0...1, using: &generator),
                    days
                )
            )
        }
    }

    @Test(arguments: 0..<12)
    func `any order, split and duplication, with deletions, disconnects and pins anywhere: the same hash (D3, D7, C19)`(
        seed: Int
    ) throws {
        var generator = SplitMix64(seed: UInt64(seed) &* 77 + 3)
        let users = (1...3).map { UserID(high: 7, low: UInt64($0)) }
        let events = events(users, &generator)
        var hashes: Set<String> = []
        var pushes: Set<String> = []
        for _ in 0..<3 {
            let database = try Database()
            for month in 0...3 {
                try MonthPartitions(database.connection).ensure(containing: today.advanced(by: -31 * month))
            }
            var shuffled = events + events.filter { _ in Bool.random(using: &generator) }
            shuffled.shuffle(using: &generator)
            var batch: [DecodedDays] = []
            for event in shuffled {
                switch event {
                case .days(let record):
                    batch.append(record)
                    if Int.random(in: 0..<4, using: &generator) > 0 { continue }
                    try database.apply(batch)
                    batch = []
                case .account(let change):
                    _ = try database.runner.run([change], fence: nil)
                }
            }
            try database.apply(batch)
            let (sources, canonical, _) = try database.reads.tableHashes()
            hashes.insert("\(sources) \(canonical)")
            let connections = try users.map {
                try database.reads.connections(of: $0).map { ($0.provenance, $0.lastPushAt) }
            }
            pushes.insert("\(connections)")
            #expect(try database.drift(of: users) == 0, "seed \(seed)")
        }
        #expect(hashes.count == 1, "seed \(seed)")
        #expect(pushes.count == 1, "seed \(seed)")
    }

    @Test func `a pin recomputes all of the user's days, an unpin again (A6)`() throws {
        let database = try Database()
        let days = (0..<20).map { ($0, [.steps: 60_000] as MetricValues) }
        try database.apply([record(alice, .appleHealth, minute: 0, days)])
        try database.apply([record(alice, .manual, minute: 1, (0..<20).map { ($0, [.steps: 400_000]) })])
        func steps() throws -> Set<Int32?> {
            Set(
                try database.reads.canonicalDays(of: alice, today.advanced(by: -30)...today).map {
                    $0.day.values[.steps]
                }
            )
        }
        func pin(_ source: Source?, minute: Int) throws {
            let received = Instant(microseconds: 1_780_000_000_000_000).advanced(bySeconds: minute * 60)
            let envelope = Envelope(event: EventID(high: 0, low: 0), receivedAt: received)
            let change = DecodedAccount(
                user: alice,
                record: .preference(.steps, source: source),
                envelope: envelope
            )
            _ = try database.runner.run([change], fence: nil)
        }
        #expect(try steps() == [60_000])
        try pin(.manual, minute: 5)
        #expect(try steps() == [400_000])
        try pin(nil, minute: 4)
        #expect(try steps() == [400_000])
        try pin(nil, minute: 6)
        #expect(try steps() == [60_000])
        #expect(try database.drift(of: [alice]) == 0)
    }
}

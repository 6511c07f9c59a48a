import Aggregation
import AggregatorWorker
import Domain
import Kafka
import MessageContract
import Storage
import Testing

@testable import Daybook

struct ReplayTests {
    private let now = Instant(microseconds: 1_790_000_000_000_000)
    private let log = KafkaWatermarks(low: 10, high: 100)
    private let place = TopicPartition(topic: "live", partition: 0)

    private func plan(_ from: RewindTarget, _ to: RewindTarget, starts: Int64? = nil, ends: Int64? = nil) throws
        -> LogScan.Stretch
    {
        let one = ReplayPlan.Place(place: place, log: log, fromAtTime: starts, toAtTime: ends)
        return try #require(try ReplayPlan([one], from: from, to: to).stretches.first)
    }

    @Test func `a stretch lies inside the log, and its end is not before its start`() throws {
        #expect(try plan(.beginning, .end) == .init(place: place, start: 10, end: 100))
        #expect(try plan(.offset(50), .offset(60)).count == 10)
        #expect(try plan(.offset(60), .offset(50)).count == 0)
        #expect(try plan(.time(now), .time(now), starts: 20, ends: 30) == .init(place: place, start: 20, end: 30))
        // Nothing came since then.
        #expect(try plan(.time(now), .end).count == 0)
        for offset: Int64 in [0, 9, 101] {
            #expect(throws: CommandFailure.self) { try plan(.offset(offset), .end) }
            #expect(throws: CommandFailure.self) { try plan(.beginning, .offset(offset)) }
        }
        let two = [ReplayPlan.Place(place: place, log: log), ReplayPlan.Place(place: place, log: log)]
        #expect(throws: CommandFailure.self) { try ReplayPlan(two, from: .offset(20), to: .end) }
        #expect(try ReplayPlan(two, from: .beginning, to: .end).records == 180)
    }

    @Test func `a user's records lie where any smaller number of partitions would have put them`() {
        for number in 0..<200 {
            let user = UserID(high: 3, low: UInt64(number))
            let found = ReplayPlan.partitions(of: user, count: 8)
            for count in [1, 2, 4, 8] {
                #expect(found.contains(Int32(Partitioner.partition(of: user, partitions: count))))
            }
            #expect(found.count <= 4 && found.allSatisfy { $0 < 8 })
        }
    }

    @Test func `a request is known by its words, however fast it is`() throws {
        func request(_ options: [(String, String)]) throws -> ReplayRequest {
            var arguments = Arguments(command: "replay")
            for (name, value) in options { arguments.add(value: value, to: name) }
            return try ReplayRequest(arguments, prefix: "x.", now: now)
        }
        let plain = try request([("from", "beginning")])
        #expect(plain.topics == [.daysLive, .daysHistory, .devices, .accounts] && plain.to == .end)
        let person = UserID(high: 7, low: 7).description
        let one = try request([("from", "beginning"), ("user", person)])
        #expect(one.words != plain.words && !one.words.contains(person))
        #expect(try request([("from", "beginning"), ("rate", "5")]).words == plain.words)
        #expect(try request([("from", "2h")]).words != plain.words)
        #expect(try request([("from", "beginning"), ("source", "oura")]).filter.source == .oura)
        #expect(try request([("from", "beginning"), ("topic", "x.daybook.accounts.v1")]).topics == [.accounts])
        for wrong in [
            [], [("from", "somewhere")], [("from", "2h"), ("source", "ouro")], [("from", "2h"), ("topic", "y")],
        ] {
            #expect(throws: CommandFailure.self) { try request(wrong) }
        }
    }

    @Test func `progress is saved and read back`() throws {
        let stretch = LogScan.Stretch(place: place, start: 5, end: 90)
        var saved = ReplayProgress.part(stretch)
        #expect(ReplayProgress.stretch(saved) == stretch)
        var counts = ReplayCounts()
        counts.read = 30
        counts.applied = 20
        counts.poison = ["clock": 2]
        saved = ReplayProgress.saved(saved, next: 35, from: ReplayCounts(), to: counts)
        var more = counts
        more.read = 40
        more.canonical = 3
        saved = ReplayProgress.saved(saved, next: 45, from: counts, to: more)
        #expect(ReplayProgress.stretch(saved) == .init(place: place, start: 45, end: 90))
        let back = ReplayProgress.counts(saved)
        #expect(back.read == 40 && back.applied == 20 && back.canonical == 3 && back.poison.values.reduce(0, +) == 2)
        for broken in ["", "x", "-", "99999999999999999999"] {
            var part = saved
            part.position = broken
            #expect(ReplayProgress.stretch(part) == nil)
        }
    }

    @Test func `a preview's report counts by metric and by who wins`() {
        let oura = Provenance(source: .oura, origin: "")
        let watch = Provenance(source: .garmin, origin: "=1+1,\"watch\"")
        func day(_ values: MetricValues, _ winner: Provenance, final: Bool = false) -> CanonicalDay {
            CanonicalDay(values: values, winners: values.mask.map { _ in winner }, isFinal: final)
        }
        func key(_ number: UInt64) -> UserDay {
            UserDay(user: UserID(high: 1, low: number), day: CalendarDay(daysSinceEpoch: 20_606))
        }
        let report = PreviewReport(
            ReplayCounts(),
            [
                key(1): .init(before: nil, after: day([.steps: 10], oura)),
                key(2): .init(before: day([.steps: 10], oura), after: nil),
                key(3): .init(before: day([.steps: 10], oura), after: day([.steps: 77_770], oura)),
                key(4): .init(before: day([.steps: 10], oura), after: day([.steps: 10], watch)),
                key(5): .init(before: day([.steps: 10], oura), after: day([.steps: 10], oura, final: true)),
            ]
        )
        #expect(report.users == 5 && report.days == 5 && report.finals == 1)
        #expect(report.metrics[.steps] == .init(appears: 1, disappears: 1, value: 1, winner: 1))
        #expect(report.passages[.init(metric: .steps, before: .oura, after: .garmin)] == 1)
        #expect(report.lines.map(\.key) == [key(1), key(2), key(3), key(4)])
        let csv = report.lines.map(PreviewReport.csv)
        #expect(csv[0] == "\(key(1).user),\(key(1).day),steps,,,,1,oura,")
        // Neither a formula for a spreadsheet nor a broken line.
        #expect(csv[3] == "\(key(4).user),\(key(4).day),steps,1,oura,,1,garmin,\"'=1+1,\"\"watch\"\"\"")
        let shows = PreviewReport.Shown(sample: 4, values: false)
        let text = report.text(shows, partitions: 1, seconds: 1, .plain).joined(separator: "\n")
        #expect(text.contains("a value"))
        let json = JSONDocument.object(report.members(shows, partitions: 1, seconds: 1)).text()
        #expect(!json.contains("7777") && !text.contains("7,777"))
        let open = PreviewReport.Shown(sample: 4, values: true)
        #expect(JSONDocument.object(report.members(open, partitions: 1, seconds: 1)).text().contains("\"value\": 7777"))
        #expect(text.contains("5 canonical days of 5 users would change; nothing was written"))
        #expect(PreviewReport.spread(Array(0..<100), 4) == [0, 25, 50, 75])
        #expect(PreviewReport.spread([1], 0) == [])
    }
}

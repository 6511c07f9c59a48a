import Authentication
import Domain
import Foundation
import Kafka
import MessageContract
import Storage
import TestSupport
import Testing

/// The whole way, small: a broker in this process, the built ingest and a built worker, started once for all cases.
///
/// `@unchecked Sendable`: the suites that use it are serialized, and `swift test --no-parallel` runs one at a time.
final class DaysUnderTest: @unchecked Sendable {
    private static let started = Result { try DaysUnderTest() }

    static func shared() throws -> DaysUnderTest { try started.get() }

    let pipeline: PipelineUnderTest
    let ingest: IngestUnderTest
    let worker: ServiceProcess
    let publisher: RecordPublisher

    private init() throws {
        pipeline = try PipelineUnderTest(.mock)
        ingest = try IngestUnderTest(on: pipeline.kafka, prefix: "", makesTopics: false)
        worker = try pipeline.startWorker()
        publisher = try pipeline.publisher()
    }

    var reads: DayReads { pipeline.reads }

    /// Waits until all that was posted is applied.
    func settle() throws {
        try pipeline.waitUntilApplied(worker: worker)
    }

    /// The worker's count of days that did this.
    func counted(_ outcome: String) throws -> Int {
        let address = try worker.waitForLog("admin listening", key: "address")
        let text = try HTTPText.get("http://\(address)/metrics")
        let prefix = #"daybook_aggregator_days_total{outcome="\#(outcome)"} "#
        let line = text.split(separator: "\n").first { $0.hasPrefix(prefix) }
        return line.flatMap { Double($0.dropFirst(prefix.count)) }.map { Int($0) } ?? 0
    }

    /// A person of one test.
    func newPerson(_ zone: String = "UTC") -> Person { Person(days: self, zone: zone) }
}

/// A user that no other test has, and what is posted and read of them.
struct Person {
    let days: DaysUnderTest
    let user: UserID
    /// The zone of payloads that name none.
    let zone: String

    init(days: DaysUnderTest, zone: String) {
        self.days = days
        self.zone = zone
        user = UserID(
            high: UInt64.random(in: 0...UInt64.max) & ~0xf000 | 0x4000,
            low: UInt64.random(in: 0...UInt64.max) & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
        )
    }

    /// Posts days as they stand in JSON: by the user's own token, or for a cloud source by a connector's.
    @discardableResult
    func post(
        _ source: Source,
        observed: String? = nil,
        zone: String? = nil,
        zeros: String? = nil,
        expecting status: Int = 202,
        _ days: String...
    ) throws -> AnswerBody {
        try post(source, observed: observed, zone: zone, zeros: zeros, expecting: status, all: days)
    }

    @discardableResult
    func post(
        _ source: Source,
        observed: String? = nil,
        zone: String? = nil,
        zeros: String? = nil,
        expecting status: Int = 202,
        all days: [String]
    ) throws -> AnswerBody {
        let observed = observed.map { #""observed_at":"\#($0)","# } ?? ""
        let zeros = zeros.map { #""zeros":"\#($0)","# } ?? ""
        let body =
            #"{"source":"\#(source)",\#(observed)\#(zeros)"time_zone":"\#(zone ?? self.zone)","#
            + #""days":[\#(days.joined(separator: ","))]}"#
        let isCloud = source.kind == .cloud
        let answer = try self.days.ingest.post(
            body,
            try IngestUnderTest.token(isCloud ? Person.connector : user, role: isCloud ? .connector : .user),
            path: isCloud ? "/v1/users/\(user)/days" : "/v1/days"
        )
        #expect(answer.status == status, "\(answer.body)")
        return AnswerBody(answer.body)
    }

    private static let connector = UserID(high: 0xc0_0000_4000, low: 0x8000_0000_0000_0000)

    /// The day as it counts, once everything is applied.
    func canonical(_ day: CalendarDay) throws -> CanonicalDay? {
        try days.settle()
        return try days.reads.canonicalDays(of: user, day...day).first?.day
    }

    func allDays() throws -> [CalendarDay: CanonicalDay] {
        try days.settle()
        let around = PipelineUnderTest.today.advanced(by: -500)...PipelineUnderTest.today.advanced(by: 40_000)
        return Dictionary(
            uniqueKeysWithValues: try days.reads.canonicalDays(of: user, around).map { ($0.key.day, $0.day) }
        )
    }

    func rows(_ day: CalendarDay) throws -> [SourceRow] {
        try days.settle()
        return try days.reads.sourceRows(of: user, day...day).first?.rows ?? []
    }

    func connection(_ source: Source) throws -> (push: Int64, data: Int64)? {
        try days.settle()
        let found = try days.reads.connections(of: user).first { $0.provenance.source == source }
        return found.map { ($0.lastPushAt, $0.lastDataAt) }
    }
}

/// A text from a server, or an error.
enum HTTPText {
    static func get(_ url: String) throws -> String {
        guard let address = URL(string: url), let port = address.port.flatMap({ UInt16(exactly: $0) }) else {
            throw Eventually.TimedOut(what: "a URL with a port")
        }
        return try HTTPConnection(port: port).request("GET", address.path).body
    }
}

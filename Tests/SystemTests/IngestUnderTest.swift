import Authentication
import DevelopmentStack
import Domain
import Foundation
import Kafka
import MessageContract
import TestSupport
import Testing

/// The built ingest service over a Kafka, with topics of its own.
final class IngestUnderTest {
    static let secret = "a secret of the tests, longer than 32 bytes"

    let kafka: KafkaUnderTest
    let prefix: String
    let partitions: Int
    let process: ServiceProcess
    let port: UInt16
    let adminAddress: String

    /// - Parameters:
    ///   - kafka: with topics of this prefix, or where they can be made.
    ///   - prefix: of the topics.
    ///   - partitions: of each topic.
    ///   - settings: what differs from those of all tests.
    ///   - makesTopics: whether the topics are still to be made.
    ///   - waitsUntilReady: whether to return only when `/readyz` says yes.
    /// - Throws: when it does not come up.
    init(
        on kafka: KafkaUnderTest,
        prefix: String = IngestUnderTest.newPrefix(),
        partitions: Int = 2,
        _ settings: [String: String] = [:],
        makesTopics: Bool = true,
        waitsUntilReady: Bool = true
    ) throws {
        self.kafka = kafka
        self.prefix = prefix
        self.partitions = partitions
        if makesTopics { try Self.makeTopics(on: kafka, prefix: prefix, partitions: partitions) }
        let environment = Self.environment(kafka, prefix: prefix).merging(settings) { $1 }
        process = try ServiceProcess("ingest-service", environment: environment)
        adminAddress = try process.waitForLog("admin listening", key: "address")
        guard let port = UInt16(try process.waitForLog("listening", key: "port")) else {
            throw Eventually.TimedOut(what: "a port")
        }
        self.port = port
        if waitsUntilReady { try self.waitUntilReady() }
    }

    deinit {
        // Whatever a test did to it: there is no answer that clients can't read up on.
        if let undescribed = undescribedAnswers(), !undescribed.isEmpty {
            Issue.record("not in the interface's description: \(undescribed)")
        }
    }

    static func environment(_ kafka: KafkaUnderTest, prefix: String) -> [String: String] {
        [
            "DAYBOOK_KAFKA_BROKERS": kafka.bootstrapServers,
            "DAYBOOK_TOPIC_PREFIX": prefix,
            "DAYBOOK_JWT_HS256_SECRET": secret,
            "DAYBOOK_INGEST_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_ALLOW_WEAK_TOPICS": "true",
            "DAYBOOK_DEVELOPMENT_BROKER": kafka.mock == nil ? "false" : "true",
            "DAYBOOK_HEARTBEAT_INTERVAL_MS": "500",
            // Tests post as fast as they can, as a few users.
            "DAYBOOK_RATE_LIMIT_PER_MINUTE": "0",
        ]
    }

    static func newPrefix() -> String { "t\(UUID().uuidString.prefix(8).lowercased())." }

    static func makeTopics(on kafka: KafkaUnderTest, prefix: String, partitions: Int) throws {
        for topic in Topic.allCases where topic != .deadLetters {
            if let mock = kafka.mock {
                try mock.createTopic(topic.name(prefix: prefix), partitions: partitions)
                continue
            }
            let admin = try KafkaAdmin(properties: kafka.properties(), log: { _ in })
            let specification = KafkaTopicSpecification(
                name: topic.name(prefix: prefix),
                partitions: Int32(clamping: partitions),
                settings: ["message.timestamp.type": "LogAppendTime"]
            )
            try admin.create([specification], timeoutMilliseconds: 20_000)
        }
    }

    func waitUntilReady(seconds: Int = 30) throws {
        do {
            try Eventually.holds("ingest is ready", seconds: seconds) { HTTPCall.isReady(adminAddress: adminAddress) }
        } catch {
            throw Eventually.TimedOut(what: "\(error)\n\(process.output.suffix(3000))")
        }
    }

    /// It is ready with the first heartbeat; an error meant for a request must not meet one of the others.
    func waitForAllHeartbeats() throws {
        let line = #"daybook_ingest_heartbeats_total{outcome="acknowledged"} \#(partitions)"#
        try Eventually.holds("all heartbeats", seconds: 10) { try self.admin("/metrics").text.contains(line) }
    }

    func connect(seconds: Int = 20) throws -> HTTPConnection { try HTTPConnection(port: port, seconds: seconds) }

    /// Posts on a connection of its own.
    func post(_ body: String, _ token: String? = nil, path: String = "/v1/days") throws -> HTTPConnection.Answer {
        try connect().request("POST", path, token: token ?? Self.token(), body: Array(body.utf8))
    }

    /// Records without the heartbeats.
    func records(_ lane: Lane) throws -> [StoredRecord] {
        try kafka.records(in: lane.topic.name(prefix: prefix), partitions: partitions)
            .filter { $0.headers["schema"] != "heartbeat/1" }
    }

    func admin(_ path: String) throws -> HTTPCall.Answer {
        try HTTPCall("GET", "http://\(adminAddress)\(path)", timeout: 5).send()
    }

    static let user = UserID(high: 0x1234_0000_0000_4000, low: 0x8000_0000_0000_0001)

    static func token(
        _ user: UserID = IngestUnderTest.user,
        role: Role = .user,
        timeZone: String? = nil,
        validFor seconds: Int = 3600,
        issuedAgo: Int = 0,
        secret: String = IngestUnderTest.secret
    ) throws -> String {
        let minter = try TokenMinter(TokenPolicy(hmacKeys: [Array(secret.utf8)]))
        let now = Instant.present
        return try minter.mint(
            subject: user.description,
            role: role,
            timeZone: timeZone,
            now: now.advanced(bySeconds: -issuedAgo),
            validFor: seconds
        )
    }

    static var today: CalendarDay { PipelineUnderTest.today }

    /// One day of yesterday.
    static func body(steps: Int = 8421, source: Source = .appleHealth) -> String {
        #"{"source":"\#(source)","time_zone":"UTC","days":[{"date":"\#(today.advanced(by: -1))","steps":\#(steps)}]}"#
    }
}

/// What an answer's JSON says.
struct AnswerBody {
    let object: [String: Any]

    init(_ text: String) {
        object = (try? JSONSerialization.jsonObject(with: Data(text.utf8))) as? [String: Any] ?? [:]
    }

    var code: String? { object["code"] as? String }
    var accepted: Int? { object["accepted"] as? Int }
    var eventID: String? { object["event_id"] as? String }
    var skipped: [[String: Any]] { object["skipped"] as? [[String: Any]] ?? [] }
    var errors: [[String: Any]] { object["errors"] as? [[String: Any]] ?? [] }

    /// `topic/partition/offset` of each record.
    var positions: [String] {
        var text = (object["position"] as? String ?? "").replacing("-", with: "+").replacing("_", with: "/")
        while !text.count.isMultiple(of: 4) { text += "=" }
        let plain = Data(base64Encoded: text).map { String(decoding: $0, as: UTF8.self) } ?? ""
        return plain.split(separator: ",").map(String.init)
    }
}

/// gzip without compression: the format, and no library.
func storedGzip(_ bytes: [UInt8]) -> [UInt8] {
    precondition(bytes.count < 65_536)
    func little(_ value: UInt32, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt32($0 * 8)) }
    }
    var crc = UInt32.max
    for byte in bytes {
        crc ^= UInt32(byte)
        for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xedb8_8320 : crc >> 1 }
    }
    let length = UInt32(bytes.count)
    return [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1] + little(length, 2) + little(~length, 2) + bytes
        + little(~crc, 4) + little(length, 4)
}

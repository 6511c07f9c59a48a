import AdminServer
import Authentication
import Configuration
import Domain
import Glibc
import IngestService
import Kafka
import MessageContract
import Observability
import ServiceRuntime
import Testing

let secretText = "0123456789abcdef0123456789abcdef"

/// An ingest service of the test's own, over a mock cluster of its own.
final class IngestUnderTest {
    let cluster: MockKafkaCluster
    let server: IngestServer
    let admin: AdminPort
    let registry = MetricsRegistry()
    private let group: ServiceGroup
    private let stop = StopFlag()
    private let thread: WorkerThread
    private let logs: MemorySink

    struct AdminPort: Sendable {
        let read: @Sendable () -> UInt16?
    }

    init(
        _ settings: [String: String] = [:],
        partitions: Int = 4,
        brokers: Int = 1,
        waitsUntilReady: Bool = true,
        before: ((MockKafkaCluster) throws -> Void)? = nil
    ) throws {
        cluster = try MockKafkaCluster(
            brokers: brokers,
            topics: Topic.allCases.filter { $0 != .deadLetters }.map { ($0.name.description, partitions) }
        )
        try before?(cluster)
        var environment = [
            "DAYBOOK_KAFKA_BROKERS": cluster.bootstrapServers,
            "DAYBOOK_JWT_HS256_SECRET": secretText,
            "DAYBOOK_INGEST_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_ADMIN_ADDRESS": "127.0.0.1:0",
            "DAYBOOK_ALLOW_WEAK_TOPICS": "true",
            "DAYBOOK_DEVELOPMENT_BROKER": "true",
            "DAYBOOK_HEARTBEAT_INTERVAL_MS": "200",
        ]
        environment.merge(settings) { $1 }
        let sink = MemorySink()
        logs = sink
        let configuration = try IngestConfiguration.read(environment: environment)
        let log = Log(service: "ingest-service", level: .info, sink: sink)
        server = IngestServer(configuration, registry: registry, log: log)
        let adminServer = server.makeAdminServer()
        admin = AdminPort { adminServer.address.flatMap { UInt16($0.split(separator: ":").last ?? "") } }
        let services = ServiceGroup([adminServer, server], graceMilliseconds: 15_000, log: log) { _ in }
        group = services
        let flag = stop
        thread = try WorkerThread.spawn(name: "ingest-test") { _ = services.run(until: flag) }
        try waitUntil("listening") { server.port != nil && admin.read() != nil }
        guard waitsUntilReady else { return }
        do {
            try waitUntil("ready") { server.isReady }
            // It is ready with the first heartbeat; an error meant for a request must not meet one of the others.
            if before == nil {
                try waitUntil("all heartbeats") { heartbeats("acknowledged").map { $0 >= partitions } ?? false }
            }
        } catch {
            Issue.record("not ready: \(logs.lines.joined())")
            throw error
        }
    }

    deinit {
        finish()
        cluster.stop()
        // Whatever a test does to it: there is no answer that clients can't read up on.
        let undescribed = (try? Document().undescribed(in: metrics)) ?? ["the document can't be read"]
        if !undescribed.isEmpty { Issue.record("not in the interface's description: \(undescribed)") }
    }

    /// Stops it in order; false if that took longer than the grace period.
    @discardableResult
    func finish() -> Bool {
        stop.raise()
        return thread.join(milliseconds: 16_000)
    }

    func beginStop() { stop.raise() }

    var logLines: [String] { logs.lines }

    var metrics: String { String(decoding: registry.renderPrometheusText(), as: UTF8.self) }

    /// How many heartbeat records had this outcome.
    func heartbeats(_ outcome: String) -> Int? {
        let name = #"daybook_ingest_heartbeats_total{outcome="\#(outcome)"} "#
        return metrics.split(separator: "\n").first { $0.hasPrefix(name) }.flatMap {
            Int($0.dropFirst(name.utf8.count))
        }
    }

    func connect() throws -> Client { try Client(port: try #require(server.port)) }
    func connectAdmin() throws -> Client { try Client(port: try #require(admin.read())) }

    static func token(_ user: String = "00000000-0000-4000-8000-000000000001", role: Role = .user) throws -> String {
        let minter = try TokenMinter(TokenPolicy(hmacKeys: [Array(secretText.utf8)]))
        let now = Instant(microseconds: SystemTime().wallMicroseconds())
        return try minter.mint(subject: user, role: role, now: now, validFor: 3600)
    }

    /// Signed with a key that the service does not have.
    static func foreignToken() throws -> String {
        let minter = try TokenMinter(TokenPolicy(hmacKeys: [Array(secretText.utf8.reversed())]))
        let now = Instant(microseconds: SystemTime().wallMicroseconds())
        return try minter.mint(subject: "00000000-0000-4000-8000-000000000001", now: now, validFor: 3600)
    }

    static var today: CalendarDay { Instant(microseconds: SystemTime().wallMicroseconds()).day(secondsFromUTC: 0) }

    /// A body with one day of yesterday.
    static func body(steps: Int = 8421, source: String = "apple_health") -> String {
        #"{"source":"\#(source)","days":[{"date":"\#(today.advanced(by: -1))","steps":\#(steps)}]}"#
    }

    /// Reads all records of the live or the history topic that are no heartbeats.
    func records(_ lane: Lane, on partitions: Range<Int> = 0..<4) throws -> [Result<DecodedDays, PoisonReason>] {
        let reader = try KafkaReader(properties: [("bootstrap.servers", cluster.bootstrapServers)], log: { _ in })
        let decoder = try DaysRecordDecoder()
        var found: [Result<DecodedDays, PoisonReason>] = []
        for partition in partitions {
            let place = TopicPartition(topic: lane.topic.name(prefix: ""), partition: Int32(partition))
            let marks = try reader.watermarks(place, timeoutMilliseconds: 5000)
            guard marks.high > marks.low else { continue }
            try reader.start(place, from: .beginning)
            while let record = try reader.next(timeoutMilliseconds: 5000) {
                if let decoded = Self.decode(record, decoder) { found.append(decoded) }
                if record.offset >= marks.high - 1 { break }
            }
            reader.stop()
        }
        return found
    }

    /// Reads what records a topic holds, heartbeats left out: schema, key and value.
    func texts(_ topic: Topic, on partitions: Range<Int> = 0..<4) throws -> [(
        schema: String, key: String, value: String
    )] {
        let reader = try KafkaReader(properties: [("bootstrap.servers", cluster.bootstrapServers)], log: { _ in })
        var found: [(schema: String, key: String, value: String)] = []
        func text(_ bytes: UnsafeRawBufferPointer?) -> String {
            bytes.map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
        for partition in partitions {
            let place = TopicPartition(topic: topic.name(prefix: ""), partition: Int32(partition))
            let marks = try reader.watermarks(place, timeoutMilliseconds: 5000)
            guard marks.high > marks.low else { continue }
            try reader.start(place, from: .beginning)
            while let record = try reader.next(timeoutMilliseconds: 5000) {
                let schema = String(decoding: record.header(named: "schema") ?? [], as: UTF8.self)
                if schema != "heartbeat/1" {
                    found.append((schema, record.withKey { text($0) }, record.withValue { text($0) }))
                }
                if record.offset >= marks.high - 1 { break }
            }
            reader.stop()
        }
        return found
    }

    static func decode(_ record: KafkaRecord, _ decoder: DaysRecordDecoder) -> Result<DecodedDays, PoisonReason>? {
        guard record.header(named: "schema") != Array("heartbeat/1".utf8) else { return nil }
        func bytes(_ name: StaticString) -> [UInt8] { record.header(named: name) ?? [] }
        return record.withKey { key in
            record.withValue { value in
                bytes("schema").withUnsafeBytes { schema in
                    bytes("event-id").withUnsafeBytes { event in
                        bytes("received-at").withUnsafeBytes { received in
                            var headers = RecordHeaders()
                            headers.schema = schema
                            headers.eventID = event
                            headers.receivedAt = received
                            return decoder.decode(key: key, value: value, headers: headers, appendTime: nil)
                        }
                    }
                }
            }
        }
    }
}

struct TimedOut: Error {
    let what: String
}

/// Looks again and again, for up to ten seconds.
func waitUntil(_ what: String, _ condition: () throws -> Bool) throws {
    let deadline = Deadline.after(milliseconds: 10_000)
    while !deadline.hasPassed() {
        if try condition() { return }
        usleep(2000)
    }
    throw TimedOut(what: what)
}

/// A blocking HTTP client for one connection.
final class Client {
    private let descriptor: Int32
    private var buffer: [UInt8] = []

    struct Answer {
        var status: Int
        var head: String
        var body: String
    }

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw TimedOut(what: "connect") }
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    func send(_ text: String) { send(Array(text.utf8)) }

    /// Says that nothing more will be sent, and goes on reading.
    func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            sent += count
        }
    }

    func request(
        _ method: String,
        _ path: String,
        token: String? = nil,
        type: String? = "application/json",
        headers: [String] = [],
        body: String? = nil
    ) throws -> Answer {
        begin(method, path, token: token, type: type, headers: headers, body: body)
        return try answer()
    }

    func begin(
        _ method: String,
        _ path: String,
        token: String? = nil,
        type: String? = "application/json",
        headers: [String] = [],
        body: String? = nil
    ) {
        var lines = ["\(method) \(path) HTTP/1.1", "Host: test"] + headers
        if let token { lines.append("Authorization: Bearer \(token)") }
        if let body {
            if let type { lines.append("Content-Type: \(type)") }
            lines.append("Content-Length: \(body.utf8.count)")
        }
        send(lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? ""))
    }

    func answer() throws -> Answer {
        let separator = Array("\r\n\r\n".utf8)
        while true {
            if let end = buffer.firstRange(of: separator) {
                let head = String(decoding: buffer[..<end.lowerBound], as: UTF8.self)
                let lines = head.split(separator: "\r\n")
                let lengthLine = lines.first { $0.lowercased().hasPrefix("content-length:") }
                let length = lengthLine.flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
                if buffer.count >= end.upperBound + length {
                    let body = String(decoding: buffer[end.upperBound..<(end.upperBound + length)], as: UTF8.self)
                    buffer.removeFirst(end.upperBound + length)
                    let status = Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0
                    return Answer(status: status, head: head, body: body)
                }
            }
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count = recv(descriptor, &chunk, chunk.count, 0)
            guard count > 0 else { throw TimedOut(what: "answer") }
            buffer.append(contentsOf: chunk[..<count])
        }
    }
}

/// A gzip member that holds the bytes as they are, in one block; up to 65,535 of them.
func storedGzip(_ bytes: [UInt8]) -> [UInt8] {
    func little(_ number: UInt32, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: number >> UInt32($0 * 8)) }
    }
    var sum: UInt32 = .max
    for byte in bytes {
        sum ^= UInt32(byte)
        for _ in 0..<8 { sum = sum & 1 == 0 ? sum >> 1 : sum >> 1 ^ 0xedb8_8320 }
    }
    let length = UInt32(bytes.count)
    let head: [UInt8] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1]
    return head + little(length, 2) + little(~length, 2) + bytes + little(~sum, 4) + little(length, 4)
}

import DevelopmentStack
import Foundation
import Glibc
import Kafka
import TestSupport
import Testing

/// The built ingest service among clients that mean no good, or do none.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `The ingest service on a hostile network` {
    private func start(_ settings: [String: String] = [:]) throws -> IngestUnderTest {
        try IngestUnderTest(on: .mock(topics: []), settings)
    }

    private func metric(_ name: String, _ ingest: IngestUnderTest) throws -> Int {
        let text = try ingest.admin("/metrics").text
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line?.split(separator: " ").last.flatMap { Double($0) }.map { Int($0) } ?? 0
    }

    private func memoryKiB(_ ingest: IngestUnderTest) throws -> Int {
        try metric("process_resident_memory_bytes", ingest) / 1024
    }

    private func expectServes(_ ingest: IngestUnderTest, seconds: Int = 2) throws {
        let answer = try ingest.connect(seconds: seconds).request(
            "POST",
            "/v1/days",
            token: IngestUnderTest.token(),
            body: Array(IngestUnderTest.body().utf8)
        )
        #expect(answer.status == 202)
    }

    @Test(.enabled(if: canHaveDescriptors, "needs 10,500 descriptors (ulimit -Hn)"))
    func `10,000 idle connections cost little, and a request among them is served`() throws {
        let wanted = Self.idleConnections
        try #require(Self.raiseDescriptorLimit())
        let ingest = try start(["DAYBOOK_MAX_CONNECTIONS": "10100"])
        defer { ingest.kafka.stop() }
        try expectServes(ingest)
        let before = try memoryKiB(ingest)
        var idle: [HTTPConnection] = []
        idle.reserveCapacity(wanted)
        for _ in 0..<wanted { idle.append(try ingest.connect()) }
        try Eventually.holds("all are taken in") { try metric("daybook_ingest_connections", ingest) >= wanted }
        try expectServes(ingest)
        let each = (try memoryKiB(ingest) - before) * 1024 / wanted
        print("\(wanted) idle connections: \(each) bytes of memory each")
        #expect(each < 8192)
        // Each of them can still be used.
        for index in stride(from: 0, to: wanted, by: 997) {
            #expect(try idle[index].request("GET", "/v1/days").status == 405)
        }
        // One too many is told so.
        for _ in 0..<100 { idle.append(try ingest.connect()) }
        #expect(try ingest.connect().answer().status == 503)
        #expect(try metric(#"daybook_ingest_refusals_total{reason="too_many_connections"}"#, ingest) == 1)
        idle.removeAll()
        try Eventually.holds("they are gone") { try metric("daybook_ingest_connections", ingest) < 5 }
        #expect(try ingest.process.stop() == 0)
    }

    @Test func `who drips headers or a body byte by byte is ended by the total time, and keeps nobody waiting`() throws
    {
        let ingest = try start(["DAYBOOK_REQUEST_ARRIVAL_DEADLINE_MS": "1500"])
        defer { ingest.kafka.stop() }
        let token = try IngestUnderTest.token()
        let whole = HTTPConnection.bytes("POST", "/v1/days", token: token, body: Array(IngestUnderTest.body().utf8))
        let head = try #require(whole.firstRange(of: Array("\r\n\r\n".utf8))).upperBound
        // Some drip from the first byte on, others only their body; the last ones send half and then nothing.
        let clients = try (0..<30).map { number in
            let client = try ingest.connect(seconds: 10)
            if number % 3 > 0 { client.send(Array(whole[..<(head + 5 * (number % 3 - 1))])) }
            return client
        }
        let limit = monotonicSeconds() + 1.2
        var position = head
        while monotonicSeconds() < limit {
            for (number, client) in clients.enumerated() {
                switch number % 3 {
                case 0: client.send([whole[position - head]])
                case 1: client.send([whole[position]])
                default: break
                }
            }
            position += 1
            if position % 10 == 0 { try expectServes(ingest) }
            poll(nil, 0, 20)
        }
        for client in clients {
            let answer = try client.answer()
            #expect(answer.status == 408 && AnswerBody(answer.body).code == "request_timeout")
            #expect(client.waitUntilClosed())
        }
        #expect(try metric(#"daybook_ingest_refusals_total{reason="request_timeout"}"#, ingest) == 30)
        try expectServes(ingest)
    }

    @Test func `a hundred pipelined requests are answered in order, an Expect is met`() throws {
        let ingest = try start()
        defer { ingest.kafka.stop() }
        let token = try IngestUnderTest.token()
        let body = Array(IngestUnderTest.body().utf8)
        let post = HTTPConnection.bytes("POST", "/v1/days", token: token, body: body)
        let wrong = HTTPConnection.bytes("POST", "/v1/days", token: token, body: Array("[]".utf8))
        let connection = try ingest.connect()
        connection.send(Array(repeatElement(post + wrong, count: 50).joined()))
        for _ in 0..<50 {
            #expect(try connection.answer().status == 202)
            #expect(try connection.answer().status == 400)
        }
        let parts = HTTPConnection.bytes(
            "POST",
            "/v1/days",
            token: token,
            headers: ["Expect: 100-continue"],
            body: body
        )
        connection.send(Array(parts.dropLast(body.count)))
        #expect(try connection.answer().status == 100)
        connection.send(body)
        #expect(try connection.answer().status == 202)
        // Refused for its headers: the body is never asked for.
        let other = try ingest.connect()
        other.send(Array(parts.dropLast(body.count)).replacing(Array("100-continue".utf8), with: Array("magic".utf8)))
        #expect(try other.answer().status == 417)
    }

    @Test func `gzip bombs are cut off, and cost no memory that stays`() throws {
        let ingest = try start()
        defer { ingest.kafka.stop() }
        let token = try IngestUnderTest.token()
        let connection = try ingest.connect()
        func send(_ packed: [UInt8]) throws -> HTTPConnection.Answer {
            let headers = ["Content-Encoding: gzip"]
            return try connection.request("POST", "/v1/days", token: token, headers: headers, body: packed)
        }
        let bomb = try gzipOfZeros(mebibytes: 512)
        #expect(bomb.count < 1 << 20)
        #expect(try send(storedGzip(Array(IngestUnderTest.body().utf8))).status == 202)
        func explode(_ times: Int) throws -> Int {
            for _ in 0..<times {
                let answer = try send(bomb)
                #expect(answer.status == 413 && AnswerBody(answer.body).code == "decompressed_body_too_large")
            }
            return try memoryKiB(ingest)
        }
        let before = try memoryKiB(ingest)
        let (few, many) = (try explode(5), try explode(30))
        print("bombs of 512 MiB: \(few - before) KiB more after 5, \(many - before) KiB more after 35")
        // Room for one body of the limit and for the wire's, however often.
        #expect(few - before < 40_960 && many - few < 4096)
        #expect(try send(Array(bomb.dropLast(9))).status == 413)
        let small = storedGzip(Array(IngestUnderTest.body().utf8))
        #expect(AnswerBody(try send(Array(small.dropLast(4))).body).code == "bad_gzip")
        #expect(try send(small).status == 202)
    }

    @Test func `half-open connections, resets and noise leave nothing behind`() throws {
        let ingest = try start(["DAYBOOK_IDLE_TIMEOUT_MS": "1000", "DAYBOOK_REQUEST_ARRIVAL_DEADLINE_MS": "1000"])
        defer { ingest.kafka.stop() }
        var random = SystemRandomNumberGenerator()
        for round in 0..<300 {
            let client = try ingest.connect()
            let noise = (0..<(round % 64 * 16)).map { _ in UInt8.random(in: 0...255, using: &random) }
            client.send(noise)
        }
        let silent = try (0..<50).map { _ in try ingest.connect() }
        for client in silent { #expect(client.waitUntilClosed()) }
        try Eventually.holds("nobody is left") { try metric("daybook_ingest_connections", ingest) == 0 }
        try expectServes(ingest)
        #expect(try ingest.process.stop() == 0)
    }

    /// Through Debian's gzip: this target links no zlib.
    private func gzipOfZeros(mebibytes: Int) throws -> [UInt8] {
        let path = NSTemporaryDirectory() + "daybook-bomb-\(UUID().uuidString).gz"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let child = try ChildProcess.start(
            .init(
                program: "/bin/sh",
                arguments: ["-c", "head -c \(mebibytes << 20) /dev/zero | gzip -9 >\(path)"],
                environment: ["PATH": "/usr/bin:/bin"],
                logPath: path + ".log"
            )
        )
        try Eventually.holds("gzip is done", seconds: 60) { child.poll() != nil }
        try? FileManager.default.removeItem(atPath: path + ".log")
        return Array(try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    private static let idleConnections = 10_000

    /// Whether there can be one for each idle connection, and some for all else. If not, it is said aloud: a test that
    /// is skipped is easily overlooked.
    private static let canHaveDescriptors: Bool = {
        if let limit = descriptorLimit(), Int(clamping: limit.rlim_max) >= idleConnections + 500 { return true }
        print("*** SKIPPED: 10,000 idle connections, because the limit of descriptors is too low (ulimit -Hn). ***")
        return false
    }()

    private static func descriptorLimit() -> rlimit? {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? limit : nil
    }

    /// For this process and the services that it starts.
    private static func raiseDescriptorLimit() -> Bool {
        guard var limit = descriptorLimit() else { return false }
        limit.rlim_cur = limit.rlim_max
        return setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    }
}

import DevelopmentStack
import Foundation
import Glibc
import TestSupport
import Testing

/// What only a process of its own can show of its metrics; the unit tests show all others, one by one.
@Suite(.serialized, .timeLimit(.minutes(1))) struct `Metrics of the ingest service` {
    /// Asks on one connection, which needs no new descriptor of the service.
    private struct Admin {
        let connection: HTTPConnection

        init(_ ingest: IngestUnderTest) throws {
            let port = try #require(ingest.adminAddress.split(separator: ":").last.flatMap { UInt16($0) })
            connection = try HTTPConnection(port: port)
        }

        func metric(_ name: String) throws -> Double? {
            let text = try connection.request("GET", "/metrics").body
            let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
            return line.flatMap { Double($0.dropFirst(name.count + 1)) }
        }
    }

    @Test func `without free descriptors the pauses of accepting are counted, and end with the shortage`() throws {
        let ingest = try IngestUnderTest(on: .mock(topics: []))
        defer { ingest.kafka.stop() }
        let admin = try Admin(ingest)
        #expect(try admin.metric("daybook_ingest_accept_pauses_total") == 0)
        let process = ingest.process.processID
        // Of what is open now, each has a number below the count of them, but for gaps, which new ones fill.
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd").compactMap { Int($0) }
        let highest = try #require(open.max())
        try limitDescriptors(of: process, to: "\(highest + 1)")
        let room = highest + 1 - open.count
        let clients = try (0..<(room + 5)).map { _ in try ingest.connect() }
        try Eventually.holds("pauses are counted") {
            try admin.metric("daybook_ingest_accept_pauses_total").map { $0 >= 2 } ?? false
        }
        #expect(ingest.process.lines("new connections wait", "ulimit -n") == 1)
        try limitDescriptors(of: process, to: "4096")
        for client in clients { #expect(try client.request("GET", "/openapi.json").status == 200) }
    }

    @Test func `a loop that was held up shows by how much`() throws {
        let ingest = try IngestUnderTest(on: .mock(topics: []))
        defer { ingest.kafka.stop() }
        let admin = try Admin(ingest)
        let name = "daybook_ingest_loop_lag_seconds"
        let before = try #require(try admin.metric(name + "_sum"))
        let count = try #require(try admin.metric(name + "_count"))
        ingest.process.send(SIGSTOP)
        poll(nil, 0, 900)
        ingest.process.send(SIGCONT)
        try Eventually.holds("the loop has looked again") {
            try admin.metric(name + "_count").map { $0 > count } ?? false
        }
        // A timer is due four times a second.
        let lag = try #require(try admin.metric(name + "_sum")) - before
        #expect((0.6...5).contains(lag), "\(lag)")
    }

    @Test func `what every process shows is there and right`() throws {
        let before = Date().timeIntervalSince1970
        let ingest = try IngestUnderTest(on: .mock(topics: []))
        defer { ingest.kafka.stop() }
        let admin = try Admin(ingest)
        let start = try #require(try admin.metric("process_start_time_seconds"))
        #expect((before - 1...Date().timeIntervalSince1970 + 1).contains(start))
        let status = try String(contentsOfFile: "/proc/\(ingest.process.processID)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
        let kibibytes = try #require(line.split(separator: " ").dropLast().last.flatMap { Double($0) })
        let shown = try #require(try admin.metric("process_resident_memory_bytes")) / 1024
        #expect(abs(shown - kibibytes) < kibibytes / 4, "\(shown) \(kibibytes)")
        let used = try #require(try admin.metric("process_cpu_seconds_total"))
        #expect(used > 0)
        try Eventually.holds("work takes processor time") {
            _ = try ingest.post(IngestUnderTest.body())
            return try admin.metric("process_cpu_seconds_total").map { $0 > used } ?? false
        }
        let text = try ingest.admin("/metrics").text
        #expect(text.contains("daybook_build_info{version=\""))
    }

    private func limitDescriptors(of process: Int32, to soft: String) throws {
        let path = NSTemporaryDirectory() + "daybook-prlimit-\(UUID().uuidString).log"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let child = try ChildProcess.start(
            .init(
                program: "/usr/bin/prlimit",
                arguments: ["--pid", "\(process)", "--nofile=\(soft):"],
                environment: [:],
                logPath: path
            )
        )
        try Eventually.holds("the limit is set") { child.poll() != nil }
    }
}

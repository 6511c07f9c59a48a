import Observability
import Testing

extension LogKey {
    fileprivate static let ratio = LogKey("ratio")
}

struct LogTests {
    let sink = MemorySink()

    private func log(_ level: LogLevel = .debug) -> Log {
        Log(
            service: "ingest-service",
            level: level,
            build: BuildInfo(version: "1.2.3", number: 7),
            sink: sink,
            now: { 1_772_323_199_000_042 }
        )
    }

    @Test func `a line holds time, level, service, build, message and metadata`() {
        log().info("batch applied", [.topic: .text("a.b"), .records: 12, .ratio: 0.5, .state: "done"])
        #expect(
            sink.lines == [
                #"{"time":"2026-02-28T23:59:59.000042Z","level":"info","service":"ingest-service","build":"1.2.3","#
                    + #""message":"batch applied","topic":"a.b","records":12,"ratio":0.5,"state":"done"}"# + "\n"
            ]
        )
    }

    @Test func `metadata below the level is never evaluated`() {
        func expensive() -> LogValue {
            Issue.record("evaluated")
            return 1
        }
        log(.warning).info("not shown", [.count: expensive()])
        log(.warning).debug("not shown", [.count: expensive()])
        #expect(sink.lines.isEmpty)
        log(.warning).error("shown")
        #expect(sink.lines.count == 1)
    }

    @Test func `context and trace id are on every line of a derived log`() {
        let derived = log().with([.part: "consumer", .partition: .integer(UInt16(3))]).with(traceID: "00ff")
        derived.warning("paused")
        log().warning("not derived")
        #expect(
            sink.lines[0].hasSuffix(#""message":"paused","part":"consumer","partition":3,"trace_id":"00ff"}"# + "\n")
        )
        #expect(!sink.lines[1].contains("trace_id"))
    }

    @Test func `text can neither end its string nor its line`() {
        log().error("odd", [.path: .text("a\"b\\c\nd\re\tf\u{0}g\u{1b}h\u{7f}é")])
        #expect(sink.lines[0].contains(#""path":"a\"b\\c\nd\re\tf\u0000g\u001bh\u007fé""#))
        #expect(sink.lines[0].utf8.filter { $0 == 10 }.count == 1)
    }

    @Test func `numbers that JSON does not know are null`() {
        log().info("odd", [.ratio: .double(.nan), .limit: .double(-.infinity), .count: .integer(UInt64.max)])
        #expect(sink.lines[0].contains(#""ratio":null,"limit":null,"count":9223372036854775807"#))
    }

    @Test func `long text is cut between characters, so that the line stays whole`() {
        log().info("long", [.error: .text(String(repeating: "é", count: 4000))])
        #expect(sink.lines[0].utf8.count < 1400)
        #expect(sink.lines[0].contains("é…\""))
    }

    @Test func `levels have names and compare`() {
        #expect(LogLevel(name: "warning") == .warning)
        #expect(LogLevel(name: "loud") == nil)
        #expect(LogLevel.debug < .error)
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000000Z"), (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (Int64.max, "9999-12-31T23:59:59.999999Z"), (Int64.min, "0000-01-01T00:00:00.000000Z"),
        ] as [(Int64, String)]
    )
    func `the time is RFC 3339 for any clock reading`(microseconds: Int64, text: String) {
        Log(service: "x", sink: sink, now: { microseconds }).info("now")
        #expect(sink.lines[0].hasPrefix(#"{"time":"\#(text)","#))
    }

    @Test func `lines of several threads are all there`() async {
        let shared = log()
        await withTaskGroup { group in
            for number in 0..<50 { group.addTask { shared.info("from a task", [.count: .integer(number)]) } }
        }
        #expect(Set(sink.lines).count == 50)
    }

    @Test func `standard error gets whole lines`() async throws {
        let result = try await #require(processExitsWith: .success, observing: [\.standardErrorContent]) {
            let log = Log(service: "child")
            await withTaskGroup { group in
                for number in 0..<20 { group.addTask { log.info("line", [.count: .integer(number)]) } }
            }
        }
        let lines = String(decoding: result.standardErrorContent, as: UTF8.self).split(separator: "\n")
        #expect(lines.filter { $0.hasPrefix("{\"time\":") && $0.hasSuffix("}") }.count == 20)
    }
}

import Domain
import HTTPServer
import Kafka
import MessageContract
import Observability
import ServiceRuntime
import Testing

@testable import IngestService

private func answer() throws -> DaysAnswer {
    let body = #"{"date":"2026-09-02","steps":1}"#
    return DaysAnswer(try request(body), event: event)
}

struct PendingTableTests {
    private let exchange = HTTPExchangeID(rawValue: 7 << 32 | 3)
    private let position = RecordPosition(topic: "t", partition: 0, offset: 1)

    private func pending() throws -> PendingTable.Pending {
        .init(answer: try answer(), route: 0, name: .init(event: event), producedAt: 0)
    }

    @Test func `a request is confirmed by its last report, and not before`() throws {
        var table = PendingTable()
        table.open(exchange, try pending(), outstanding: 2)
        guard case .nothing = table.report(exchange, position) else { throw TimedOut(what: "too early") }
        guard case .confirmed(let done) = table.report(exchange, position) else {
            throw TimedOut(what: "not confirmed")
        }
        #expect(done.positions == [position, position])
        #expect(table.count == 0)
        guard case .nothing = table.report(exchange, position) else { throw TimedOut(what: "twice") }
    }

    @Test func `one failed record fails the request at once, and the other's report changes nothing`() throws {
        var table = PendingTable()
        table.open(exchange, try pending(), outstanding: 2)
        guard case .failed = table.report(exchange, nil) else { throw TimedOut(what: "not failed") }
        guard case .nothing = table.report(exchange, position) else { throw TimedOut(what: "answered twice") }
    }

    @Test func `a report of an exchange that is gone never reaches its slot's next one`() throws {
        var table = PendingTable()
        table.open(exchange, try pending(), outstanding: 1)
        #expect(table.close(exchange) != nil)
        let next = HTTPExchangeID(rawValue: 8 << 32 | 3)
        table.open(next, try pending(), outstanding: 1)
        guard case .nothing = table.report(exchange, nil) else { throw TimedOut(what: "wrong exchange") }
        #expect(table.exchanges == [next])
        guard case .confirmed = table.report(next, position) else { throw TimedOut(what: "not confirmed") }
    }

    @Test func `a tag tells loop and exchange apart, and heartbeats from both`() {
        for loop in [0, 1, 63] {
            let tag = RecordTag(loop: loop, exchange: exchange)
            #expect(tag.loop == loop && tag.exchange == exchange)
        }
        let beat = RecordTag(heartbeatRound: .max)
        #expect(beat.loop == RecordTag.heartbeatLoop && beat.heartbeatRound == .max)
    }
}

struct ReceivedAtTextTests {
    @Test func `a time's text is what the instant shows, whichever came before it`() {
        var text = ReceivedAtText()
        var random = SystemRandomNumberGenerator()
        var microseconds: Int64 = 1_788_350_400_000_000
        for round in 0..<10_000 {
            switch round % 5 {
            case 0: microseconds += Int64(random.next() % 3_000_000)
            case 1: microseconds -= Int64(random.next() % 3_000_000)
            case 2: microseconds += 1_000_000 - microseconds % 1_000_000
            case 3: microseconds -= 1
            default: microseconds += Int64(random.next() % 1000)
            }
            let instant = Instant(microseconds: round % 97 == 0 ? -microseconds : microseconds)
            let written = text.text(of: instant)
            #expect(written.span.withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) } == "\(instant)")
        }
    }
}

struct HeartbeatMonitorTests {
    private let start = Instant(microseconds: 1_788_350_400_000_000)

    private func later(_ seconds: Int) -> Instant { start.advanced(bySeconds: seconds) }

    private func skew(appendedAfter milliseconds: Int, reportedAfter: Int) -> Int64? {
        var monitor = HeartbeatMonitor()
        #expect(monitor.begin(partitions: 1, now: start) == [0])
        let append = Instant(microseconds: start.microseconds + Int64(milliseconds) * 1000)
        let now = Instant(microseconds: start.microseconds + Int64(reportedAfter) * 1000)
        monitor.report(partition: 0, round: monitor.round, isAcknowledged: true, appendTime: append, now: now)
        return monitor.skewMilliseconds
    }

    @Test func `only what lies outside sending and answer is skew`() {
        #expect(skew(appendedAfter: 5, reportedAfter: 10) == 0)
        #expect(skew(appendedAfter: 0, reportedAfter: 25_000) == 0)
        #expect(skew(appendedAfter: -180_000, reportedAfter: 10) == 180_000)
        #expect(skew(appendedAfter: 180_010, reportedAfter: 10) == -180_000)
    }

    @Test func `a partition whose heartbeat is on its way gets no other for a while, and the rest theirs`() {
        var monitor = HeartbeatMonitor()
        #expect(monitor.begin(partitions: 3, now: start) == [0, 1, 2])
        let first = monitor.round
        for partition in [0, 2, 7] {
            monitor.report(partition: partition, round: first, isAcknowledged: true, appendTime: nil, now: start)
        }
        #expect(monitor.acknowledged == 2)
        #expect(monitor.begin(partitions: 3, now: later(10)) == [0, 2])
        #expect(monitor.begin(partitions: 3, now: later(20)).isEmpty)
        #expect(monitor.begin(partitions: 3, now: later(30)) == [1])
        let third = monitor.round
        // Given up: its report comes too late to say anything.
        monitor.report(partition: 1, round: first, isAcknowledged: true, appendTime: nil, now: later(31))
        #expect(monitor.acknowledged == 0)
        monitor.report(partition: 1, round: third, isAcknowledged: true, appendTime: nil, now: later(31))
        #expect(monitor.acknowledged == 1)
        #expect(monitor.begin(partitions: 4, now: later(32)) == [1, 3])
    }

    @Test func `at the start all partitions are heard of, or waiting ends; afterwards one is enough`() {
        func report(_ monitor: inout HeartbeatMonitor, _ partition: Int, _ isAcknowledged: Bool) {
            let round = monitor.round
            monitor.report(
                partition: partition,
                round: round,
                isAcknowledged: isAcknowledged,
                appendTime: nil,
                now: start
            )
        }
        var monitor = HeartbeatMonitor()
        #expect(!monitor.isConfirmed)
        #expect(monitor.begin(partitions: 3, now: start) == [0, 1, 2])
        report(&monitor, 0, true)
        var impatient = monitor
        report(&monitor, 1, true)
        #expect(!monitor.isConfirmed)
        // That it failed is an answer too.
        report(&monitor, 2, false)
        #expect(monitor.isConfirmed)
        #expect(monitor.begin(partitions: 3, now: later(10)) == [0, 1, 2])
        #expect(!monitor.isConfirmed)
        report(&monitor, 1, true)
        #expect(monitor.isConfirmed)
        impatient.endSettling()
        #expect(impatient.isConfirmed)
        var refused = HeartbeatMonitor()
        #expect(refused.begin(partitions: 1, now: start) == [0])
        report(&refused, 0, false)
        #expect(!refused.isConfirmed)
    }

    @Test func `the clock that differs most counts, until its partition tells better or nothing`() {
        var monitor = HeartbeatMonitor()
        func beat(_ at: Int, _ off: [Int?]) {
            for partition in monitor.begin(partitions: 2, now: later(at)) {
                guard partition < off.count, let seconds = off[partition] else { continue }
                monitor.report(
                    partition: partition,
                    round: monitor.round,
                    isAcknowledged: true,
                    appendTime: later(at - seconds),
                    now: later(at)
                )
            }
        }
        #expect(monitor.skewMilliseconds == nil)
        beat(0, [2, -300])
        #expect(monitor.skewMilliseconds == -300_000)
        beat(10, [2, 1])
        #expect(monitor.skewMilliseconds == 2_000)
        beat(20, [0, 400])
        #expect(monitor.skewMilliseconds == 400_000)
        // The second loses its leader: what it told last is forgotten with patience.
        beat(30, [0, nil])
        #expect(monitor.skewMilliseconds == 400_000)
        beat(60, [0, nil])
        #expect(monitor.skewMilliseconds == 0)
    }

    @Test func `Kafka is silent when nothing was acknowledged for some seconds, however many rounds failed in them`() {
        var monitor = HeartbeatMonitor()
        func report(_ isAcknowledged: Bool, _ partition: Int, at seconds: Int) {
            monitor.report(
                partition: partition,
                round: monitor.round,
                isAcknowledged: isAcknowledged,
                appendTime: nil,
                now: later(seconds)
            )
        }
        #expect(!monitor.isSilent(now: later(60)))
        for second in 0..<5 {
            #expect(monitor.begin(partitions: 2, now: later(second)).contains(0))
            report(false, 0, at: second)
            #expect(!monitor.isSilent(now: later(second)))
        }
        #expect(monitor.isSilent(now: later(5)))
        // One partition that hangs is no silence.
        #expect(monitor.begin(partitions: 2, now: later(6)) == [0])
        report(true, 0, at: 6)
        #expect(!monitor.isSilent(now: later(600)))
        // A clock that was set back.
        #expect(!monitor.begin(partitions: 1, now: later(700)).isEmpty)
        #expect(monitor.begin(partitions: 1, now: later(10)) == [0])
        #expect(!monitor.isSilent(now: later(14)) && monitor.isSilent(now: later(15)))
    }
}

struct ProducerHolderTests {
    @Test func `a producer that fails for good is replaced at once, one that follows it a second later`() throws {
        let time = ManualTime()
        let replaced = MetricsRegistry().counter(IngestMetricsCatalogue.producersReplaced)
        let holder = try ProducerHolder(
            properties: [("bootstrap.servers", "127.0.0.1:1")],
            topics: ["t"],
            log: .disabled,
            replaced: replaced,
            time: time
        )
        let first = holder.producer
        let second = try #require(holder.replace(first))
        #expect(second !== first && holder.producer === second)
        #expect(holder.replace(first) == nil)
        time.advance(milliseconds: 999)
        #expect(holder.replace(second) == nil)
        time.advance(milliseconds: 1)
        #expect(holder.replace(second) != nil && replaced.value == 2)
    }
}

struct ReadinessTests {
    @Test func `the door opens once all is in order, and only a wrong clock or weak topics close it`() {
        let readiness = Readiness(log: .disabled)
        #expect(!readiness.isDoorOpen)
        readiness.set(topics: nil)
        #expect(!readiness.isDoorOpen)
        readiness.set(heartbeat: nil)
        #expect(readiness.isDoorOpen && readiness.reasons.isEmpty)
        readiness.set(heartbeat: .noHeartbeat)
        #expect(readiness.isDoorOpen && readiness.reasons == [.noHeartbeat])
        readiness.set(clock: .clockOff)
        #expect(!readiness.isDoorOpen)
        readiness.set(clock: nil)
        readiness.beginDraining()
        #expect(readiness.isDoorOpen && readiness.reasons.first == .draining)
    }

    @Test func `a topic is strong only if acknowledged records can't be lost in it`() {
        func topic(_ change: [String: String?] = [:], replicas: Int = 3, partitions: Int = 32) -> KafkaTopicDescription
        {
            var settings: [String: String] = [
                "min.insync.replicas": "2", "unclean.leader.election.enable": "false", "cleanup.policy": "delete",
                "message.timestamp.type": "LogAppendTime", "max.message.bytes": "1048588",
            ]
            for (key, value) in change { settings[key] = value }
            return KafkaTopicDescription(
                name: "t",
                partitions: partitions,
                replicationFactor: replicas,
                settings: settings
            )
        }
        func count(_ topic: KafkaTopicDescription) -> Int { TopicStrength.weaknesses(of: topic, for: .daysLive).count }
        #expect(count(topic()) == 0)
        #expect(count(topic(replicas: 1)) == 1)
        // Nodes that are away, or don't answer, close no door that was open.
        let silent = KafkaTopicDescription(name: "t", partitions: 4, replicationFactor: 2, settings: nil)
        for found in [topic(replicas: 1), silent] {
            #expect(TopicStrength.weaknesses(of: found, for: .daysLive, isFirst: false).isEmpty)
        }
        let weaker = topic(["min.insync.replicas": "1"])
        #expect(TopicStrength.weaknesses(of: weaker, for: .daysLive, isFirst: false).count == 1)
        #expect(count(topic(partitions: 12)) == 1)
        #expect(count(topic(["min.insync.replicas": "1"])) == 1)
        #expect(count(topic(["unclean.leader.election.enable": "true"])) == 1)
        #expect(count(topic(["cleanup.policy": "compact"])) == 1)
        #expect(count(topic(["message.timestamp.type": "CreateTime"])) == 1)
        #expect(count(topic(["max.message.bytes": "1000"])) == 1)
        #expect(count(KafkaTopicDescription(name: "t", partitions: 4, replicationFactor: 3, settings: nil)) == 1)
    }

    @Test func `the catalogue of metrics is sound`() {
        #expect(IngestMetricsCatalogue.all.flatMap(\.problems).isEmpty)
        let registry = MetricsRegistry()
        _ = IngestMetrics(registry)
        #expect(registry.conflicts.isEmpty)
    }
}

struct RouteTests {
    private func withBytes<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        Array(text.utf8).withUnsafeBytes { body($0) }
    }

    @Test func `paths are matched as a whole`() {
        let days = PathPattern("/v1/days")
        let userDays = PathPattern("/v1/users/{id}/days")
        let token = PathPattern("/v1/device-tokens/{token}")
        func segment(_ pattern: PathPattern, _ path: String) -> String? {
            withBytes(path) { pattern.match($0).map { String(decoding: $0, as: UTF8.self) } }
        }
        #expect(segment(days, "/v1/days") == "")
        #expect(segment(userDays, "/v1/users/7/days") == "7")
        #expect(segment(token, "/v1/device-tokens/a%3Ab") == "a%3Ab")
        for path in ["/", "", "/v1/days/", "/v1/day", "/V1/days", "/v1/days/7"] {
            #expect(segment(days, path) == nil, "\(path)")
        }
        for path in ["/v1/users//days", "/v1/users/days", "/v1/users/7/day", "/v1/users/7/8/days", "/v1/users/7/days/"]
        {
            #expect(segment(userDays, path) == nil, "\(path)")
        }
        #expect(segment(token, "/v1/device-tokens/") == nil)
        #expect(segment(token, "/v1/device-tokens") == nil)
    }

    @Test func `a flag is true or false, once`() throws {
        func flag(_ query: String) -> Bool? {
            withBytes(query) { bytes in
                do throws(RequestProblem) {
                    return try RequestBytes.flag("strict", query: bytes)
                } catch {
                    #expect(error.status == 400 && error.code == "bad_query")
                    return nil
                }
            }
        }
        #expect(flag("") == false)
        #expect(flag("strict=true") == true)
        #expect(flag("strict=false") == false)
        #expect(flag("a=b&&strict=true&stricter=no") == true)
        for bad in ["strict", "strict=", "strict=1", "strict=True", "strict=true&strict=true", "strict=true;"] {
            #expect(flag(bad) == nil, "\(bad)")
        }
    }

    @Test func `percent signs are decoded, and refused where they say nothing`() {
        func decoded(_ text: String) -> String? {
            withBytes(text) { RequestBytes.decodedSegment($0).map { String(decoding: $0, as: UTF8.self) } }
        }
        #expect(decoded("abc") == "abc")
        #expect(decoded("a%3Ab%3a") == "a:b:")
        for bad in ["%", "%4", "%zz", "abc%", "abc%4g"] { #expect(decoded(bad) == nil, "\(bad)") }
    }

    @Test func `only JSON is read, with any parameters`() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/json "] {
            #expect(withBytes(good) { RequestBytes.isJSON(contentType: $0) }, "\(good)")
        }
        for bad in ["", "text/plain", "application/jsonp", "application/json5", "application/problem+json"] {
            #expect(!withBytes(bad) { RequestBytes.isJSON(contentType: $0) }, "\(bad)")
        }
        #expect(RequestBytes.isJSON(contentType: nil))
    }

    @Test func `the topics that are written to know their places`() {
        #expect(Topic.published.map(\.publishedIndex) == Array(Topic.published.indices))
        #expect(Topic.deadLetters.publishedIndex < 0)
    }

    @Test func `a trace is passed on only if it is well formed`() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        #expect(withBytes(good) { Traceparent.isValid($0) })
        for bad in [
            "", "01" + good.dropFirst(2), good.uppercased(), String(good.dropLast()), good + "0",
            good.replacing("0af7651916cd43dd8448eb211c80319c", with: String(repeating: "0", count: 32)),
            good.replacing("b7ad6b7169203331", with: String(repeating: "0", count: 16)), good.replacing("-", with: "_"),
        ] {
            #expect(!withBytes(bad) { Traceparent.isValid($0) }, "\(bad)")
        }
    }
}

struct IngestProgramTests {
    @Test func `arguments that are not known end with a usage error`() {
        #expect(IngestProgram.run(arguments: ["--nonsense"]) == 64)
        #expect(IngestProgram.run(arguments: ["--version"]) == 0)
    }
}

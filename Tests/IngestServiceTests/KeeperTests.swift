import Glibc
import Kafka
import MessageContract
import Observability
import ServiceRuntime
import Synchronization
import Testing

@testable import IngestService

/// What a cluster of the test's own says of its topics.
private final class Descriptions: Sendable {
    private let state = Mutex<(answer: Result<String, KafkaError>, count: Int)>((.success("2"), 0))

    /// The topics' `min.insync.replicas`.
    func say(_ replicas: String) { state.withLock { $0.answer = .success(replicas) } }
    func fail(_ error: KafkaError) { state.withLock { $0.answer = .failure(error) } }
    var count: Int { state.withLock { $0.count } }

    func describe() throws(KafkaError) -> [KafkaTopicDescription] {
        let answer = state.withLock { state in
            state.count += 1
            return state.answer
        }
        let replicas = try answer.get()
        return Topic.published.map { topic in
            KafkaTopicDescription(
                name: topic.name(prefix: ""),
                partitions: 4,
                replicationFactor: 3,
                settings: [
                    "min.insync.replicas": replicas, "unclean.leader.election.enable": "false",
                    "cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime",
                    "max.message.bytes": "1048588",
                ]
            )
        }
    }
}

struct TopicKeeperTests {
    @Test func `topics are looked at again and again: weaker ones close the door, whatever the cluster says then`()
        throws
    {
        let cluster = try MockKafkaCluster(
            brokers: 1,
            topics: Topic.published.map { ($0.name(prefix: ""), 4) }
        )
        defer { cluster.stop() }
        let holder = try ProducerHolder(
            properties: [("bootstrap.servers", cluster.bootstrapServers)],
            topics: Topic.published.map { $0.name(prefix: "") },
            log: .disabled,
            replaced: MetricsRegistry().counter(IngestMetricsCatalogue.producersReplaced)
        )
        let sink = MemorySink()
        let readiness = Readiness(log: .disabled)
        readiness.set(heartbeat: nil)
        let descriptions = Descriptions()
        let keeper = TopicKeeper(
            holder: holder,
            readiness: readiness,
            allowsWeakTopics: false,
            log: Log(service: "test", sink: sink),
            pauses: .init(whenStrong: 10, whenWeak: 10),
            describe: { _ throws(KafkaError) in try descriptions.describe() },
            onReady: {}
        )
        try keeper.start()
        defer {
            keeper.beginStop()
            #expect(keeper.waitStopped(until: .after(milliseconds: 10_000)))
        }
        func looks(_ more: Int) throws {
            let end = descriptions.count + more
            try waitUntil("\(more) more looks") { descriptions.count >= end }
        }
        try waitUntil("open") { readiness.isDoorOpen && readiness.reasons.isEmpty }
        descriptions.say("1")
        try waitUntil("closed") { !readiness.isDoorOpen && readiness.reasons == [.weakTopics] }
        #expect(sink.lines.contains { $0.contains("min.insync.replicas is below 2") })
        descriptions.fail(KafkaError(code: KafkaError.Code.timedOut, name: "_TIMED_OUT", reason: "nobody answers"))
        try looks(3)
        #expect(!readiness.isDoorOpen)
        descriptions.say("2")
        try waitUntil("open again") { readiness.isDoorOpen && readiness.reasons.isEmpty }
        descriptions.fail(KafkaError(code: KafkaError.Code.timedOut, name: "_TIMED_OUT", reason: "nobody answers"))
        try looks(3)
        #expect(readiness.isDoorOpen && readiness.reasons.isEmpty)
    }
}

struct LogThrottleTests {
    @Test func `the same trouble is told once in ten seconds, with how often it came`() {
        let time = ManualTime()
        let throttle = LogThrottle(now: { time.wallMicroseconds() })
        #expect(throttle.note("a") == 1)
        for _ in 0..<5 { #expect(throttle.note("a") == nil) }
        #expect(throttle.note("b") == 1)
        time.advance(milliseconds: 9_999)
        #expect(throttle.note("a") == nil)
        time.advance(milliseconds: 1)
        #expect(throttle.note("a") == 7)
        #expect(throttle.note("a") == nil)
        // Names from outside can't fill the memory.
        for number in 0..<1000 { #expect(throttle.note("\(number)") == 1) }
    }

    @Test func `clients that can't be taken in are counted, and the log says what to do`() {
        let sink = MemorySink()
        let metrics = IngestMetrics(MetricsRegistry())
        let time = ManualTime()
        let observer = DoorObserver(
            metrics,
            log: Log(service: "test", sink: sink),
            now: { time.wallMicroseconds() }
        )
        for _ in 0..<50 { observer.acceptPaused(errno: EMFILE) }
        #expect(metrics.acceptPauses.value == 50)
        #expect(sink.lines.count == 1)
        #expect(sink.lines[0].contains("ulimit -n") && sink.lines[0].contains(#""errno":24"#))
        time.advance(milliseconds: 10_000)
        observer.acceptPaused(errno: EMFILE)
        #expect(sink.lines.count == 2 && sink.lines[1].contains(#""count":50"#))
    }
}

import Domain
import Observability
import ServiceRuntime
import Synchronization
import Testing

@testable import IngestService

struct RateLimiterTests {
    private let second: Int64 = 1_000_000_000
    private func user(_ number: UInt64) -> UserID { UserID(high: number, low: 0x8000_0000_0000_0000) }

    @Test func `a burst passes, then as many as the rate, and the wait is told`() {
        let limiter = RateLimiter(perMinute: 60, burst: 3, now: 0)
        for _ in 0..<3 { #expect(limiter.take(user(1), now: 0) == .passes) }
        #expect(limiter.take(user(1), now: 0) == .wait(seconds: 1))
        // Refused requests cost nothing.
        for _ in 0..<100 { _ = limiter.take(user(1), now: second / 2) }
        #expect(limiter.take(user(1), now: second + second / 10) == .passes)
        #expect(limiter.take(user(1), now: second + second / 5) == .wait(seconds: 1))
        // Whoever rests has a whole bucket again, and no more.
        for _ in 0..<3 { #expect(limiter.take(user(1), now: 100 * second) == .passes) }
        #expect(limiter.take(user(1), now: 100 * second) == .wait(seconds: 1))
    }

    @Test func `the wait is as long as it takes`() {
        let limiter = RateLimiter(perMinute: 1, burst: 1, now: 0)
        #expect(limiter.take(user(1), now: 0) == .passes)
        guard case .wait(let seconds) = limiter.take(user(1), now: second) else {
            Issue.record("passed")
            return
        }
        #expect((59...60).contains(seconds))
        #expect(limiter.take(user(1), now: 61 * second) == .passes)
    }

    @Test func `users, and kinds of one user, have buckets of their own`() {
        let limiter = RateLimiter(perMinute: 60, burst: 1, now: 0, seed: 1)
        for number in 0..<1000 { #expect(limiter.take(user(UInt64(number)), now: 0) == .passes) }
        #expect(limiter.take(user(7), now: 0) != .passes)
        #expect(limiter.take(user(7), kind: 1, now: 0) == .passes)
    }

    @Test func `the long run is the rate, whatever the moments`() {
        let limiter = RateLimiter(perMinute: 600, burst: 5, now: 0)
        var random = SystemRandomNumberGenerator()
        var now: Int64 = 0
        var passed = 0
        while now < 60 * second {
            now += Int64(random.next() % 20_000_000)
            if limiter.take(user(3), now: now) == .passes { passed += 1 }
        }
        #expect((595...612).contains(passed), "\(passed)")
    }

    @Test func `memory is bounded: full buckets make room, and without room nobody is refused for it`() {
        let limiter = RateLimiter(perMinute: 60, burst: 2, users: 64, now: 0, seed: 1)
        for number in 0..<10_000 { #expect(limiter.take(user(UInt64(number)), now: 0) == .passes) }
        #expect(limiter.bucketsInUse(now: 0) <= 64)
        // A second later the buckets are full again: all of the memory is free.
        #expect(limiter.bucketsInUse(now: 2 * second) == 0)
        for number in 0..<16 { _ = limiter.take(user(UInt64(number)), now: 2 * second) }
        #expect(limiter.bucketsInUse(now: 2 * second) > 8)
    }

    @Test func `after two years, when its clock turns, nobody waits for long`() {
        let limiter = RateLimiter(perMinute: 60, burst: 2, users: 64, now: 0, seed: 1)
        let turn: Int64 = 1 << 56
        for _ in 0..<2 { _ = limiter.take(user(1), now: turn - 2 * second) }
        for step in Int64(0)..<5 {
            #expect(limiter.take(user(1), now: turn + step * second) == .passes, "\(step)")
        }
    }

    @Test func `threads that ask at once get no more than the bucket holds`() throws {
        let limiter = RateLimiter(perMinute: 1, burst: 500, now: 0)
        let passed = Atomic<Int>(0)
        let threads = try (0..<4).map { number in
            try WorkerThread.spawn(name: "asks-\(number)") {
                for _ in 0..<1000 where limiter.take(UserID(high: 1, low: 1), now: 0) == .passes {
                    passed.wrappingAdd(1, ordering: .relaxed)
                }
            }
        }
        for thread in threads { #expect(thread.join(milliseconds: 10_000)) }
        // After eight lost races a request passes uncounted.
        #expect((500...520).contains(passed.load(ordering: .relaxed)))
    }
}

struct RequestLogTests {
    private let name = RequestName(
        event: event,
        trace: UUID128(high: 0x0af7_6519_16cd_43dd, low: 0x8448_eb21_1c80_319c)
    )

    @Test func `refusals for our own sake are written with their names, a few a second`() {
        let sink = MemorySink()
        var log = RequestLog(Log(service: "test", sink: sink))
        log.note(name, route: "/v1/days", status: 422, code: "invalid", now: 0)
        log.note(name, route: "/v1/days", status: 202, code: nil, now: 0)
        #expect(sink.lines.isEmpty)
        for _ in 0..<1000 { log.note(name, route: "/v1/days", status: 503, code: "queue_full", now: 0) }
        #expect(sink.lines.count == RequestLog.linesPerSecond)
        let line = sink.lines[0]
        #expect(line.contains(#""message":"request refused""#) && line.contains(#""code":"queue_full""#))
        #expect(line.contains(#""event_id":"\#(event)""#))
        #expect(line.contains(#""trace_id":"0af7651916cd43dd8448eb211c80319c""#))
        log.note(nil, route: "none", status: 503, code: "queue_full", now: 1_000_000_000)
        #expect(sink.lines.count == RequestLog.linesPerSecond + 2)
        #expect(sink.lines.contains { $0.contains(#""count":990"#) })
    }

    @Test func `at the level debug every request is written`() {
        let sink = MemorySink()
        var log = RequestLog(Log(service: "test", level: .debug, sink: sink))
        for _ in 0..<100 { log.note(name, route: "/v1/days", status: 202, code: nil, now: 0) }
        log.note(name, route: "/v1/days", status: 401, code: "expired", now: 0)
        #expect(sink.lines.count == 101)
    }
}

struct LoopMonitorTests {
    @Test func `what a loop counted is handed over, and its timer's lateness seen`() {
        let metrics = IngestMetrics(MetricsRegistry())
        let time = ManualTime()
        let monitor = LoopMonitor(metrics, loop: 1, now: { time.monotonicNanoseconds() })
        monitor.begin()
        monitor.handled = 7
        time.advance(milliseconds: 250)
        monitor.report(bytesReceived: 1000)
        monitor.handled = 1
        time.advance(milliseconds: 850)
        monitor.report(bytesReceived: 1500)
        #expect(metrics.loopRequests(1).value == 8)
        #expect(metrics.bytesReceived.value == 1500)
        #expect(metrics.loopLag.count == 2)
        #expect(abs(metrics.loopLag.sum - 0.6) < 0.001)
    }
}

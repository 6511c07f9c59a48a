import ServiceRuntime
import Testing

struct TimeTests {
    @Test func `manual time moves only when told to`() {
        let time = ManualTime(wallMicroseconds: 5_000_000)
        let start = time.monotonicNanoseconds()
        time.advance(milliseconds: 2)
        time.suspend(milliseconds: 10)
        #expect(time.wallMicroseconds() == 5_012_000)
        #expect(time.monotonicNanoseconds() - start == 2_000_000)
        #expect(time.bootNanoseconds() - start == 12_000_000)
        time.setWall(microseconds: 1)
        #expect(time.wallMicroseconds() == 1)
    }

    @Test func `the system's clocks run forwards from where they should be`() {
        let time = SystemTime()
        #expect(time.wallMicroseconds() > 1_767_225_600_000_000)
        let first = time.monotonicNanoseconds()
        #expect(time.monotonicNanoseconds() >= first)
        #expect(time.bootNanoseconds() >= first)
    }

    @Test func `a deadline passes when its time has come, and not before`() {
        let time = ManualTime()
        let deadline = Deadline.after(milliseconds: 10, by: time)
        #expect(deadline.remainingMilliseconds(by: time) == 10)
        time.advance(milliseconds: 9)
        #expect(!deadline.hasPassed(by: time))
        #expect(deadline.remainingMilliseconds(by: time) == 1)
        time.advance(milliseconds: 1)
        #expect(deadline.hasPassed(by: time))
        #expect(deadline.remainingMilliseconds(by: time) == 0)
    }

    @Test func `deadlines saturate instead of overflowing`() {
        #expect(Deadline.after(milliseconds: .max) == .never)
        #expect(!Deadline.never.hasPassed())
        #expect(Deadline.never.remainingMilliseconds() == .max)
        #expect(Deadline.after(milliseconds: .min).hasPassed())
        #expect(Deadline(nanoseconds: .min).remainingMilliseconds() == 0)
        #expect(Deadline(nanoseconds: .max - 1).remainingMilliseconds() > 1_000_000)
    }
}

struct BackoffTests {
    private static let backoff = Backoff(base: .milliseconds(100), cap: .seconds(30))

    @Test func `the full delay doubles up to the cap`() {
        #expect((1...4).map { Self.backoff.fullDelay(attempt: $0) } == [100, 200, 400, 800].map(Duration.milliseconds))
        #expect(Self.backoff.fullDelay(attempt: 10) == .seconds(30))
        #expect(Self.backoff.fullDelay(attempt: .max) == .seconds(30))
        #expect(Self.backoff.fullDelay(attempt: 0) == .milliseconds(100))
        #expect(Self.backoff.fullDelay(attempt: .min) == .milliseconds(100))
    }

    @Test(arguments: [Backoff.Jitter.none, .equal, .full])
    func `any attempt of any back-off waits within its bounds`(jitter: Backoff.Jitter) {
        var random = SplitMix64(seed: 4)
        for _ in 0..<5000 {
            let base = Duration.nanoseconds(Int64.random(in: -5...5_000_000_000, using: &random))
            let cap = Duration.nanoseconds(Int64.random(in: 0...Int64.max, using: &random))
            let attempt = Int.random(in: -1...200, using: &random)
            let backoff = Backoff(base: base, cap: cap, jitter: jitter)
            let full = backoff.fullDelay(attempt: attempt)
            let delay = backoff.delay(attempt: attempt, using: &random)
            #expect(delay >= .zero && delay <= full && full <= cap)
            if jitter == .equal { #expect(delay * 2 + .nanoseconds(1) >= full) }
            if jitter == .none { #expect(delay == full) }
            #expect(full <= backoff.fullDelay(attempt: attempt + 1))
        }
    }

    @Test func `the same seed gives the same waits, another one others`() {
        func waits(_ seed: UInt64) -> [Duration] {
            var random = SplitMix64(seed: seed)
            return (1...8).map { Self.backoff.delay(attempt: $0, using: &random) }
        }
        #expect(waits(1) == waits(1))
        #expect(waits(1) != waits(2))
    }

    @Test func `the generator gives the published numbers`() {
        var random = SplitMix64(seed: 1_234_567)
        #expect(random.next() == 6_457_827_717_110_365_317)
        #expect(random.next() == 3_203_168_211_198_807_973)
    }

    @Test func `durations convert without overflow`() {
        #expect(Duration.milliseconds(3).clampedNanoseconds == 3_000_000)
        #expect(Duration.seconds(Int64.max).clampedNanoseconds == .max)
        #expect(Duration.seconds(Int64.min).clampedNanoseconds == .min)
        #expect(Duration.nanoseconds(1).clampedMilliseconds == 1)
        #expect(Duration.seconds(-1).clampedMilliseconds == 0)
    }
}

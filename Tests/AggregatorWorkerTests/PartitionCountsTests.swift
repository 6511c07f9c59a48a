import ServiceRuntime
import Synchronization
import Testing

@testable import AggregatorWorker

@Suite struct `How many partitions the topics have` {
    /// A clock that stands where it was put, and a broker that answers as it was told.
    private final class World: TimeSource {
        let now = Mutex<Int64>(0)
        let asked = Mutex(0)
        let answer = Mutex<[String: Int]>([:])

        func wallMicroseconds() -> Int64 { 0 }
        func monotonicNanoseconds() -> Int64 { now.withLock { $0 } }
        func bootNanoseconds() -> Int64 { monotonicNanoseconds() }

        func ask() -> [String: Int] {
            asked.withLock { $0 += 1 }
            return answer.withLock { $0 }
        }

        func wait(_ nanoseconds: Int64) { now.withLock { $0 += nanoseconds } }
        func answers(_ counts: [String: Int]) { answer.withLock { $0 = counts } }
        var questions: Int { asked.withLock { $0 } }
    }

    @Test func `all lanes that start share one question, whatever it brought`() {
        let world = World()
        let counts = PartitionCounts(time: world, ask: world.ask)
        world.answers(["live": 8])
        #expect(counts.count(of: "live") == 8)
        #expect(counts.count(of: "history") == nil)
        #expect(counts.count(of: "live") == 8)
        #expect(world.questions == 1)
    }

    @Test func `a lane that is made anew later asks again, and what does not answer then is as it was`() {
        let world = World()
        let counts = PartitionCounts(time: world, ask: world.ask)
        world.answers(["live": 8, "history": 4])
        #expect(counts.count(of: "live") == 8)
        world.answers(["live": 16])
        world.wait(PartitionCounts.freshness)
        #expect(counts.count(of: "live") == 16)
        #expect(counts.count(of: "history") == 4)
        #expect(world.questions == 2)
    }
}

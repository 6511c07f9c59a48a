import ServiceRuntime
import Synchronization

/// Work of many small pieces that wait more than they compute.
enum Parallel {
    /// Calls the body once for each number below `count`, so many at a time as `width` says, whatever the number of
    /// processors: each on a thread of its own. Returns when all are done.
    static func forEach(below count: Int, width: Int, _ body: @escaping @Sendable (Int) -> Void) throws {
        let next = Counter()
        let threads = try (0..<max(0, min(width, count))).map { number in
            try WorkerThread.spawn(name: "send-\(number)", stackSize: 1 << 20) {
                while let index = next.take(below: count) { body(index) }
            }
        }
        for thread in threads { thread.join() }
    }

    private final class Counter: Sendable {
        private let next = Atomic<Int>(0)

        func take(below count: Int) -> Int? {
            let index = next.wrappingAdd(1, ordering: .relaxed).oldValue
            return index < count ? index : nil
        }
    }
}

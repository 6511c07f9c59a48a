import DevelopmentStack
import ServiceRuntime
import Synchronization

/// Works on parts in several threads, while the main thread shows how far it is and listens for the signal to stop.
enum PartWorkers {
    private struct Shared: Sendable {
        var next = 0
        var failure: (any Error)?
    }

    /// - Parameters:
    ///   - parts: taken in their order.
    ///   - jobs: how many threads.
    ///   - signals: end it; a part that is worked on sees the flag.
    ///   - setup: what a thread needs for itself, made on it.
    ///   - work: one part; returns early once the flag is raised.
    ///   - tick: called on the calling thread, many times a second.
    /// - Returns: whether all parts were worked on to their end; false where it was stopped.
    /// - Throws: the first error of a part, once all threads have ended.
    static func run<Part: Sendable, Context>(
        _ parts: [Part],
        jobs: Int,
        _ signals: StopSignals,
        setup: @escaping @Sendable (StopFlag) throws -> Context,
        work: @escaping @Sendable (Part, Context, StopFlag) throws -> Void,
        tick: () -> Void
    ) throws -> Bool {
        let stop = StopFlag()
        let shared = SharedState(Shared())
        let threads = try (0..<max(1, min(jobs, parts.count))).map { number in
            try WorkerThread.spawn(name: "part-\(number)", stackSize: 8 << 20) {
                do {
                    let context = try setup(stop)
                    while !stop.isRaised, let next = shared.take(below: parts.count) {
                        try work(parts[next], context, stop)
                    }
                } catch {
                    shared.note(error)
                    stop.raise()
                }
            }
        }
        var isStopped = false
        while threads.contains(where: { !$0.isFinished }) {
            if signals.wait(milliseconds: 20) != nil {
                isStopped = true
                stop.raise()
            }
            tick()
        }
        for thread in threads { thread.join() }
        if let failure = shared.failure { throw failure }
        return !isStopped
    }

    private final class SharedState: Sendable {
        private let state: Mutex<Shared>

        init(_ initial: Shared) { state = Mutex(initial) }

        func take(below count: Int) -> Int? {
            state.withLock { state in
                guard state.next < count else { return nil }
                state.next += 1
                return state.next - 1
            }
        }

        func note(_ error: any Error) {
            state.withLock { if $0.failure == nil { $0.failure = error } }
        }

        var failure: (any Error)? { state.withLock { $0.failure } }
    }
}

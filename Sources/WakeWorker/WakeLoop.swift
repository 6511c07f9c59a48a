internal import Observability
internal import Postgres
internal import ServiceRuntime
internal import Storage
internal import Synchronization

/// The worker's thread: a turn after another, until it is told to stop and everything under way has ended.
final class WakeLoop: Service {
    let name: StaticText = "wakes"

    struct Timing: Sendable {
        var scanMilliseconds: Int
        /// While outcomes are on their way.
        var busyMilliseconds = 20
        /// How long draining may take, as a part of the grace period.
        var drainMilliseconds: Int
    }

    private struct State {
        var thread: WorkerThread?
        var isReady = false
        var isStopping = false
    }

    private let timing: Timing
    private let make: @Sendable () throws -> (work: WakeWork, store: WakeStore, dispatcher: WakeDispatcher)
    private let log: Log
    private let stop = StopFlag()
    private let state = Mutex(State())

    /// - Parameters:
    ///   - timing: how often it turns.
    ///   - log: for what fails.
    ///   - make: makes the work on the loop's own thread; tried again until what it depends on is there.
    init(
        timing: Timing,
        log: Log,
        make: @escaping @Sendable () throws -> (work: WakeWork, store: WakeStore, dispatcher: WakeDispatcher)
    ) {
        self.timing = timing
        self.log = log
        self.make = make
    }

    func start(_ context: ServiceContext) throws {
        let thread = try WorkerThread.spawn(name: "wakes") { [self] in run(context) }
        state.withLock { $0.thread = thread }
    }

    private func run(_ context: ServiceContext) {
        var generator = SystemRandomNumberGenerator()
        let backoff = Backoff(base: .milliseconds(200), cap: .seconds(5))
        var attempt = 0
        while !stop.isRaised {
            do {
                let parts = try make()
                attempt = 0
                turn(parts.work, parts.store, parts.dispatcher)
                return
            } catch let refusal as SchemaGate.Refusal where !refusal.isCuredByMigrating {
                context.log.error("this build must not write to this database", [.error: .text("\(refusal)")])
                context.fail("the schema asks for another build of the worker")
                return
            } catch {
                attempt += 1
                let delay = backoff.delay(attempt: attempt, using: &generator).clampedMilliseconds
                context.log.warning(
                    "wakes could not start; trying again",
                    [.error: .text("\(error)"), .delayMilliseconds: .integer(delay)]
                )
                stop.wait(milliseconds: delay)
            }
        }
    }

    private func turn(_ work: WakeWork, _ store: WakeStore, _ dispatcher: WakeDispatcher) {
        var generator = SystemRandomNumberGenerator()
        let backoff = Backoff(base: .milliseconds(200), cap: .seconds(5))
        var failures = 0
        var isBusy = false
        var nextScan = Deadline.after(milliseconds: 0)
        var drainedBy = Deadline.never
        while true {
            if stop.isRaised, drainedBy == .never {
                drainedBy = .after(milliseconds: timing.drainMilliseconds)
                dispatcher.dropWaiting()
            }
            if stop.isRaised, work.isIdle || drainedBy.hasPassed() { return }
            let scans = !stop.isRaised && nextScan.hasPassed()
            var wait = timing.busyMilliseconds
            do {
                if store.isBroken { try store.reconnect() }
                let turn = try work.turn(claims: scans)
                if scans { nextScan = .after(milliseconds: pause(after: turn)) }
                isBusy = turn.isBusy
                failures = 0
                setReady(true)
                wait = isBusy ? timing.busyMilliseconds : max(1, nextScan.remainingMilliseconds())
                if turn.hasMore { wait = 0 }
            } catch {
                failures += 1
                setReady(false)
                // Whatever answers there is not of use: a server that was demoted keeps its sessions.
                if (error as? PostgresError)?.disposition != .retry { store.disconnect() }
                wait = backoff.delay(attempt: failures, using: &generator).clampedMilliseconds
                log.warning("the database is away or refuses; trying again", [.error: .text("\(error)")])
            }
            guard wait > 0 else { continue }
            if stop.isRaised {
                // Raised for good: wait on something else.
                StopFlag().wait(milliseconds: min(wait, timing.busyMilliseconds))
            } else {
                stop.wait(milliseconds: wait)
            }
        }
    }

    private func pause(after turn: WakeWork.Turn) -> Int {
        if turn.hasMore { return 0 }
        return turn.isPaced ? min(100, timing.scanMilliseconds) : timing.scanMilliseconds
    }

    private func setReady(_ isReady: Bool) {
        state.withLock { $0.isReady = isReady }
    }

    /// What is in the way, for `/readyz`.
    var reasons: [String] {
        state.withLock { state in
            (state.isStopping ? ["stopping"] : []) + (state.isReady ? [] : ["the database is away"])
        }
    }

    func beginStop() {
        state.withLock { $0.isStopping = true }
        stop.raise()
    }

    func waitStopped(until deadline: Deadline) -> Bool {
        state.withLock { $0.thread }?.join(until: deadline) ?? true
    }
}

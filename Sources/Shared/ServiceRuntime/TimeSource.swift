import Glibc
import Synchronization

/// The clocks that logic may read. It is a parameter everywhere, so that tests decide what time it is.
public protocol TimeSource: Sendable {
    /// Microseconds since 1970 in UTC: what records and rows carry. It may jump.
    func wallMicroseconds() -> Int64
    /// Never goes back; stands still while the machine is suspended. For durations and time-outs.
    func monotonicNanoseconds() -> Int64
    /// Never goes back and counts on while the machine is suspended. For leases.
    func bootNanoseconds() -> Int64
}

/// The system's clocks.
public struct SystemTime: TimeSource {
    public init() {}

    public func wallMicroseconds() -> Int64 {
        nanoseconds(CLOCK_REALTIME) / 1000
    }

    public func monotonicNanoseconds() -> Int64 {
        nanoseconds(CLOCK_MONOTONIC)
    }

    public func bootNanoseconds() -> Int64 {
        nanoseconds(CLOCK_BOOTTIME)
    }

    private func nanoseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// Time that moves only when told to, for tests.
public final class ManualTime: TimeSource {
    private struct State {
        var wall: Int64
        var monotonic: Int64 = 1_000_000_000
        var boot: Int64 = 1_000_000_000
    }

    private let state: Mutex<State>

    /// - Parameter wallMicroseconds: The first reading; by default 2026-01-01T00:00:00Z.
    public init(wallMicroseconds: Int64 = 1_767_225_600_000_000) {
        state = Mutex(State(wall: wallMicroseconds))
    }

    public func wallMicroseconds() -> Int64 { state.withLock(\.wall) }
    public func monotonicNanoseconds() -> Int64 { state.withLock(\.monotonic) }
    public func bootNanoseconds() -> Int64 { state.withLock(\.boot) }

    /// Moves all three clocks.
    public func advance(milliseconds: Int64) {
        state.withLock {
            $0.wall += milliseconds * 1000
            $0.monotonic += milliseconds * 1_000_000
            $0.boot += milliseconds * 1_000_000
        }
    }

    /// As when the machine sleeps: the monotonic clock stands still.
    public func suspend(milliseconds: Int64) {
        state.withLock {
            $0.wall += milliseconds * 1000
            $0.boot += milliseconds * 1_000_000
        }
    }

    /// As when the wall clock is corrected.
    public func setWall(microseconds: Int64) {
        state.withLock { $0.wall = microseconds }
    }
}

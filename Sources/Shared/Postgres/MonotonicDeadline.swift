import Glibc

/// A point on the monotonic clock, for `poll`.
struct MonotonicDeadline {
    static let never = MonotonicDeadline(nanoseconds: .max)

    private let nanoseconds: Int64

    private init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    init(millisecondsFromNow milliseconds: Int32) {
        nanoseconds = Self.now + Int64(max(0, milliseconds)) * 1_000_000
    }

    /// −1 for `never`, as `poll` wants it; rounded up.
    var remainingMilliseconds: Int32 {
        guard nanoseconds != .max else { return -1 }
        return Int32(clamping: max(0, nanoseconds - Self.now + 999_999) / 1_000_000)
    }

    private static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// A point on the monotonic clock by which something has to be done. Arithmetic saturates.
public struct Deadline: Hashable, Comparable, Sendable {
    /// On `TimeSource.monotonicNanoseconds()`.
    public let nanoseconds: Int64

    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    public static let never = Deadline(nanoseconds: .max)

    public static func after(milliseconds: Int, by time: some TimeSource = SystemTime()) -> Deadline {
        let (span, spanOverflow) = Int64(milliseconds).multipliedReportingOverflow(by: 1_000_000)
        let (sum, sumOverflow) = time.monotonicNanoseconds().addingReportingOverflow(span)
        guard !spanOverflow, !sumOverflow else { return Deadline(nanoseconds: milliseconds < 0 ? .min : .max) }
        return Deadline(nanoseconds: sum)
    }

    public func hasPassed(by time: some TimeSource = SystemTime()) -> Bool {
        nanoseconds != .max && time.monotonicNanoseconds() >= nanoseconds
    }

    /// Rounded up, so that waiting this long reaches the deadline; 0 once it has passed.
    public func remainingMilliseconds(by time: some TimeSource = SystemTime()) -> Int {
        guard nanoseconds != .max else { return .max }
        let (left, overflow) = nanoseconds.subtractingReportingOverflow(time.monotonicNanoseconds())
        guard !overflow, left > 0 else { return 0 }
        return Int((left - 1) / 1_000_000 + 1)
    }

    public static func < (left: Deadline, right: Deadline) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
}

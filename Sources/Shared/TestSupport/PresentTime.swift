public import Domain
import Foundation

extension Instant {
    /// By the machine's clock, to the microsecond. A test that is compared with what a program says of the time asks at the
    /// moment that it means: suites run for minutes.
    public static var present: Instant { Instant(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000)) }
}

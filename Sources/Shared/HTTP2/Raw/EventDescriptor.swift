import CNGHTTP2
import Glibc

/// Wakes a loop that waits in `poll`, from any thread.
public final class EventDescriptor: Sendable {
    /// Readable from a `signal` until `clear`; negative if the system had none left.
    public let descriptor: Int32

    public init() {
        descriptor = eventfd(0, Int32(O_CLOEXEC | O_NONBLOCK))
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    public func signal() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    public func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
    }
}

import Glibc
import Synchronization

/// Says "stop" once, to any number of threads: a flag that costs one load to look at, with a descriptor that loops can
/// wait on, so that no sleep outlives it.
public final class StopFlag: Sendable {
    private let raised = Atomic<Bool>(false)
    private let reader: Int32
    private let writer: Int32

    public init() {
        (reader, writer) = Self.descriptors()
    }

    deinit {
        if reader >= 0 { close(reader) }
        if writer >= 0 { close(writer) }
    }

    /// Readable from the moment the flag is raised, for ever: for `poll` or `epoll`, never to be read from or closed.
    /// -1 if the process had no descriptor left when the flag was made; `wait` works all the same.
    public var fileDescriptor: Int32 { reader }

    public var isRaised: Bool {
        raised.load(ordering: .acquiring)
    }

    /// Safe in a signal handler. Raising again changes nothing.
    public func raise() {
        guard !raised.exchange(true, ordering: .acquiringAndReleasing), writer >= 0 else { return }
        var byte: UInt8 = 1
        _ = write(writer, &byte, 1)
    }

    /// Waits until the flag is raised or the time is over, and returns whether it is raised.
    @discardableResult
    public func wait(milliseconds: Int) -> Bool {
        wait(until: .after(milliseconds: milliseconds))
    }

    /// Waits for as long as it takes.
    public func wait() {
        wait(until: .never)
    }

    @discardableResult
    public func wait(until deadline: Deadline) -> Bool {
        while !isRaised {
            let left = deadline.remainingMilliseconds()
            guard left > 0 else { return isRaised }
            guard reader >= 0 else {
                usleep(UInt32(min(left, 10)) * 1000)
                continue
            }
            var entry = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
            poll(&entry, 1, Int32(clamping: left))
        }
        return true
    }

    /// A connected pair that children of this process don't inherit.
    private static func descriptors() -> (Int32, Int32) {
        var pair: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, type, 0, &pair) == 0 else { return (-1, -1) }
        return (pair[0], pair[1])
    }
}

import Glibc
import HTTP2

/// Lets a thread wait until another one has something for it.
struct Wake: Sendable {
    private let event = EventDescriptor()

    var descriptor: Int32 { event.descriptor }

    func signal() { event.signal() }

    func clear() { event.clear() }

    func wait(milliseconds: Int64) {
        var entry = pollfd(fd: event.descriptor, events: Int16(POLLIN), revents: 0)
        poll(&entry, 1, Int32(clamping: milliseconds))
        event.clear()
    }
}

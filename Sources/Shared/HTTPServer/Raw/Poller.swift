import CLLHTTP
import Glibc

/// What epoll says about a descriptor.
struct Readiness {
    let bits: UInt32

    var isReadable: Bool { bits & EPOLLIN.rawValue != 0 }
    var isWritable: Bool { bits & EPOLLOUT.rawValue != 0 }
    var isHungUp: Bool { bits & EPOLLRDHUP.rawValue != 0 }
    var isBroken: Bool { bits & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 }
}

/// Owns an epoll descriptor and the array that it fills.
final class Poller {
    static let capacity = 256

    private let descriptor: Int32
    private let events: UnsafeMutablePointer<epoll_event>

    init() throws(HTTPServerError) {
        descriptor = epoll_create1(Int32(O_CLOEXEC))
        guard descriptor >= 0 else {
            throw HTTPServerError(
                description: "Cannot make an epoll descriptor; raise the limit of open files (ulimit -n).",
                errno: errno
            )
        }
        events = .allocate(capacity: Poller.capacity)
    }

    deinit {
        close(descriptor)
        events.deallocate()
    }

    /// Reports while there is something to read (level-triggered).
    func addReadable(_ fd: Int32, token: UInt64) -> Bool {
        control(EPOLL_CTL_ADD, fd, EPOLLIN.rawValue, token)
    }

    /// Reports each change once, in both directions (edge-triggered): no further call per request.
    func addConnection(_ fd: Int32, token: UInt64) -> Bool {
        let edgeTriggered: UInt32 = 1 << 31
        let bits = EPOLLIN.rawValue | EPOLLOUT.rawValue | EPOLLRDHUP.rawValue | edgeTriggered
        return control(EPOLL_CTL_ADD, fd, bits, token)
    }

    func remove(_ fd: Int32) {
        _ = control(EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// How many events came; -1 means wait for ever.
    func wait(milliseconds: Int32) -> Int {
        max(Int(epoll_wait(descriptor, events, Int32(Poller.capacity), milliseconds)), 0)
    }

    func event(_ index: Int) -> (token: UInt64, readiness: Readiness) {
        (events[index].data.u64, Readiness(bits: events[index].events))
    }

    private func control(_ operation: Int32, _ fd: Int32, _ bits: UInt32, _ token: UInt64) -> Bool {
        var event = epoll_event()
        event.events = bits
        event.data.u64 = token
        return epoll_ctl(descriptor, operation, fd, &event) == 0
    }
}

/// Takes a client in; its socket never blocks and isn't inherited. Negative: see `errno`.
func acceptNonBlocking(_ listener: Int32) -> Int32 {
    daybook_accept(listener)
}

/// An eventfd, to wake a loop from another thread.
func makeEventDescriptor() -> Int32 {
    eventfd(0, Int32(O_CLOEXEC | O_NONBLOCK))
}

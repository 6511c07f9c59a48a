import Glibc
import Synchronization

/// An HTTP/1.1 server on one thread: epoll over listeners, connections and added descriptors.
///
/// One thread owns it: the one that calls `run()`. Before `run()` it may be set up from another thread; while it runs,
/// only `post`, `wake` and `stop` may be called from elsewhere.
// Holds because all state but `mailbox` (a lock) is touched by the owning thread alone, as documented above.
public final class HTTPEventLoop: @unchecked Sendable {
    let limits: Limits
    let configuration: HTTPServerConfiguration
    let handler: any HTTPRequestHandler
    let observer: (any HTTPServerObserver)?
    let poller: Poller
    let pool: BlockPool
    let writer = ResponseWriter()
    let gzip: GzipDecoder
    private let mailbox: Mailbox

    var listeners: [Int32] = []
    /// Replaced by tests that need a system without free descriptors.
    var acceptClient: (Int32) -> Int32 = Socket.accept
    /// Set while accepting is paused, to the time when it goes on.
    var acceptsAgainAt: UInt64?
    var connections: [Connection] = []
    /// For each slot the time at which its present phase is over: one number to store per change, swept as a whole.
    var deadlines: [UInt64] = []
    var freeSlots: [Int] = []
    /// Slots closed in this turn: events of the same turn may still name them, so they are reused in the next.
    var retiredSlots: [Int] = []
    /// Connections that have something left to do without a new event.
    var queue: [Connection] = []
    var nextSweep: UInt64 = 0
    var isDraining = false
    private var isStopped = false
    private var drainDeadline = UInt64.max
    private var descriptors: [Descriptor?] = []
    private var timers = TimerHeap()

    /// The time of this turn of the loop, in nanoseconds of the monotonic clock.
    public internal(set) var now = monotonicNow()
    /// Clients connected now.
    public internal(set) var connectionCount = 0
    /// What clients have sent, all bytes of it.
    public internal(set) var bytesReceived: UInt64 = 0
    /// Requests that wait for a later answer.
    public internal(set) var waitingCount = 0

    private struct Descriptor {
        let fd: Int32
        let onReadable: () -> Void
    }

    public init(
        configuration: HTTPServerConfiguration = HTTPServerConfiguration(),
        handler: any HTTPRequestHandler,
        observer: (any HTTPServerObserver)? = nil
    ) throws(HTTPServerError) {
        self.configuration = configuration
        self.handler = handler
        self.observer = observer
        limits = Limits(configuration)
        pool = BlockPool(limit: limits.bufferedBytes)
        poller = try Poller()
        gzip = GzipDecoder(limit: limits.decompressedBytes)
        mailbox = try Mailbox()
        guard poller.addReadable(mailbox.fd, token: Token.wake) else {
            throw HTTPServerError(description: "Cannot watch the wake-up descriptor; raise ulimit -n.", errno: errno)
        }
    }

    deinit {
        for fd in listeners { close(fd) }
        for connection in connections where connection.fd >= 0 { close(connection.fd) }
        for connection in connections {
            connection.input.release(to: pool)
            connection.backlog.clear(to: pool)
        }
    }

    /// Listens on an IP address in digits; port 0 lets the system choose. May be called more than once.
    /// - Returns: the port.
    public func listen(address: String, port: UInt16) throws(HTTPServerError) -> UInt16 {
        let (fd, actual) = try Socket.listen(
            address: address,
            port: port,
            backlog: configuration.listenBacklog,
            sharesPort: configuration.sharesPort
        )
        guard poller.addReadable(fd, token: Token.listener | UInt64(listeners.count)) else {
            let code = errno
            close(fd)
            throw HTTPServerError(description: "Cannot watch the listening socket; raise ulimit -n.", errno: code)
        }
        listeners.append(fd)
        return actual
    }

    /// Calls `onReadable` whenever the descriptor has something to read, until it is read: the callee must read it.
    /// The descriptor stays the caller's. False: the system refused.
    public func addDescriptor(_ fd: Int32, onReadable: @escaping () -> Void) -> Bool {
        let index = descriptors.firstIndex { $0 == nil } ?? descriptors.count
        guard poller.addReadable(fd, token: Token.descriptor | UInt64(index)) else { return false }
        let entry = Descriptor(fd: fd, onReadable: onReadable)
        if index < descriptors.count { descriptors[index] = entry } else { descriptors.append(entry) }
        return true
    }

    /// Must come before the descriptor is closed.
    public func removeDescriptor(_ fd: Int32) {
        for index in descriptors.indices where descriptors[index]?.fd == fd {
            poller.remove(fd)
            descriptors[index] = nil
        }
    }

    /// Calls the action again and again. Missed times are not made up for.
    @discardableResult
    public func every(_ interval: Duration, _ action: @escaping () -> Void) -> HTTPTimerID {
        let step = interval.clampedNanoseconds
        return timers.add(at: monotonicNow() &+ step, interval: step, action)
    }

    /// Calls the action once.
    @discardableResult
    public func after(_ delay: Duration, _ action: @escaping () -> Void) -> HTTPTimerID {
        timers.add(at: monotonicNow() &+ delay.clampedNanoseconds, interval: 0, action)
    }

    public func cancel(_ timer: HTTPTimerID) {
        timers.cancel(timer)
    }

    /// Makes `run()` take a turn. From any thread.
    public func wake() {
        mailbox.wake()
    }

    /// Calls the action on the loop's thread, in the order of posting. From any thread. Not called once `run()` is over.
    public func post(_ action: @escaping @Sendable () -> Void) {
        mailbox.post(action)
    }

    /// Ends `run()` at once; open exchanges are abandoned. From any thread.
    public func stop() {
        mailbox.post { [weak self] in self?.isStopped = true }
    }

    /// Stops listening, answers what is in flight with `Connection: close` and ends `run()` when no client is left, or
    /// after `deadline`. Clients whom the kernel has let in by now are served once, if they ask within the configured
    /// `lingerTimeout`. On the loop's thread: elsewhere use `post`.
    public func beginDrain(deadline: Duration = .seconds(20)) {
        guard !isDraining else { return }
        isDraining = true
        drainDeadline = monotonicNow() &+ deadline.clampedNanoseconds
        acceptWaiting()
        closeListeners()
        for connection in connections where connection.state == .reading && connection.input.messageBytes == 0 {
            // Whoever has connected to ask something, and has not asked yet, may do so for a moment.
            if connection.isNew {
                deadlines[connection.slot] = min(deadlines[connection.slot], now &+ limits.lingerTimeout)
            }
            // A request may be in the socket already: it is read before the connection counts as idle.
            connection.isReadable = true
            enqueue(connection)
        }
    }

    /// Serves until `stop()` or the end of a drain. Blocks the calling thread, which owns the loop from then on.
    public func run() {
        now = monotonicNow()
        handler.loopStarted(self)
        while !isStopped {
            let count = poller.wait(milliseconds: patience())
            now = monotonicNow()
            for index in 0..<count { dispatch(index) }
            goOn()
            while let action = timers.popDue(now) { action() }
            if now >= nextSweep { sweep() }
            if let time = acceptsAgainAt, now >= time { resumeAccepting() }
            freeSlots.append(contentsOf: retiredSlots)
            retiredSlots.removeAll(keepingCapacity: true)
            if isDraining, connectionCount == 0 || now >= drainDeadline { break }
        }
        closeListeners()
        for connection in connections where connection.state != .closed {
            leave(connection, reason: isDraining ? "drain" : "stopped")
        }
        // What was added may hold the loop.
        timers = TimerHeap()
        descriptors.removeAll()
    }

    private func dispatch(_ index: Int) {
        let (token, readiness) = poller.event(index)
        let position = Int(UInt32(truncatingIfNeeded: token))
        switch token & Token.kinds {
        case Token.connection:
            guard position < connections.count else { return }
            ready(connections[position], readiness)
        case Token.listener:
            guard position < listeners.count else { return }
            acceptSome(listeners[position])
        case Token.descriptor:
            guard position < descriptors.count, let descriptor = descriptors[position] else { return }
            descriptor.onReadable()
        default:
            for action in mailbox.takeAll() { action() }
        }
    }

    /// How long epoll may wait, in milliseconds, rounded up.
    private func patience() -> Int32 {
        guard queue.isEmpty else { return 0 }
        var time = timers.nextTime ?? .max
        if connectionCount > 0 { time = min(time, nextSweep) }
        if isDraining { time = min(time, drainDeadline) }
        if let again = acceptsAgainAt { time = min(time, again) }
        guard time < .max else { return -1 }
        let moment = monotonicNow()
        guard time > moment else { return 0 }
        return Int32(clamping: (time - moment + 999_999) / 1_000_000)
    }
}

/// What an epoll event is about: a kind, and an index in the lower half.
enum Token {
    static let connection: UInt64 = 0
    static let listener: UInt64 = 1 << 32
    static let descriptor: UInt64 = 2 << 32
    static let wake: UInt64 = 3 << 32
    static let kinds: UInt64 = 3 << 32
}

/// What other threads leave for the loop.
private final class Mailbox: Sendable {
    let fd: Int32
    private let actions = Mutex<[@Sendable () -> Void]>([])

    init() throws(HTTPServerError) {
        fd = makeEventDescriptor()
        guard fd >= 0 else {
            throw HTTPServerError(description: "Cannot make a wake-up descriptor; raise ulimit -n.", errno: errno)
        }
    }

    deinit {
        close(fd)
    }

    func wake() {
        var one: UInt64 = 1
        _ = write(fd, &one, 8)
    }

    func post(_ action: @escaping @Sendable () -> Void) {
        let wasEmpty = actions.withLock { waiting in
            waiting.append(action)
            return waiting.count == 1
        }
        if wasEmpty { wake() }
    }

    func takeAll() -> [@Sendable () -> Void] {
        var count: UInt64 = 0
        _ = read(fd, &count, 8)
        return actions.withLock { waiting in
            defer { waiting.removeAll() }
            return waiting
        }
    }
}

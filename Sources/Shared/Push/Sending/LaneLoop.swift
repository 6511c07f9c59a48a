import Domain
import Glibc
import HTTP2
import JSON
import ServiceRuntime
import Synchronization

/// Sends the pushes of one lane, on a thread of its own: decides what to submit, and drives the connections.
///
/// All state is this thread's. What nghttp2 reports comes in the middle of `advance` and `flush`; it is put down in
/// queues, and connections are opened and closed only from `turn`.
final class LaneLoop: ClientConnectionHandler {
    static let connectNanoseconds: Int64 = 10_000_000_000
    static let pingAnswerNanoseconds: Int64 = 10_000_000_000
    static let busyQuietNanoseconds: Int64 = 10_000_000_000

    let lane: PushLane
    let context: SenderContext
    let inbox: LaneInbox
    let parser: JSONParser
    let policy: RetryPolicy
    let endpoint: PushConfiguration.Endpoint
    var generator = SystemRandomNumberGenerator()

    var pending = TryQueue()
    var delayed: [Try] = []
    var links: [Link] = []
    var reconnect = ReconnectSchedule()
    /// Addresses not tried yet for the connection that is being made.
    var candidates: [Address] = []
    var isResolving = false
    /// The server asked for quiet until then (Retry-After).
    var holdUntil: Int64 = .min
    private var topics: [String: LaneTopic] = [:]
    /// The topic of the last push: mostly that of the next.
    private var lastTopic: LaneTopic?
    var stopped: [String: PushAlarm.Code] = [:]
    private var stopGeneration = -1
    private var resumed = 0
    private var taken: [PushRequest] = []
    let apnsBody = HTTP2Body(RequestText.apnsBody)
    var path: [UInt8] = []
    var now: Int64
    private var entries: [pollfd] = []

    init(
        _ lane: PushLane,
        _ context: SenderContext,
        _ inbox: LaneInbox,
        _ endpoint: PushConfiguration.Endpoint
    ) throws(JSONError) {
        self.lane = lane
        self.context = context
        self.inbox = inbox
        self.endpoint = endpoint
        parser = try JSONParser(maximumDepth: 8)
        policy = lane == .fcm ? .fcm : .apns
        now = context.time.monotonicNanoseconds()
    }

    /// The thread's body: until the inbox is closed and nothing is in flight, or the drain's time is over.
    func run() {
        blockBrokenPipeSignal()
        while !inbox.isClosed { turn() }
        drain()
    }

    /// What is in flight may still be answered, for a while; nothing more is sent.
    private func drain() {
        let (end, overflow) = context.time.monotonicNanoseconds()
            .addingReportingOverflow(Int64(context.configuration.drainMilliseconds) * 1_000_000)
        takeIn()
        endPending(.notSent(.shuttingDown))
        while inFlight > 0, !overflow, context.time.monotonicNanoseconds() < end {
            turn(mostMilliseconds: 100)
            endPending(.notSent(.shuttingDown))
        }
        for link in links { link.connection.close(HTTP2Failure(.closed)) }
        takeIn()
        endPending(.notSent(.shuttingDown))
        links = []
    }

    private func turn(mostMilliseconds: Int64 = .max) {
        now = context.time.monotonicNanoseconds()
        takeIn()
        noticeStops()
        returnDelayed()
        fill()
        for link in links { link.connection.flush() }
        tidy()
        let wait = inbox.beginWaiting() ? min(waitMilliseconds, mostMilliseconds) : 0
        poll(milliseconds: min(wait, context.configuration.longestPollMilliseconds))
        watch()
        tidy()
    }

    var inFlight: Int { links.reduce(0) { $0 + $1.connection.openStreams } }

    private func takeIn() {
        let addresses = inbox.take(&taken)
        for request in taken { pending.append(Try(request: request)) }
        taken.removeAll(keepingCapacity: true)
        if let addresses { resolved(addresses) }
    }

    private func noticeStops() {
        let generation = context.stops.generation
        guard generation != stopGeneration else { return }
        stopGeneration = generation
        stopped = context.stops.of(lane)
        let resumed = context.stops.resumed
        if resumed != self.resumed {
            self.resumed = resumed
            for topic in topics.values { topic.breaker = DeactivationBreaker() }
        }
    }

    /// The topic of a request, whether it may be used or not.
    func topic(_ request: PushRequest) -> LaneTopic {
        let apns = lane == .fcm ? nil : context.configuration.apns
        let name = request.appID.isEmpty ? apns?.defaultTopic ?? "" : request.appID
        if let lastTopic, lastTopic.name == name { return lastTopic }
        let topic = topics[name] ?? make(name, apns)
        lastTopic = topic
        return topic
    }

    private func make(_ name: String, _ apns: PushConfiguration.APNs?) -> LaneTopic {
        // Topics come from clients where none are configured.
        if topics.count >= 1000 { topics = [:] }
        var isUsable = true
        if let apns {
            let isAllowed = name == apns.defaultTopic || apns.topics.isEmpty || apns.topics.contains(name)
            isUsable = isAllowed && RequestText.isTopic(name)
        }
        let topic = LaneTopic(name, isUsable: isUsable)
        topics[name] = topic
        return topic
    }

    private func returnDelayed() {
        guard !delayed.isEmpty, delayed.contains(where: { $0.notBefore <= now }) else { return }
        for entry in delayed where entry.notBefore <= now { pending.append(entry) }
        delayed.removeAll { $0.notBefore <= now }
    }

    /// Ends all that waits.
    func endPending(_ outcome: PushOutcome) {
        while let entry = pending.popFirst() { context.end(entry.request, outcome) }
        for entry in delayed { context.end(entry.request, outcome) }
        delayed = []
    }

    // MARK: - Waiting

    private var waitMilliseconds: Int64 {
        if links.contains(where: { $0.connection.isReadPending }) { return 0 }
        var next = Int64.max
        for entry in delayed { next = min(next, entry.notBefore) }
        if !pending.isEmpty {
            if holdUntil > now { next = min(next, holdUntil) }
            if current == nil, reconnect.notBefore > now { next = min(next, reconnect.notBefore) }
            // A pause or a stop may end without anybody telling.
            next = min(next, now + 1_000_000_000)
        }
        for link in links {
            let isBusy = link.connection.openStreams > 0
            next = min(next, link.connection.isOpen ? link.keepAlive.due(isBusy: isBusy) : link.openBy)
            // Answers that are late are looked for once a second.
            if isBusy { next = min(next, now + 1_000_000_000) }
        }
        guard next != .max else { return 60_000 }
        return next <= now ? 0 : min(60_000, (next - now - 1) / 1_000_000 + 1)
    }

    private func poll(milliseconds: Int64) {
        entries.removeAll(keepingCapacity: true)
        entries.append(pollfd(fd: inbox.wake.descriptor, events: Int16(POLLIN), revents: 0))
        for link in links {
            let events = link.connection.wantsWrite ? POLLIN | POLLOUT : POLLIN
            entries.append(pollfd(fd: link.connection.descriptor, events: Int16(events), revents: 0))
        }
        let count = Glibc.poll(&entries, nfds_t(entries.count), Int32(clamping: milliseconds))
        now = context.time.monotonicNanoseconds()
        if entries[0].revents != 0 { inbox.wake.clear() }
        // The list may grow meanwhile, never shrink.
        for index in 1..<entries.count {
            let link = links[index - 1]
            let events = Int32(entries[index].revents)
            let isPending = link.connection.takeReadPending()
            guard (count > 0 && events != 0) || isPending else { continue }
            link.connection.advance(
                isReadable: isPending || events & (POLLIN | POLLHUP | POLLERR) != 0,
                isWritable: events & (POLLOUT | POLLHUP | POLLERR) != 0
            )
            if link.connection.hasHeard {
                link.connection.hasHeard = false
                link.keepAlive.hear(now: now)
            }
        }
    }

    /// Looks at what time brings: connections that don't come about, peers that are silent, answers that are late.
    private func watch() {
        let answer = Int64(context.configuration.answerMilliseconds) * 1_000_000
        for link in links where link.closing == nil && !link.connection.isClosed {
            guard link.connection.isOpen else {
                if now >= link.openBy { link.closing = HTTP2Failure(.timeout) }
                continue
            }
            switch link.keepAlive.check(now: now, isBusy: link.connection.openStreams > 0) {
            case .nothing: break
            case .ping:
                link.connection.ping()
                link.connection.flush()
            case .dead: link.closing = HTTP2Failure(.timeout)
            }
            guard link.connection.openStreams > 0, now >= link.nextLook else { continue }
            link.nextLook = now + 1_000_000_000
            let late = link.connection.openStreams(before: now - answer)
            guard !late.isEmpty else { continue }
            for stream in late { link.connection.cancel(stream) }
            link.connection.flush()
        }
    }

    /// Closes what is to be closed, and lets go of what is.
    private func tidy() {
        for link in links {
            if let failure = link.closing { link.connection.close(failure) }
            if link.machine.state == .draining, link.connection.openStreams == 0 {
                link.connection.close(HTTP2Failure(.closed))
            }
        }
        links.removeAll { $0.connection.isClosed }
        let streams = inFlight
        context.counters.openStreams.add(streams - reportedStreams, ordering: .relaxed)
        context.counters.connections.add(links.count - reportedLinks, ordering: .relaxed)
        (reportedStreams, reportedLinks) = (streams, links.count)
    }

    private var reportedStreams = 0
    private var reportedLinks = 0

    /// The connection that requests go to.
    var current: Link? { links.last { $0.machine.isCurrent && $0.closing == nil } }

    func link(of connection: ClientConnection) -> Link? { links.first { $0.connection === connection } }
}

/// A queue whose memory is used again.
struct TryQueue {
    private var entries: [Try?] = []
    private var first = 0

    var isEmpty: Bool { first == entries.count }
    var count: Int { entries.count - first }

    mutating func append(_ entry: Try) { entries.append(entry) }

    mutating func popFirst() -> Try? {
        guard first < entries.count else { return nil }
        defer {
            entries[first] = nil
            first += 1
            if first == entries.count || first > 4096 {
                entries.removeFirst(first)
                first = 0
            }
        }
        return entries[first]
    }

    mutating func mapAll(_ change: (inout Try) -> Bool) {
        var kept: [Try?] = []
        while var entry = popFirst() {
            if change(&entry) { kept.append(entry) }
        }
        entries = kept
        first = 0
    }
}

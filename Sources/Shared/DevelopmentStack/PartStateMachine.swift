/// When a part counts as stuck, how long it may take to stop, and how restarts are spaced. All in seconds.
public struct SupervisionPolicy: Hashable, Sendable {
    public var startLimit: Double
    /// From SIGTERM to SIGKILL.
    public var grace: Double
    public var firstBackOff: Double
    public var longestBackOff: Double
    /// After running this long a part's earlier crashes are forgotten.
    public var stableAfter: Double

    public init(
        startLimit: Double = 60,
        grace: Double = 20,
        firstBackOff: Double = 0.5,
        longestBackOff: Double = 30,
        stableAfter: Double = 60
    ) {
        self.startLimit = startLimit
        self.grace = grace
        self.firstBackOff = firstBackOff
        self.longestBackOff = longestBackOff
        self.stableAfter = stableAfter
    }

    /// Doubles with every crash in a row, up to the longest. One supervisor restarts few parts: no jitter is needed.
    public func backOff(afterCrashes crashes: Int) -> Double {
        var delay = firstBackOff
        for _ in 1..<max(1, min(crashes, 32)) { delay = min(delay * 2, longestBackOff) }
        return min(delay, longestBackOff)
    }
}

/// The life of one part of the stack, as a pure machine: events and times go in, actions come out.
public struct PartStateMachine: Hashable, Sendable {
    public enum State: Hashable, Sendable {
        case idle
        case starting(since: Double)
        case running(since: Double)
        /// Crashed; starts again at that time.
        case backingOff(until: Double)
        case stopping(killAt: Double)
        /// Stuck in its start: being killed, then tried again.
        case killing
        case stopped
    }

    public enum Action: Hashable, Sendable {
        case none
        case start
        case announceReady(after: Double)
        /// It was running before: say so, and when it is tried again.
        case announceCrash(restartIn: Double)
        /// It never became ready: the whole start has failed.
        case giveUp
        case terminate
        case kill
        case announceStopped
    }

    public private(set) var state: State = .idle
    private let policy: SupervisionPolicy
    private var crashes = 0
    private var hasBeenReady = false

    public init(policy: SupervisionPolicy) {
        self.policy = policy
    }

    public var isRunning: Bool {
        if case .running = state { return true }
        return false
    }

    public var isStopped: Bool { state == .stopped || state == .idle }

    /// Whether it is worth asking the part if it is ready.
    public var awaitsReadiness: Bool {
        if case .starting = state { return true }
        return false
    }

    public mutating func start(at now: Double) -> Action {
        switch state {
        case .idle, .stopped:
            state = .starting(since: now)
            return .start
        case .starting, .running, .backingOff, .stopping, .killing: return .none
        }
    }

    public mutating func becameReady(at now: Double) -> Action {
        guard case .starting(let since) = state else { return .none }
        state = .running(since: now)
        hasBeenReady = true
        return .announceReady(after: now - since)
    }

    /// The process has ended, or could not be started at all.
    public mutating func ended(at now: Double) -> Action {
        switch state {
        case .idle, .stopped, .backingOff: return .none
        case .stopping:
            state = .stopped
            return .announceStopped
        case .starting, .killing: return crashed(at: now)
        case .running(let since):
            if now - since >= policy.stableAfter { crashes = 0 }
            return crashed(at: now)
        }
    }

    private mutating func crashed(at now: Double) -> Action {
        guard hasBeenReady else {
            state = .stopped
            return .giveUp
        }
        crashes += 1
        let delay = policy.backOff(afterCrashes: crashes)
        state = .backingOff(until: now + delay)
        return .announceCrash(restartIn: delay)
    }

    public mutating func stop(at now: Double) -> Action {
        switch state {
        case .idle, .stopped, .stopping: return .none
        case .backingOff:
            state = .stopped
            return .announceStopped
        case .starting, .running, .killing:
            state = .stopping(killAt: now + policy.grace)
            return .terminate
        }
    }

    /// What is due by now. Call it a few times a second.
    public mutating func tick(at now: Double) -> Action {
        switch state {
        case .idle, .running, .stopped, .killing: return .none
        case .starting(let since):
            guard now - since >= policy.startLimit else { return .none }
            state = .killing
            return .kill
        case .backingOff(let until):
            guard now >= until else { return .none }
            state = .starting(since: now)
            return .start
        case .stopping(let killAt):
            guard now >= killAt else { return .none }
            // Once; the kernel does the rest.
            state = .stopping(killAt: .infinity)
            return .kill
        }
    }

    /// The person who waits has no patience left: the grace period ends now.
    public mutating func hurry() -> Action {
        guard case .stopping = state else { return .none }
        state = .stopping(killAt: .infinity)
        return .kill
    }
}

internal import Domain
internal import Observability
internal import Postgres
internal import Push
internal import ServiceRuntime
internal import Storage
internal import WakeRules

/// One worker's turns: look at what all share, scan and claim, hand over to the sender, write down how wakes ended.
/// Belongs to one thread.
final class WakeWork {
    struct Settings: Sendable {
        var policy: WakePolicy
        var worker: UUID128
        var batch: Int
        var ratePerSecond: Int
        var leaseSeconds: Int
        var logSeconds: Int
        /// Lanes that this worker has no credential for.
        var missingLanes: [String] = []
        /// Claims under way at once.
        var mostUnderWay = 4000
    }

    /// What a turn found.
    struct Turn {
        /// Whether there is more to scan at once.
        var hasMore = false
        /// Whether somebody waits for the rate alone.
        var isPaced = false
        var isBusy = false
    }

    private let settings: Settings
    private let store: WakeStore
    private let deactivate: ([(token: WakeToken, asOf: Instant)]) throws -> Void
    private let dispatcher: WakeDispatcher
    private let sender: any PushSending
    private let metrics: WakeMetrics
    private let log: Log
    private let time: any TimeSource
    /// What has been done so far.
    private(set) var once = WakeServer.Once()
    private var resumes: Int64?
    private var stopCodes: Set<String> = []
    /// Ends that could not be written yet.
    private var ends: [WakeEnd] = []
    private var dead: [(token: WakeToken, asOf: Instant)] = []
    private var newStops: [WakeStop] = []
    /// Of the database's clock, beside the one that also runs while frozen.
    private var clock = ClockWatch()
    /// Jumps that are not written down yet.
    private var jumps: [(jump: ClockJump, lastSeen: Instant)] = []

    init(
        settings: Settings,
        store: WakeStore,
        deactivate: @escaping ([(token: WakeToken, asOf: Instant)]) throws -> Void,
        dispatcher: WakeDispatcher,
        sender: any PushSending,
        metrics: WakeMetrics,
        log: Log,
        time: any TimeSource
    ) {
        self.settings = settings
        self.store = store
        self.deactivate = deactivate
        self.dispatcher = dispatcher
        self.sender = sender
        self.metrics = metrics
        self.log = log
        self.time = time
    }

    /// One turn.
    ///
    /// - Parameter claims: false while the process drains: nothing new is claimed.
    /// - Returns: whether there is more to do at once.
    /// - Throws: where the database failed; nothing that has to be written is forgotten.
    func turn(claims: Bool) throws -> Turn {
        var turn = Turn()
        // What is claimed has to be sent and what has ended be written, whatever keeps others from being claimed.
        var failure: (any Error)?
        do {
            if claims { try claim(&turn) }
        } catch {
            failure = error
        }
        turn.isBusy = dispatcher.handOver(to: sender)
        do {
            try writeEnds()
        } catch {
            throw failure ?? error
        }
        if let failure { throw failure }
        metrics.underWay.set(dispatcher.underWay)
        turn.isBusy = turn.isBusy || dispatcher.underWay > 0 || !ends.isEmpty
        return turn
    }

    var isIdle: Bool { dispatcher.underWay == 0 && ends.isEmpty }

    // MARK: Claiming

    private func claim(_ turn: inout Turn) throws {
        // Read before the database is asked, so that the lease is never thought longer than it is.
        let leaseStart = time.bootNanoseconds()
        let shared = try store.shared(ownClock: time.wallMicroseconds(), retentionSeconds: settings.logSeconds)
        var pipeline = shared.pipeline
        pipeline.isClockSteady = try watchClock(shared.now, since: leaseStart)
        note(shared, pipeline)
        if let cause = try heldBackForAll(shared, pipeline) {
            metrics.heldBack(cause, 1)
            once.heldBack = cause
            return
        }
        pipeline.stops += settings.missingLanes.map {
            WakeStop(lane: $0, topic: nil, code: PushOutcome.notSent(.notConfigured).code, until: nil)
        }
        let room = max(0, min(settings.batch, settings.mostUnderWay - dispatcher.underWay))
        let granted = try store.takePace(room, perSecond: settings.ratePerSecond, now: shared.now)
        let round = WakeRound(
            policy: settings.policy,
            pipeline: pipeline,
            leaseSeconds: settings.leaseSeconds,
            worker: settings.worker
        )
        let started = time.monotonicNanoseconds()
        let scan = try store.scan(limit: settings.batch, wakes: granted, round, now: shared.now)
        metrics.scanSeconds.observe(nanoseconds: time.monotonicNanoseconds() - started)
        // Before anything that may fail: what is committed has to be sent.
        dispatcher.take(
            scan.claims,
            deadline: leaseStart + Int64(settings.leaseSeconds) * 1_000_000_000 * 9 / 10,
            expiration: shared.now.advanced(bySeconds: min(settings.policy.spacingSeconds, WakeRule.spacingSeconds))
        )
        note(scan)
        if scan.claims.count < granted {
            _ = try store.takePace(
                scan.claims.count - granted,
                perSecond: settings.ratePerSecond,
                now: shared.now
            )
        }
        turn.hasMore = scan.candidates >= settings.batch && scan.overPace == 0
        turn.isPaced = scan.overPace > 0
    }

    /// Compares the clocks. Returns whether the database's is one to decide by.
    private func watchClock(_ now: Instant, since before: Int64) throws -> Bool {
        let after = time.bootNanoseconds()
        if let seen = clock.look(now, between: before, and: after) {
            metrics.clockJumps.increment()
            log.error(
                "the database's clock has jumped: nobody is woken until it has been steady for a while; put NTP right",
                [.skewMilliseconds: .integer(Int(clamping: seen.jump.by / 1000))]
            )
            jumps.append(seen)
        }
        while let (jump, lastSeen) = jumps.first {
            try store.note(jump, lastSeen: lastSeen, settings.policy)
            jumps.removeFirst()
        }
        return clock.isSteady(at: after)
    }

    /// What keeps everybody from being woken: then nobody is looked at either, and no row is written.
    private func heldBackForAll(_ shared: WakeShared, _ pipeline: PipelineState) throws -> WakeCondition.Name? {
        guard pipeline.isClockGood else { return .clock }
        try store.note(shared)
        // Nobody's rows are up to date: there is nothing to be learnt from looking at any.
        if pipeline.isBehindEverywhere(at: shared.now, settings.policy) {
            try store.noteNothingGetsIn(pipeline, now: shared.now)
            return .applied
        }
        return pipeline.heldBackForAll
    }

    private func note(_ shared: WakeShared, _ pipeline: PipelineState) {
        let oldest = pipeline.appliedThrough.values.min() ?? 0
        metrics.lagSeconds.set(max(0, (Double(shared.now.microseconds) - Double(oldest)) / 1_000_000))
        metrics.doorShut.set(pipeline.door.isShut ? 1 : 0)
        metrics.paused.set(pipeline.pausedAt == nil ? 0 : 1)
        metrics.clockGood.set(pipeline.isClockGood ? 1 : 0)
        stopCodes = metrics.note(stops: pipeline.stops, was: stopCodes)
        if let resumes, resumes != shared.resumes {
            log.info("an operator has resumed wakes; stops are forgotten")
            sender.resume()
        }
        resumes = shared.resumes
    }

    private func note(_ scan: WakeScan) {
        once.candidates += scan.candidates
        for (reason, count) in scan.heldBack { once.byOutcome["held back: \(reason.rawValue)", default: 0] += count }
        once.byOutcome["not due"] = (once.byOutcome["not due"] ?? 0) + scan.postponed + scan.parked
        metrics.candidates.add(scan.candidates)
        metrics.due.add(scan.due)
        metrics.claimed.add(scan.claims.count)
        metrics.settled.add(scan.settled)
        for (reason, count) in scan.heldBack { metrics.heldBack(reason, count) }
        if scan.unreadable > 0 {
            metrics.unreadable.add(scan.unreadable)
            log.error(
                "rows of device_tokens can't be read and are passed over; look for an unknown platform or environment",
                [.count: .integer(scan.unreadable)]
            )
        }
        if scan.settled > 0 {
            log.warning("claims of a late or dead worker are settled as unknown", [.count: .integer(scan.settled)])
        }
    }

    // MARK: Ends

    private func writeEnds() throws {
        let collected = dispatcher.collect()
        let now = clock.time(at: time.bootNanoseconds())
        for tally in collected.finished {
            ends.append(tally.end(now: now))
            dead += tally.dead(now: now)
        }
        dead += collected.released
        for alarm in collected.alarms { heed(alarm) }
        // Stops first: whoever is looked at again because of them should find them.
        while let stop = newStops.first {
            try store.addStop(stop, now: now)
            newStops.removeFirst()
        }
        // Tokens before the ends that make their users due again.
        if !dead.isEmpty {
            try deactivate(dead)
            metrics.deactivated.add(dead.count)
            dead = []
        }
        while !ends.isEmpty {
            let part = Array(ends.prefix(1000))
            let done = try store.conclude(part, settings.policy, now: now)
            ends.removeFirst(part.count)
            metrics.refused.add(done.refused.count)
            for end in part {
                metrics.ended(end.kind.word)
                once.byOutcome[end.outcome, default: 0] += 1
            }
            if !done.refused.isEmpty {
                log.warning(
                    "outcomes came after their lease; nothing was written",
                    [.count: .integer(done.refused.count)]
                )
            }
        }
    }

    private func heed(_ alarm: PushAlarm) {
        log.error("a push server needs attention", [.reason: .text("\(alarm)"), .code: .text(alarm.code.rawValue)])
        guard alarm.stops else { return }
        newStops.append(
            WakeStop(lane: alarm.lane.rawValue, topic: alarm.topic, code: alarm.code.rawValue, until: nil)
        )
    }
}

extension WakeEnd.Kind {
    var word: String {
        switch self {
        case .accepted: "accepted"
        case .unknown: "unknown"
        case .notSpent: "not_spent"
        case .waits: "waits"
        }
    }
}

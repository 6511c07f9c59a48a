public import Domain

/// One condition of a wake, with the figures that it was decided by.
public struct WakeCondition: Hashable, Sendable {
    public enum Name: String, CaseIterable, Sendable {
        /// No claim of another worker is open.
        case unclaimed
        /// An on-device source is connected.
        case connected
        /// There is a live device token.
        case token
        /// The last push of a phone is old enough.
        case lastPush = "last_push"
        /// The last wake is old enough.
        case lastWake = "last_wake"
        /// It is the user's turn in the schedule of sends.
        case schedule
        /// It is not the user's night.
        case quietHours = "quiet_hours"
        /// The workers are up to date with the user's records.
        case applied
        /// The door answers most write requests.
        case door
        /// No operator has paused wakes.
        case running
        /// The push server of one of the tokens may be sent to.
        case sendable
        /// The clocks agree.
        case clock
    }

    public let name: Name
    public let holds: Bool
    public let figures: WakeFigures
    /// When it holds by itself: in the past where it does, nil where only an event or a person can mend it.
    public let from: Instant?
}

/// Whether to wake a user now, and why: pure, of the facts and the time alone.
public struct WakeDecision: Hashable, Sendable {
    public enum Action: Hashable, Sendable {
        /// Send to these.
        case wake([WakeToken])
        /// Look again then; nothing before can change it but what brings the row forward by itself.
        case wait(until: Instant)
        /// Until an event brings the row forward.
        case never
    }

    public let action: Action
    public let conditions: [WakeCondition]
    /// The row after what had to be settled first: an open claim whose lease has ended.
    public let schedule: WakeSchedule
    public let settlesClaim: Bool
    /// The first condition that does not hold.
    public var reason: WakeCondition.Name? { conditions.first { !$0.holds }?.name }
    /// Why a user who is due is not woken, where the cause is on our side.
    public var heldBack: WakeCondition.Name? {
        guard case .wait = action, conditions.allSatisfy({ $0.holds || $0.name.isOurs }) else { return nil }
        return reason
    }

    /// Decides.
    ///
    /// - Parameters:
    ///   - facts: of the user.
    ///   - pipeline: how our side is.
    ///   - policy: the figures to decide by.
    ///   - now: the database's time.
    public init(_ facts: WakeFacts, _ pipeline: PipelineState, _ policy: WakePolicy, now: Instant) {
        let spacing = WakeSpacing(facts, pipeline, policy, now: now)
        schedule = spacing.schedule
        settlesClaim = spacing.settlesClaim

        var checks = Checks(now: now)
        checks.time(.unclaimed, from: spacing.claimEnd ?? now, .claim(until: spacing.claimEnd))
        let connected = facts.connections.count(where: \.isConnected)
        checks.fact(.connected, connected > 0, .connected(connected, of: facts.connections.count))
        checks.fact(.token, !facts.tokens.isEmpty, .tokens(facts.tokens.count))
        checks.time(.lastPush, from: spacing.pushDue, .lastPush(facts.lastPushAt))
        let unanswered = schedule.unanswered
        checks.time(.lastWake, from: spacing.wakeDue, .lastWake(spacing.lastWake, unanswered: unanswered))

        let early = spacing.action(facts.user, policy, now)
        guard let spaced = spacing.due, let tokenSince = facts.tokens.map(\.registered.instant).min() else {
            checks.ours(facts, pipeline, policy)
            action = early ?? .never
            conditions = checks.all
            return
        }
        let due = max(spaced, tokenSince)
        let turn = policy.turn(notBefore: due, now: now, facts)
        let quiet = WakeFigures.quiet(policy.quietHours, minutesFromUTC: facts.secondsFromUTC / 60)
        checks.time(.quietHours, from: turn.quietUntil ?? now, quiet)
        checks.time(.schedule, from: turn.sendAt, .turn(turn.sendAt, policy.schedule))
        let sendable = checks.ours(facts, pipeline, policy)
        conditions = checks.all

        let afterQuiet = turn.quietUntil.map { policy.schedule.first(notBefore: $0, for: facts.user) }
        let natural = max(due, turn.sendAt, afterQuiet ?? due)
        if let early {
            action = early
        } else if natural > now {
            action = .wait(until: natural)
        } else if let held = checks.firstFailure {
            action = .wait(until: Self.next(after: held, facts.user, policy, now))
        } else {
            action = .wake(sendable)
        }
    }

    /// Who is due while we are the cause is looked at again after some minutes, each user at another moment; where
    /// there is no credential for any of their devices, which no minutes will mend, after a spacing.
    private static func next(
        after held: WakeCondition,
        _ user: UserID,
        _ policy: WakePolicy,
        _ now: Instant
    ) -> Instant {
        var pause: Int64 = held.name == .running || held.name == .sendable ? 600_000_000 : 180_000_000
        let spread = Int64(user.scattered >> 16 & 0xffff) * (pause / 2) / 0xffff
        if case .stops(let stops) = held.figures, stops.allSatisfy({ $0.code == WakeStop.notConfigured }) {
            pause = Int64(policy.spacingSeconds) * 1_000_000
        }
        let again = Instant(microseconds: now.microseconds.advancedSaturating(by: pause + spread))
        return held.from.map { max($0, now.advanced(bySeconds: 1)) }.map { min($0, again) } ?? again
    }
}

extension WakeCondition.Name {
    /// The cause is on our side, not the user's.
    public var isOurs: Bool {
        switch self {
        case .applied, .door, .running, .sendable, .clock: true
        case .unclaimed, .connected, .token, .lastPush, .lastWake, .schedule, .quietHours: false
        }
    }
}

/// Conditions as they are looked at.
private struct Checks {
    let now: Instant
    private(set) var all: [WakeCondition] = []

    init(now: Instant) {
        self.now = now
    }

    var firstFailure: WakeCondition? { all.first { !$0.holds } }

    mutating func fact(_ name: WakeCondition.Name, _ holds: Bool, _ figures: WakeFigures, until: Instant? = nil) {
        all.append(WakeCondition(name: name, holds: holds, figures: figures, from: holds ? now : until))
    }

    mutating func time(_ name: WakeCondition.Name, from: Instant?, _ figures: WakeFigures) {
        all.append(WakeCondition(name: name, holds: from.map { $0 <= now } ?? false, figures: figures, from: from))
    }

    /// The conditions on our side. Returns the tokens whose servers may be sent to.
    @discardableResult
    mutating func ours(_ facts: WakeFacts, _ pipeline: PipelineState, _ policy: WakePolicy) -> [WakeToken] {
        let applied = pipeline.appliedThrough(bucket: facts.bucket)
        let isApplied = applied.map { $0.advanced(bySeconds: policy.lagSeconds) >= now } ?? false
        fact(.applied, isApplied, .applied(applied))
        let door = pipeline.door
        fact(.door, !door.isShut, .door(door))
        fact(.running, pipeline.pausedAt == nil, .paused(since: pipeline.pausedAt))
        guard !pipeline.stops.isEmpty else {
            fact(.sendable, true, .stops([]))
            fact(.clock, pipeline.isClockGood, .clock(milliseconds: pipeline.clockSkewMilliseconds))
            return facts.tokens
        }
        let sendable = facts.tokens.filter { token in !pipeline.stops.contains { $0.covers(token, at: now) } }
        let covering = pipeline.stops.filter { stop in facts.tokens.contains { stop.covers($0, at: now) } }
        let ends = covering.map { $0.until }
        let until = ends.contains { $0 == nil } ? nil : ends.compactMap { $0 }.min()
        let isSendable = !sendable.isEmpty || facts.tokens.isEmpty
        fact(.sendable, isSendable, .stops(covering), until: until)
        fact(.clock, pipeline.isClockGood, .clock(milliseconds: pipeline.clockSkewMilliseconds))
        return sendable
    }
}

extension WakePolicy {
    /// When the user's turn comes, once all of their own conditions hold; and the end of the quiet hours that are now,
    /// if any are.
    fileprivate func turn(notBefore due: Instant, now: Instant, _ facts: WakeFacts) -> (
        sendAt: Instant, quietUntil: Instant?
    ) {
        var sendAt = schedule.first(notBefore: due, for: facts.user)
        guard let quietHours else { return (sendAt, nil) }
        // A turn that falls into the quiet hours is passed on to the first behind them.
        if let end = quietHours.end(around: sendAt, secondsFromUTC: facts.secondsFromUTC) {
            sendAt = schedule.first(notBefore: end, for: facts.user)
        }
        return (sendAt, quietHours.end(around: now, secondsFromUTC: facts.secondsFromUTC))
    }
}

extension PipelineState {
    /// A time of the schedule's as the database's present clock would have named it; of two jumps one counts for both.
    func presentTime(of time: Int64, _ now: Instant) -> Instant {
        guard let jumped = clockJump?.presentTime(of: time) else { return Instant(microseconds: time) }
        return Instant(microseconds: min(jumped, max(time, now.microseconds)))
    }
}

extension WakeSchedule {
    /// A wake whose answer could not get in, because the door was shut at some time of the spacing behind it, does not
    /// count as unanswered.
    mutating func forgive(_ pipeline: PipelineState, by policy: WakePolicy, _ now: Instant) {
        guard let last = pipeline.doorShutAt, unanswered > 0, struckAt != 0 else { return }
        let struck = pipeline.presentTime(of: struckAt, now).microseconds
        guard last.microseconds >= struck,
            (pipeline.doorShutSince ?? last).microseconds < policy.due(afterWake: struck, unanswered: 0)
        else { return }
        unanswered -= 1
        struckAt = 0
    }

    /// A clock that was put back leaves times that it has not come to yet: they count as the present, or a user would
    /// be left alone until it has.
    mutating func clamp(to now: Instant) {
        let latest = now.advanced(bySeconds: 300)
        if isClaimed {
            let lease = latest.advanced(bySeconds: WakeRule.longestLeaseSeconds).microseconds
            claimedUntil = min(claimedUntil, lease)
        } else if lastWakeAt > latest.microseconds {
            // Of an open claim it is the wake's name.
            lastWakeAt = now.microseconds
        }
        if previousWakeAt > latest.microseconds { previousWakeAt = now.microseconds }
        if struckAt > latest.microseconds { struckAt = now.microseconds }
    }
}

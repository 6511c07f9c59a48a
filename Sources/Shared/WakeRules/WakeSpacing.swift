public import Domain

/// What pushes and wakes say about when a user may be woken. No device token is asked for it: for most who are looked at
/// it decides alone.
struct WakeSpacing {
    /// The row after what had to be settled first.
    let schedule: WakeSchedule
    let settlesClaim: Bool
    /// The lease of an open claim.
    let claimEnd: Instant?
    /// By the present clock.
    let lastWake: Instant?
    /// When the last push of a phone, and the last wake, will be old enough.
    let pushDue: Instant?
    let wakeDue: Instant
    /// When both will be; nil while no on-device source is connected.
    let due: Instant?

    init(_ facts: WakeFacts, _ pipeline: PipelineState, _ policy: WakePolicy, now: Instant) {
        var schedule = facts.schedule
        settlesClaim = schedule.isClaimed && schedule.claimedUntil <= now.microseconds
        if settlesClaim { schedule.settle(by: policy) }
        schedule.clamp(to: now)
        schedule.forgive(pipeline, by: policy, now)
        let lastPush = facts.lastPushAt
        let lastWake = schedule.lastWakeAt == 0 ? nil : pipeline.presentTime(of: schedule.lastWakeAt, now)
        // Whoever has pushed since the last wake owes no answer.
        if let lastPush, WakeRule.answers(before: lastPush) > lastWake ?? .earliest { schedule.unanswered = 0 }
        self.schedule = schedule
        self.lastWake = lastWake
        claimEnd = schedule.isClaimed ? Instant(microseconds: schedule.claimedUntil) : nil
        let pushDue = lastPush?.advanced(bySeconds: policy.spacingSeconds)
        let wakeDue = lastWake?.advanced(bySeconds: policy.spacing(unanswered: schedule.unanswered)) ?? .earliest
        self.pushDue = pushDue
        self.wakeDue = wakeDue
        due = facts.connections.contains(where: \.isConnected) ? pushDue.map { max($0, wakeDue) } : nil
    }

    /// What follows whatever tokens there are; nil where they decide. Who is fresh waits for their first turn without
    /// regard to quiet hours, which are those of a token's zone: a lower bound.
    func action(_ user: UserID, _ policy: WakePolicy, _ now: Instant) -> WakeDecision.Action? {
        if let claimEnd { return .wait(until: claimEnd) }
        guard let due else { return .never }
        return due > now ? .wait(until: policy.schedule.first(notBefore: due, for: user)) : nil
    }
}

extension WakeFacts {
    /// Whether the decision depends on device tokens, so that they have to be read. Where it does not, it is the same
    /// with any and with none: the action, the row, and that no cause of ours holds back. Only a condition of it may
    /// then be shown otherwise.
    public func needTokens(_ pipeline: PipelineState, _ policy: WakePolicy, now: Instant) -> Bool {
        WakeSpacing(self, pipeline, policy, now: now).action(user, policy, now) == nil
    }
}

public import Domain
public import Postgres
public import WakeRules

/// Wakes in the database: who is due, claims, and how they ended. Owned by one thread.
///
/// Every decision is made from rows that were read again behind the lock of their account, in a statement of its own.
public final class WakeStore {
    /// The seconds that a zone is east of UTC at a moment; nil for a name that is no zone.
    public typealias ZoneOffset = (String, Instant) -> Int?

    let connection: PostgresConnection
    let topic: String
    let offset: ZoneOffset
    private var prepared: [String: PostgresPrepared] = [:]

    /// - Parameters:
    ///   - connection: with the settings of `BatchStore.sessionSettings`.
    ///   - topic: the live topic's name, prefix included.
    ///   - zoneOffset: for quiet hours.
    public init(_ connection: PostgresConnection, topic: String, zoneOffset: @escaping ZoneOffset) {
        self.connection = connection
        self.topic = topic
        offset = zoneOffset
    }

    public func reconnect() throws(PostgresError) {
        prepared = [:]
        try connection.reconnect()
    }

    public func disconnect() {
        connection.close()
    }

    public var isBroken: Bool { connection.isBroken }

    func prepare(_ name: String, _ sql: String) throws(PostgresError) -> PostgresPrepared {
        if let held = prepared[name] { return held }
        let made = try connection.prepare(name, sql)
        prepared[name] = made
        return made
    }

    // MARK: Claiming

    /// One scan: looks at the users whose time has come, and claims those who are to be woken. What it returns is
    /// committed; whatever becomes of this process, nobody wakes these users again within their spacing.
    ///
    /// - Parameters:
    ///   - limit: how many users are looked at.
    ///   - wakes: how many may be claimed.
    ///   - rules: what to decide by.
    ///   - now: the database's time.
    /// - Returns: what was done.
    /// - Throws: `PostgresError` or `StorageError`; nothing is claimed then, unless the connection was lost while the
    ///   COMMIT was on its way. Such claims are settled by time.
    public func scan(limit: Int, wakes: Int, _ rules: WakeRound, now: Instant) throws -> WakeScan {
        do {
            return try scanOnce(limit: limit, wakes: wakes, rules, now: now)
        } catch {
            rollback()
            throw error
        }
    }

    private func scanOnce(limit: Int, wakes: Int, _ rules: WakeRound, now: Instant) throws -> WakeScan {
        var parameters = PostgresParameters()
        parameters.append(int8: now.microseconds)
        parameters.append(int4: Int32(clamping: limit))
        let lock = try prepare("wake_lock_candidates", WakeStatements.lockCandidates)
        let locked = try connection.pipeline { pipeline in
            pipeline.begin()
            pipeline.execute(lock, parameters)
        }
        let accounts = try Self.accounts(locked[1])
        var scan = WakeScan()
        guard !accounts.isEmpty else {
            rollback()
            return scan
        }
        let (facts, unreadable) = try readFacts(accounts, rules, now: now, tokens: .whoNeedsThem)
        scan.unreadable = unreadable
        var writes = WakeWrites()
        for facts in facts where facts.schedule.dueAt <= now.microseconds {
            scan.candidates += 1
            decide(facts, rules, wakes, now, &scan, &writes)
        }
        try write(writes, rules, now)
        return scan
    }

    private func decide(
        _ facts: LockedFacts,
        _ rules: WakeRound,
        _ wakes: Int,
        _ now: Instant,
        _ scan: inout WakeScan,
        _ writes: inout WakeWrites
    ) {
        let decision = WakeDecision(facts.facts, rules.pipeline, rules.policy, now: now)
        var schedule = decision.schedule
        let user = facts.user
        if decision.settlesClaim {
            scan.settled += 1
            writes.settled.append((user, facts.schedule.lastWakeAt))
        }
        switch decision.action {
        case .wake(let tokens):
            guard scan.claims.count < wakes else {
                scan.overPace += 1
                if decision.settlesClaim { writes.schedules.append(facts.row(schedule)) }
                return
            }
            schedule.open(at: now, leaseSeconds: rules.leaseSeconds)
            let claim = WakeClaim(user: user, wakeAt: now.microseconds, number: schedule.claim, tokens: tokens)
            scan.claims.append(claim)
            writes.tokens[user] = tokens
            if facts.openWakeAt == 0 { writes.openWakes.append((user, now.microseconds)) }
        case .wait(let until):
            if let held = decision.heldBack { scan.heldBack[held, default: 0] += 1 } else { scan.postponed += 1 }
            schedule.dueAt = until.microseconds
        case .never:
            scan.parked += 1
            schedule.dueAt = WakeSchedule.never
        }
        writes.schedules.append(facts.row(schedule))
    }

    /// Everything a scan writes, and its COMMIT, in one round trip.
    private func write(_ writes: WakeWrites, _ rules: WakeRound, _ now: Instant) throws {
        let update = try prepare("wake_update_schedules", WakeStatements.updateSchedules)
        let insert = try prepare("wake_insert_sends", WakeStatements.insertSends)
        let open = try prepare("wake_update_open", WakeStatements.updateOpenWakes)
        let conclude = try prepare("wake_conclude_sends", WakeStatements.concludeSends)
        let claimed = writes.schedules.filter { $0.schedule.isClaimed && $0.schedule.lastWakeAt == now.microseconds }
        let results = try connection.pipeline { pipeline in
            if !writes.settled.isEmpty {
                let ended = writes.settled.map { (user: $0.user, wakeAt: $0.wakeAt, outcome: "unknown") }
                pipeline.execute(conclude, Self.parameters(ended, now))
            }
            if !writes.schedules.isEmpty { pipeline.execute(update, Self.parameters(writes.schedules)) }
            if !claimed.isEmpty { pipeline.execute(insert, Self.parameters(claims: claimed, rules, writes.tokens)) }
            if !writes.openWakes.isEmpty { pipeline.execute(open, Self.parameters(open: writes.openWakes)) }
            pipeline.commit()
        }
        guard results.last?.isCommitted == true else { throw StorageError.rolledBack }
        if !writes.schedules.isEmpty {
            try requireUpdated(results[writes.settled.isEmpty ? 0 : 1], writes.schedules.count)
        }
    }

    /// Who writes rows of the schedule holds their accounts' locks, so that they lie where they were read a moment
    /// before. Should somebody not, no claim may be taken for written that is not: what is, is settled by time.
    private func requireUpdated(_ result: PostgresResult, _ count: Int) throws(StorageError) {
        guard result.affectedRows == count else { throw .movedSchedule }
    }

    // MARK: Concluding

    /// Writes how wakes ended. An end whose claim is no longer open, or is somebody else's, changes nothing.
    ///
    /// - Parameters:
    ///   - ends: at most one for each claim.
    ///   - policy: the spacings.
    ///   - now: the database's time.
    /// - Returns: how many were written, and which were refused.
    /// - Throws: `PostgresError` or `StorageError`; nothing was written then, or all of it.
    public func conclude(_ ends: [WakeEnd], _ policy: WakePolicy, now: Instant) throws -> WakeConclusions {
        guard !ends.isEmpty else { return WakeConclusions() }
        do {
            return try concludeOnce(ends, policy, now: now)
        } catch {
            rollback()
            throw error
        }
    }

    private func concludeOnce(_ ends: [WakeEnd], _ policy: WakePolicy, now: Instant) throws -> WakeConclusions {
        let sorted = ends.sorted { $0.claim.user < $1.claim.user }
        let users = Self.array(sorted.map(\.claim.user))
        var wakes = PostgresArray(of: .int8)
        for end in sorted { wakes.append(int8: end.claim.wakeAt) }
        var one = PostgresParameters()
        one.append(users)
        var two = PostgresParameters()
        two.append(users)
        two.append(wakes)
        let lock = try prepare("wake_lock_accounts", WakeStatements.lockAccounts)
        let schedules = try prepare("wake_schedules", WakeStatements.schedules)
        let answers = try prepare("wake_answers", WakeStatements.answers)
        let results = try connection.pipeline { pipeline in
            pipeline.begin()
            pipeline.execute(lock, one)
            pipeline.sync()
            pipeline.execute(schedules, one)
            pipeline.execute(answers, two)
        }
        var open: [UserID: Int64] = [:]
        for account in try Self.accounts(results[1]) { open[account.user] = account.openWakeAt }
        let held = try Self.schedules(results[2])
        var answered: [UserID: Bool] = [:]
        for row in 0..<results[3].rowCount { answered[try Self.user(results[3], row)] = try !results[3].isNull(row, 1) }

        var done = WakeConclusions()
        var writes = WakeWrites()
        var ended: [(user: UserID, wakeAt: Int64, outcome: String)] = []
        for end in sorted {
            let claim = end.claim
            guard var row = held[claim.user], let isAnswered = answered[claim.user],
                row.schedule.conclude(end.conclusion(isAnswered), claim: claim.number, wakeAt: claim.wakeAt, by: policy)
            else {
                done.refused.append(claim)
                continue
            }
            done.written += 1
            writes.schedules.append(row)
            ended.append((claim.user, claim.wakeAt, end.outcome))
            if case .notSpent = end.kind, open[claim.user] == claim.wakeAt { writes.openWakes.append((claim.user, 0)) }
        }
        let update = try prepare("wake_update_schedules", WakeStatements.updateSchedules)
        let conclude = try prepare("wake_conclude_sends", WakeStatements.concludeSends)
        let reopen = try prepare("wake_update_open", WakeStatements.updateOpenWakes)
        let written = try connection.pipeline { pipeline in
            if !ended.isEmpty {
                pipeline.execute(update, Self.parameters(writes.schedules))
                pipeline.execute(conclude, Self.parameters(ended, now))
            }
            if !writes.openWakes.isEmpty { pipeline.execute(reopen, Self.parameters(open: writes.openWakes)) }
            pipeline.commit()
        }
        guard written.last?.isCommitted == true else { throw StorageError.rolledBack }
        if !ended.isEmpty { try requireUpdated(written[0], ended.count) }
        return done
    }

    func rollback() {
        guard !connection.isBroken, connection.transactionStatus != .idle else { return }
        do throws(PostgresError) {
            try connection.simpleQuery("ROLLBACK")
        } catch {
            // The session is in a state that nobody knows: without it there is no transaction either.
            connection.close()
        }
    }
}

extension WakeEnd {
    func conclusion(_ isAnswered: Bool) -> WakeSchedule.Conclusion {
        switch kind {
        case .accepted: .accepted(isAnswered: isAnswered)
        case .unknown, .waits: .unknown
        case .notSpent(let retryAt): .notSpent(retryAt: Instant(microseconds: retryAt))
        }
    }
}

/// What a scan decides by, beside each user's facts.
public struct WakeRound: Sendable {
    public var policy: WakePolicy
    public var pipeline: PipelineState
    /// How long this worker may take to send what it claimed.
    public var leaseSeconds: Int
    /// Named in the record of each wake.
    public var worker: UUID128

    public init(policy: WakePolicy, pipeline: PipelineState, leaseSeconds: Int, worker: UUID128) {
        self.policy = policy
        self.pipeline = pipeline
        self.leaseSeconds = leaseSeconds
        self.worker = worker
    }

    func campaign(at now: Instant) -> Int64 { policy.schedule.campaign(at: now).microseconds }
}

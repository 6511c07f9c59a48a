public import Domain
public import Postgres
public import WakeRules

/// What all wake workers share, and how they find out whether our side works.
extension WakeStore {
    /// The database's clock: the one that decides, whatever a worker's own says.
    public func serverTime() throws(PostgresError) -> Instant {
        let time = try connection.execute(try prepare("wake_time", WakeStatements.serverTime))
        return Instant(microseconds: try time.int8(0, 0))
    }

    /// Reads how far the workers are, what the door answered, and what operators and other workers have stopped; what
    /// should be written down of it is left to `note`.
    ///
    /// - Parameters:
    ///   - ownClock: this machine's, in microseconds since 1970.
    ///   - retentionSeconds: how long the live topic keeps records.
    /// - Returns: all of it, as of one moment.
    /// - Throws: `PostgresError`.
    public func shared(ownClock: Int64, retentionSeconds: Int) throws(PostgresError) -> WakeShared {
        let now = try serverTime()
        var topicOnly = PostgresParameters()
        topicOnly.append(text: topic)
        var door = topicOnly
        door.append(int8: (now.microseconds - Int64(DoorCounts.windowSeconds) * 1_000_000) / 60_000_000)
        let statements = [
            try prepare("wake_applied", WakeStatements.applied),
            try prepare("wake_door", WakeStatements.door),
            try prepare("wake_counts", WakeStatements.partitionCounts),
            try prepare("wake_control", WakeStatements.control),
            try prepare("wake_stops", WakeStatements.stops),
            try prepare("wake_paused_credentials", WakeStatements.pausedCredentials),
        ]
        let results = try connection.pipeline { pipeline in
            pipeline.execute(statements[0], topicOnly)
            pipeline.execute(statements[1], door)
            pipeline.execute(statements[2], topicOnly)
            for statement in statements[3...] { pipeline.execute(statement) }
        }
        var applied: [Int32: Int64] = [:]
        for row in 0..<results[0].rowCount { applied[try results[0].int4(row, 0)] = try results[0].int8(row, 1) }
        let counts = DoorCounts(
            requests: results[1].rowCount == 0 ? 0 : Int(try results[1].int8(0, 0)),
            answered: results[1].rowCount == 0 ? 0 : Int(try results[1].int8(0, 1))
        )
        var history: [PipelineState.PartitionCount] = []
        for row in 0..<results[2].rowCount {
            history.append(.init(count: Int(try results[2].int4(row, 0)), since: try results[2].int8(row, 1)))
        }
        let present = PipelineState.presentCount(applied.keys)
        let isNew = !applied.isEmpty && !history.contains { $0.count == present }
        let control = results[3]
        guard control.rowCount == 1 else { throw PostgresError(message: "wake_control has lost its row; restore it") }
        let shutAt = try control.int8(0, 1)
        var pipeline = PipelineState(
            appliedThrough: applied,
            counts: PipelineState.counts(
                history: history,
                partitions: applied.keys,
                now: now,
                retentionSeconds: retentionSeconds
            ),
            door: counts,
            doorShutAt: shutAt == 0 ? nil : Instant(microseconds: shutAt),
            pausedAt: try control.isNull(0, 0) ? nil : Instant(microseconds: try control.int8(0, 0)),
            stops: try Self.stops(results[4], pausedCredentials: results[5], now: now)
        )
        let (skew, overflow) = ownClock.subtractingReportingOverflow(now.microseconds)
        pipeline.clockSkewMilliseconds = overflow ? .max : Int(skew / 1000)
        let shutSince = try control.int8(0, 3)
        if shutAt != 0, shutSince != 0 { pipeline.doorShutSince = Instant(microseconds: shutSince) }
        let notedAt = pipeline.doorShutAt
        if counts.isShut { pipeline.noteDoorShut(since: now, at: now) }
        let jump = ClockJump(through: Instant(microseconds: try control.int8(0, 4)), by: try control.int8(0, 5))
        if jump.by > 0 { pipeline.clockJump = jump }
        return WakeShared(
            pipeline: pipeline,
            resumes: try control.int8(0, 2),
            now: now,
            newPartitionCount: isNew ? present : nil,
            doorShutNotedAt: notedAt
        )
    }

    /// Writes down what later decisions need of what was read: a new number of partitions, and that the door is shut.
    /// For workers, once they trust the clocks.
    public func note(_ shared: WakeShared) throws(PostgresError) {
        if let count = shared.newPartitionCount {
            var parameters = PostgresParameters()
            parameters.append(text: topic)
            parameters.append(int4: Int32(clamping: count))
            parameters.append(int8: shared.now.microseconds)
            try connection.executeUnprepared(WakeStatements.addPartitionCount, parameters)
        }
        if shared.pipeline.door.isShut {
            try noteDoorShut(since: shared.now, shared.now, notedAt: shared.doorShutNotedAt)
        }
        // The clock was put back while nobody looked.
        let latest = shared.now.advanced(bySeconds: 86_400)
        if let jump = shared.pipeline.clockJump, jump.end > latest { try takeBackClockJump(now: shared.now) }
    }

    private func takeBackClockJump(now: Instant) throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.append(int8: now.microseconds)
        try connection.executeUnprepared(WakeStatements.takeBackClockJump, parameters)
    }

    /// Writes down that the database's clock went forward, so that no worker takes wakes of before for older than they
    /// are; or that it was put back, which takes back what went forward before.
    ///
    /// - Parameters:
    ///   - jump: as this worker saw it; whoever else saw the same one may have written it down already.
    ///   - lastSeen: what the clock said when this worker looked at it before.
    ///   - policy: the spacings.
    /// - Throws: `PostgresError`.
    public func note(_ jump: ClockJump, lastSeen: Instant, _ policy: WakePolicy) throws(PostgresError) {
        guard jump.by > 0 else { return try takeBackClockJump(now: jump.end) }
        var parameters = PostgresParameters()
        parameters.append(int8: lastSeen.microseconds)
        parameters.append(int8: jump.through.microseconds)
        // A century: sums of times stay within their type.
        parameters.append(int8: min(jump.by, 3_155_760_000_000_000))
        parameters.append(int8: Int64(max(policy.longSpacingSeconds, policy.spacingSeconds)) * 1_000_000)
        try connection.executeUnprepared(WakeStatements.noteClockJump, parameters)
    }

    private static func stops(
        _ stops: PostgresResult,
        pausedCredentials: PostgresResult,
        now: Instant
    ) throws(PostgresError) -> [WakeStop] {
        var found: [WakeStop] = []
        for row in 0..<stops.rowCount {
            let topic = try stops.text(row, 1)
            found.append(
                WakeStop(
                    lane: try stops.text(row, 0),
                    topic: topic.isEmpty ? nil : topic,
                    code: try stops.text(row, 2),
                    until: nil
                )
            )
        }
        // One key signs for both of Apple's worlds.
        if pausedCredentials.rowCount == 1, try !pausedCredentials.isNull(0, 0) {
            let until = Instant(microseconds: try pausedCredentials.int8(0, 0))
            guard until > now else { return found }
            for lane in ["apns_production", "apns_sandbox"] {
                found.append(WakeStop(lane: lane, topic: nil, code: "credential_paused", until: until))
            }
        }
        return found
    }

    /// Notes that nothing at all gets in or is applied: wakes that went unanswered meanwhile are forgiven.
    public func noteNothingGetsIn(_ pipeline: PipelineState, now: Instant) throws(PostgresError) {
        guard let newest = pipeline.newestApplied else { return }
        try noteDoorShut(since: min(newest, now), now, notedAt: pipeline.doorShutAt)
    }

    /// Once a minute is enough.
    private func noteDoorShut(since: Instant, _ now: Instant, notedAt: Instant?) throws(PostgresError) {
        if let notedAt, notedAt.advanced(bySeconds: 60) >= now { return }
        var parameters = PostgresParameters()
        parameters.append(int8: since.microseconds)
        parameters.append(int8: now.microseconds)
        parameters.append(int8: Int64(WakeRule.spacingSeconds) * 1_000_000)
        try connection.executeUnprepared(WakeStatements.noteDoorShut, parameters)
    }

    /// Takes sends out of the rate that all workers share.
    ///
    /// - Parameters:
    ///   - wanted: negative gives back what was not used.
    ///   - perSecond: the rate; 0 for none.
    ///   - now: the database's time.
    /// - Returns: how many may be sent.
    /// - Throws: `PostgresError`; then none may.
    public func takePace(_ wanted: Int, perSecond: Int, now: Instant) throws(PostgresError) -> Int {
        guard perSecond > 0 else { return max(0, wanted) }
        do {
            let lock = try prepare("wake_lock_pace", WakeStatements.lockPace)
            let set = try prepare("wake_set_pace", WakeStatements.setPace)
            let held = try connection.pipeline { pipeline in
                pipeline.begin()
                pipeline.execute(lock)
            }
            var pace = SendPace(perSecond: perSecond, spentThrough: Instant(microseconds: try held[1].int8(0, 0)))
            var given = 0
            if wanted < 0 { pace.giveBack(-wanted) } else { given = pace.take(wanted, at: now) }
            var parameters = PostgresParameters()
            parameters.append(int8: pace.spentThrough.microseconds)
            let results = try connection.pipeline { pipeline in
                pipeline.execute(set, parameters)
                pipeline.commit()
            }
            return results.last?.isCommitted == true ? given : 0
        } catch {
            rollback()
            throw error
        }
    }

    /// Stops a lane, or a topic of it, for all workers until somebody resumes it.
    public func addStop(_ stop: WakeStop, now: Instant) throws(PostgresError) {
        var parameters = PostgresParameters()
        parameters.append(text: stop.lane)
        parameters.append(text: stop.topic ?? "")
        parameters.append(text: stop.code)
        parameters.append(int8: now.microseconds)
        try connection.executeUnprepared(WakeStatements.addStop, parameters)
    }

    /// Nobody is woken until `resume`. Returns since when it has been so.
    public func pause() throws(PostgresError) -> Instant {
        var parameters = PostgresParameters()
        parameters.append(int8: try serverTime().microseconds)
        var result = try connection.executeUnprepared(WakeStatements.pause, parameters)
        // Whatever else is broken: without the row nothing could be paused.
        if result.rowCount == 0 { result = try connection.executeUnprepared(WakeStatements.beginPaused, parameters) }
        return Instant(microseconds: try result.int8(0, 0))
    }

    /// Lets wakes run again, and forgets the stops of lanes and topics. Returns how many stops there were.
    public func resume() throws(PostgresError) -> Int {
        let result = try connection.executeUnprepared(WakeStatements.resume)
        guard result.rowCount == 1 else { throw PostgresError(message: "wake_control has lost its row; restore it") }
        return Int(try result.int8(0, 0))
    }

    /// Notes that a push server calls these tokens dead. A registration that is newer than it says stays live.
    public func deactivate(_ tokens: [(token: WakeToken, asOf: Instant)]) throws(PostgresError) {
        try DeviceTokens(connection).deactivate(
            tokens.map { (key: DeviceKey(hash: $0.token.hash, user: $0.token.user), at: $0.asOf) }
        )
    }

    // MARK: Looking

    /// The users whose time has come, as a scan would see them, without locks and without writing.
    public func look(limit: Int, _ rules: WakeRound, now: Instant) throws -> [WakeLook] {
        var parameters = PostgresParameters()
        parameters.append(int8: now.microseconds)
        parameters.append(int4: Int32(clamping: limit))
        let found = try connection.executeUnprepared(WakeStatements.candidates, parameters)
        return try looks(Self.accounts(found), rules, now)
    }

    /// One user; nil for one who has no row in the schedule.
    public func look(at user: UserID, _ rules: WakeRound, now: Instant) throws -> WakeLook? {
        var parameters = PostgresParameters()
        parameters.append(Self.array([user]))
        let found = try connection.executeUnprepared(WakeStatements.accounts, parameters)
        return try looks(Self.accounts(found), rules, now).first
    }

    private func looks(_ accounts: [WakeAccount], _ rules: WakeRound, _ now: Instant) throws -> [WakeLook] {
        try readFacts(accounts, rules, now: now, tokens: .all).facts.map { facts in
            let decision = WakeDecision(facts.facts, rules.pipeline, rules.policy, now: now)
            return WakeLook(facts: facts.facts, decision: decision)
        }
    }

    /// The plan of a scan with the pages that it reads, line by line: of the very statement that scans execute, as this
    /// session plans it.
    public func explainScan(limit: Int, now: Instant) throws(PostgresError) -> [String] {
        let lock = try prepare("wake_lock_candidates", WakeStatements.lockCandidates)
        let results = try connection.simpleQuery(
            """
            EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF)
            EXECUTE \(lock.name) (\(now.microseconds), \(Int32(clamping: limit)))
            """
        )
        guard let plan = results.last else { return [] }
        var lines: [String] = []
        for row in 0..<plan.rowCount { lines.append(try plan.text(row, 0)) }
        return lines
    }
}

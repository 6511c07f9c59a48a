import Storage

/// What `daybook status` found out. Pure: text, JSON and the verdict are made from it.
struct StackStatus: Sendable {
    struct Part: Sendable {
        let name: String
        let pid: Int?
        let address: String?
        let isAlive: Bool
        /// Nil where nothing can be asked.
        let isReady: Bool?
        let logPath: String?
    }

    struct Lag: Sendable {
        let topic: String
        let partition: Int
        /// Records behind the end of the log.
        let records: Int64
        let nextOffset: Int64?
        let endOffset: Int64
        /// Stopped by the brake.
        let isBraked: Bool
        /// RFC 3339: the newest record's arrival that has been applied.
        let appliedThrough: String?
        /// How long ago the first record that waits had arrived; nil where none waits, or nobody asked it.
        var seconds: Int?
        /// How often the partition was claimed or moved.
        var epoch: Int64?
        /// Records a second since the last look: applied, and written. Nil at the first look.
        var appliedRate: Double?
        var writtenRate: Double?
    }

    struct Database: Sendable {
        let isReachable: Bool
        let migration: Int?
        let newest: Int
        let problem: String?
        var health: DatabaseHealth?
    }

    /// A line such as `up since …, pid …`; nil where no local stack runs.
    var local: String?
    var parts: [Part] = []
    var lags: [Lag] = []
    var kafkaProblem: String?
    var database: Database?

    /// The oldest of what waits, in seconds.
    var lagSeconds: Int? { lags.compactMap(\.seconds).max() }

    /// Rates from an earlier look. A position that went back, or another log, has none.
    mutating func measure(since before: StackStatus, seconds: Double) {
        guard seconds > 0 else { return }
        struct Key: Hashable {
            let topic: String
            let partition: Int
        }
        let old = Dictionary(before.lags.map { (Key(topic: $0.topic, partition: $0.partition), $0) }) { $1 }
        for index in lags.indices {
            let lag = lags[index]
            guard let earlier = old[Key(topic: lag.topic, partition: lag.partition)] else { continue }
            if let next = lag.nextOffset, let from = earlier.nextOffset, next >= from {
                lags[index].appliedRate = Double(next - from) / seconds
            }
            if lag.endOffset >= earlier.endOffset {
                lags[index].writtenRate = Double(lag.endOffset - earlier.endOffset) / seconds
            }
        }
    }

    var totalLag: Int64 { lags.reduce(0) { $0 &+ $1.records } }

    /// A record that waits for longer is a fault: nobody applies it.
    var maximumLagSeconds = 300

    /// Everything runs and answers. Lag alone is no fault, which is what queues are for; records that nobody comes to
    /// are one.
    var isFine: Bool {
        parts.allSatisfy { $0.isAlive && $0.isReady != false } && kafkaProblem == nil
            && !lags.contains(where: \.isBraked) && (lagSeconds ?? 0) <= maximumLagSeconds
            && database.map { $0.isReachable && $0.problem == nil && $0.migration == $0.newest } ?? true
    }

    func text(_ style: TextStyle, allPartitions: Bool) -> [String] {
        var lines: [String] = []
        if let local { lines += [local, ""] }
        if !parts.isEmpty {
            var table = TextTable([.left("PART"), .left("STATE"), .right("PID"), .left("ADDRESS"), .left("LOG")])
            for part in parts {
                table.add([
                    part.name, word(part), part.pid.map(String.init) ?? "", part.address ?? "", part.logPath ?? "",
                ])
            }
            lines += table.lines(style) + [""]
        }
        if let kafkaProblem {
            lines.append(style.bad("lag: unknown, ") + kafkaProblem)
        } else {
            lines += lagText(style, allPartitions: allPartitions)
        }
        if let database { lines += text(database, style) }
        return lines
    }

    private func word(_ part: Part) -> String {
        guard part.isAlive else { return "gone" }
        switch part.isReady {
        case true?: return "ready"
        case false?: return "not ready"
        case nil: return "running"
        }
    }

    private func lagText(_ style: TextStyle, allPartitions: Bool) -> [String] {
        var lines: [String] = []
        var table = TextTable([
            .left("TOPIC"), .right("PARTITION"), .right("LAG"), .right("BEHIND"), .right("APPLIED/S"),
            .right("WRITTEN/S"), .right("NEXT"), .right("END"), .right("EPOCH"), .left("APPLIED THROUGH"), .left(""),
        ])
        for lag in lags where allPartitions || lag.records > 0 || lag.isBraked {
            table.add([
                lag.topic, String(lag.partition), grouped(Int(lag.records)),
                lag.seconds.map { PositionReport.shown(seconds: $0) } ?? "", Self.shown(rate: lag.appliedRate),
                Self.shown(rate: lag.writtenRate), lag.nextOffset.map(String.init) ?? "none", String(lag.endOffset),
                lag.epoch.map(String.init) ?? "", lag.appliedThrough ?? "", lag.isBraked ? "stopped by the brake" : "",
            ])
        }
        if !table.isEmpty { lines += table.lines(style) }
        let age = lagSeconds.map { PositionReport.shown(seconds: $0) }
        let behind = age.map { ", the first that waits arrived \($0) ago" } ?? ""
        lines.append("lag: \(grouped(Int(totalLag))) records over \(lags.count) partitions\(behind)")
        if let seconds = lagSeconds, seconds > maximumLagSeconds {
            let limit = PositionReport.shown(seconds: maximumLagSeconds)
            lines.append(style.bad("late: ") + "nobody has come to it within \(limit); do the workers run?")
        }
        let applied = lags.compactMap(\.appliedRate)
        if !applied.isEmpty {
            let written = lags.compactMap(\.writtenRate).reduce(0, +)
            lines.append(
                "rate: \(Self.shown(rate: applied.reduce(0, +))) records/s applied, \(Self.shown(rate: written)) written"
            )
        }
        let braked = lags.filter(\.isBraked).count
        if braked > 0 {
            lines.append(
                style.bad("brake: \(counted(braked, "partition stands", "partitions stand")) still")
                    + "; `daybook dead-letters list` says why"
            )
        }
        return lines
    }

    private static func shown(rate: Double?) -> String {
        guard let rate else { return "" }
        return rate < 10 && rate > 0 ? String(Double(Int(rate * 10)) / 10) : grouped(Int(rate.rounded()))
    }

    private func text(_ database: Database, _ style: TextStyle) -> [String] {
        guard database.isReachable else { return [style.bad("database: ") + (database.problem ?? "not reachable")] }
        if let problem = database.problem { return [style.bad("database: ") + problem] }
        var lines = ["database: reachable, at migration \(database.migration ?? 0) of \(database.newest)"]
        guard let health = database.health else { return lines }
        lines[0] +=
            ", rules \(health.rules), \(grouped(Int(clamping: health.bytes >> 20))) MiB, "
            + "\(counted(health.sessions, "session", "sessions")), \(health.waiting) waiting for a lock, "
            + "oldest transaction \(PositionReport.shown(seconds: health.oldestTransaction))"
        lines.append("wake: \(Self.shown(health.wakesDue)) due of \(Self.shown(health.wakesScheduled)) scheduled")
        return lines
    }

    private static func shown(_ count: Int) -> String {
        count >= DatabaseHealth.countLimit ? "\(grouped(count)) or more" : grouped(count)
    }

    var json: JSONDocument {
        .object([
            ("ok", .bool(isFine)), ("running", .bool(local != nil)),
            (
                "parts",
                .array(
                    parts.map { part in
                        .object([
                            ("name", .string(part.name)), ("alive", .bool(part.isAlive)),
                            ("ready", part.isReady.map { .bool($0) } ?? .null),
                            ("pid", part.pid.map { .integer($0) } ?? .null),
                            ("address", part.address.map { .string($0) } ?? .null),
                            ("log", part.logPath.map { .string($0) } ?? .null),
                        ])
                    }
                )
            ),
            ("lag", kafkaProblem == nil ? .integer(Int(totalLag)) : .null),
            ("lag_seconds", lagSeconds.map { .integer($0) } ?? .null),
            ("braked", .integer(lags.filter(\.isBraked).count)),
            ("kafka_problem", kafkaProblem.map { .string($0) } ?? .null),
            (
                "partitions",
                .array(
                    lags.map { lag in
                        .object([
                            ("topic", .string(lag.topic)), ("partition", .integer(lag.partition)),
                            ("lag", .integer(Int(lag.records))),
                            ("next_offset", lag.nextOffset.map { .integer(Int($0)) } ?? .null),
                            ("end_offset", .integer(Int(lag.endOffset))), ("braked", .bool(lag.isBraked)),
                            ("applied_through", lag.appliedThrough.map { .string($0) } ?? .null),
                            ("lag_seconds", lag.seconds.map { .integer($0) } ?? .null),
                            ("epoch", lag.epoch.map { .integer(Int($0)) } ?? .null),
                            ("applied_per_second", lag.appliedRate.map { .number($0) } ?? .null),
                            ("written_per_second", lag.writtenRate.map { .number($0) } ?? .null),
                        ])
                    }
                )
            ),
            (
                "database",
                database.map { database in
                    .object([
                        ("reachable", .bool(database.isReachable)),
                        ("migration", database.migration.map { .integer($0) } ?? .null),
                        ("newest", .integer(database.newest)),
                        ("problem", database.problem.map { .string($0) } ?? .null),
                        ("health", database.health.map(Self.json) ?? .null),
                    ])
                } ?? .null
            ),
        ])
    }

    private static func json(_ health: DatabaseHealth) -> JSONDocument {
        .object([
            ("rules", .integer(health.rules)), ("bytes", .integer(Int(health.bytes))),
            ("sessions", .integer(health.sessions)), ("waiting", .integer(health.waiting)),
            ("oldest_transaction_seconds", .integer(health.oldestTransaction)),
            ("wakes_due", .integer(health.wakesDue)), ("wakes_scheduled", .integer(health.wakesScheduled)),
        ])
    }
}

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
    }

    struct Database: Sendable {
        let isReachable: Bool
        let migration: Int?
        let newest: Int
        let problem: String?
    }

    /// A line such as `up since …, pid …`; nil where no local stack runs.
    var local: String?
    var parts: [Part] = []
    var lags: [Lag] = []
    var kafkaProblem: String?
    var database: Database?

    var totalLag: Int64 { lags.reduce(0) { $0 &+ $1.records } }

    /// Everything runs and answers. Lag alone is no fault: it is what queues are for.
    var isFine: Bool {
        parts.allSatisfy { $0.isAlive && $0.isReady != false } && kafkaProblem == nil
            && !lags.contains(where: \.isBraked)
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
        if let database { lines.append(text(database, style)) }
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
            .left("TOPIC"), .right("PARTITION"), .right("LAG"), .right("NEXT"), .right("END"), .left("APPLIED THROUGH"),
            .left(""),
        ])
        for lag in lags where allPartitions || lag.records > 0 || lag.isBraked {
            table.add([
                lag.topic, String(lag.partition), grouped(Int(lag.records)), lag.nextOffset.map(String.init) ?? "none",
                String(lag.endOffset), lag.appliedThrough ?? "", lag.isBraked ? "stopped by the brake" : "",
            ])
        }
        if !table.isEmpty { lines += table.lines(style) }
        lines.append("lag: \(grouped(Int(totalLag))) records over \(lags.count) partitions")
        return lines
    }

    private func text(_ database: Database, _ style: TextStyle) -> String {
        guard database.isReachable else { return style.bad("database: ") + (database.problem ?? "not reachable") }
        if let problem = database.problem { return style.bad("database: ") + problem }
        return "database: reachable, at migration \(database.migration ?? 0) of \(database.newest)"
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
                    ])
                } ?? .null
            ),
        ])
    }
}

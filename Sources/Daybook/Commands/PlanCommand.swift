/// Says what a number of phones takes.
enum PlanCommand: Command {
    static let spec = CommandSpec(
        path: ["plan"],
        summary: "says what a number of phones takes: processes, partitions, disk",
        description: [
            "Works out processes, processors, lanes, partitions and disk from what was measured on this code. It asks "
                + "nobody and changes nothing. docs/SCALING.md has the figures, how they were measured, and how they "
                + "are put together; measure your own machines before you buy any.",
            "Processors are planned to be half used at the peak, so that one machine may be away.",
        ],
        options: [
            .value("phones", "N", "How many phones send."),
            .value("syncs-per-day", "N", "How often each of them sends.", default: "8"),
            .value("days-per-sync", "N", "Days in one request.", default: "15"),
            .value("peak", "N", "The busiest minutes over the mean.", default: "5"),
            .value("retention-days", "N", "How long days are kept.", default: "400"),
            .flag("figures", "Show what the plan is made from, and by which command it was measured."),
            .flag("json", "The plan as JSON."),
        ],
        examples: [
            .init("daybook plan --phones 1000000 --syncs-per-day 12", "A million phones that send every two hours."),
            .init("daybook plan --figures", "The measured figures behind it."),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        if arguments.has("figures") {
            for line in CapacityPlan.Figures().table.lines(context.console.out) { context.console.print(line) }
            return .success
        }
        guard let phones = try arguments.integer("phones", in: 1...1_000_000_000) else {
            throw CommandFailure.usage("how many phones?", next: "Say --phones N, or --figures.")
        }
        var load = CapacityPlan.Load(
            phones: phones,
            syncsPerDay: Double(try arguments.integer("syncs-per-day", in: 1...1440) ?? 8)
        )
        load.daysPerSync = Double(try arguments.integer("days-per-sync", in: 1...400) ?? 15)
        load.peak = Double(try arguments.integer("peak", in: 1...100) ?? 5)
        load.retentionDays = Double(try arguments.integer("retention-days", in: 60...3650) ?? 400)
        let plan = CapacityPlan(load)
        if arguments.has("json") {
            context.console.print(plan.json.text())
        } else {
            for line in plan.table.lines(context.console.out) { context.console.print(line) }
        }
        return .success
    }
}

extension CapacityPlan.Figures {
    /// Each figure in words, and the command that measures it.
    var rows: [(what: String, figure: String, command: String)] {
        func microseconds(_ value: Double) -> String { "\(Self.number(value)) µs" }
        func bytes(_ value: Double) -> String { "\(grouped(Int(value.rounded()))) bytes" }
        let aggregator = "Scripts/bench-aggregator"
        let sizes = "Scripts/measure-sizes"
        return [
            ("ingest, processor a request of 15 days", microseconds(ingestPerRequest), "Scripts/bench-ingest"),
            ("worker, processor a changed day", microseconds(workerPerChangedDay), aggregator),
            ("worker, processor a day sent again unchanged", microseconds(workerPerUnchangedDay), aggregator),
            ("PostgreSQL, processor a changed day", microseconds(databasePerChangedDay), aggregator),
            ("PostgreSQL, processor an unchanged day", microseconds(databasePerUnchangedDay), aggregator),
            ("a source row, indexes and free space included", bytes(sourceRow), sizes),
            ("a canonical row, likewise", bytes(canonicalRow), sizes),
            ("a connection (source of a user, with its window)", bytes(connection), sizes),
            ("write-ahead log, a new day", bytes(logPerNewDay), sizes),
            ("write-ahead log, a request that changes nothing", bytes(logPerUnchangedRequest), sizes),
            ("Kafka, a request of 15 days, before compression", bytes(recordPerDay * 15), sizes),
        ]
    }

    var table: TextTable {
        var table = TextTable([.left("WHAT"), .right("FIGURE"), .left("MEASURED BY")])
        for row in rows { table.add([row.what, row.figure, row.command]) }
        return table
    }

    /// At most two digits behind the point.
    private static func number(_ value: Double) -> String {
        let hundredths = Int((value * 100).rounded())
        let (whole, rest) = hundredths.quotientAndRemainder(dividingBy: 100)
        if rest == 0 { return String(whole) }
        return rest % 10 == 0 ? "\(whole).\(rest / 10)" : "\(whole).\(rest < 10 ? "0" : "")\(rest)"
    }
}

extension CapacityPlan {
    var table: TextTable {
        var table = TextTable([.left("WHAT"), .right("HOW MUCH"), .left("")])
        table.add(["requests", Self.short(meanRequests), "a second, the mean of the day"])
        table.add(["", Self.short(peakRequests), "a second at the peak, \(Self.short(peakDays)) days"])
        table.add(["ingest-service", "\(ingestProcesses)", "processes, \(Self.short(ingestProcessors)) processors"])
        table.add(["aggregator-worker", "\(workerProcesses)", "processes, \(Self.short(workerProcessors)) processors"])
        table.add(["", "\(lanes)", "lanes for live days, over all processes"])
        table.add(["Kafka", "\(partitions)", "partitions"])
        table.add(["", Self.size(logBytes), "of disk over all brokers, before compression"])
        table.add(["PostgreSQL", "\(databases)", databases == 1 ? "server" : "servers, users placed by bucket"])
        table.add(["", Self.short(databaseProcessors), "processors"])
        table.add(["", Self.size(databaseBytes), "of disk"])
        table.add(["", Self.size(writeAheadBytesPerDay), "of write-ahead log a day"])
        return table
    }

    var json: JSONDocument {
        .object([
            ("requests_mean", .number(meanRequests)), ("requests_peak", .number(peakRequests)),
            ("ingest_processes", .integer(ingestProcesses)), ("ingest_processors", .number(ingestProcessors)),
            ("worker_processes", .integer(workerProcesses)), ("worker_processors", .number(workerProcessors)),
            ("lanes", .integer(lanes)), ("partitions", .integer(partitions)), ("log_bytes", .number(logBytes)),
            ("databases", .integer(databases)), ("database_processors", .number(databaseProcessors)),
            ("database_bytes", .number(databaseBytes)), ("wal_bytes_per_day", .number(writeAheadBytesPerDay)),
        ])
    }

    /// Two digits that count; no more was measured.
    private static func short(_ value: Double) -> String {
        guard value < 1e15 else { return "more than can be planned" }
        if value >= 100 {
            var unit = 10
            while Double(unit) * 100 <= value { unit *= 10 }
            return grouped(Int(value) / unit * unit)
        }
        let tenths = Int((value * 10).rounded(.up))
        return value >= 10 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    }

    private static func size(_ bytes: Double) -> String {
        var value = bytes
        var units = ["B", "KB", "MB", "GB", "TB", "PB"][...]
        while value >= 1000, units.count > 1 {
            value /= 1000
            units = units.dropFirst()
        }
        return "\(short(value)) \(units.first ?? "")"
    }
}

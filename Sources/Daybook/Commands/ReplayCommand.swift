import AggregatorWorker
import Configuration
import DevelopmentStack
import Domain
import Kafka
import MessageContract
import Storage

/// Applies a stretch of the log again, beside the workers.
enum ReplayCommand: Command {
    static let spec = CommandSpec(
        path: ["replay"],
        summary: "applies a part of the log again beside the workers, or says what that would change",
        description: [
            "Reads a stretch of the log and applies it by the very code of the workers, on connections of its own. Their "
                + "positions stay where they are, and they may run: writers of one user meet under the account's lock. "
                + "What is stored and newer stays; what was applied before changes nothing. Poison is counted and not "
                + "put aside again.",
            "It keeps how far it is in the database. Stopped (Ctrl-C) or killed, the same call goes on there; "
                + "--from-start begins anew. `daybook rewind` is the other way: it moves the workers themselves.",
            "With --preview it takes no locks and writes nothing: over one snapshot of the tables it works out what would "
                + "change, later records seeing what earlier ones would have written, and shows it by metric, by who "
                + "would win, and by example. --csv writes every change as a line; it holds health values, and only "
                + "you can read it.",
        ],
        options: ReplayRequest.options + [
            .value("rate", "COUNT", "At most so many records a second.", default: "no limit"),
            .value("jobs", "COUNT", "Partitions that are read at once.", default: "as many as processors, at most 8"),
            .flag("from-start", "Do not go on where an earlier call was stopped."),
            .flag("preview", "Write nothing: say what would change."),
            .value("sample", "COUNT", "With --preview: so many changes as examples.", default: "10"),
            .value("csv", "FILE", "With --preview: every change; the file must not exist yet."),
            .flag("json", "The outcome as JSON."),
        ],
        environment: DeadLetterDesk.environment,
        examples: [
            .init("daybook replay --from 6h --preview", "What the last six hours would change now."),
            .init("daybook replay --from 6h --rate 5000", "The last six hours, gently."),
            .init("daybook replay --from beginning --user 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10", "One person."),
            .init(
                "daybook replay --from 120000 --topic daybook.days.live.v1 --partition 3",
                "One partition from an offset on."
            ),
        ],
        statuses: [
            .init(.success, "all of it is applied"),
            .init(.failure, "there is no such place in the log"),
            .init(.cannotCreate, "the file for --csv exists, or can't be made"),
            .init(.temporaryFailure, "stopped before the end; the same call goes on"),
            .init(.unavailable, "PostgreSQL or Kafka does not answer, or can't look up times"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let signals = StopSignals()
        let access = try StackAccess(context)
        let prefix = access.configuration.topicPrefix
        let request = try ReplayRequest(arguments, prefix: prefix, now: .now)
        let jobs = try VerifyCommand.jobs(arguments)
        let rate = try arguments.integer("rate", in: 1...10_000_000)
        let connection = try access.connect()
        try SchemaGate.checkRules(connection)
        let admin = try access.kafkaAdmin()
        if arguments.has("preview") {
            let plan = try request.plan(access, admin)
            let run = PreviewRun(access: access, request: request, plan: plan, rate: rate, jobs: jobs)
            return try preview(run, signals, arguments, context.console)
        }
        let runs = ToolRuns(connection)
        let run = try begin(request, runs, access, admin, fromStart: arguments.has("from-start"), context.console)
        let parts = run.parts.compactMap { saved -> ReplayRun.Part? in
            guard !saved.isFinished, let stretch = ReplayProgress.stretch(saved),
                let topic = request.topics.first(where: { $0.name(prefix: prefix) == stretch.place.topic })
            else { return nil }
            return ReplayRun.Part(stretch: stretch, topic: topic, saved: saved)
        }
        var earlier = ReplayCounts()
        for part in run.parts { earlier += ReplayProgress.counts(part) }
        let tally = ReplayTally(earlier)
        let total = parts.reduce(0) { $0 + Int($1.stretch.count) }
        let started = monotonicSeconds()
        let progress = Progress(context.console, "replay", unit: "records")
        defer { progress.finish() }
        let replay = ReplayRun(
            access: access,
            request: request,
            run: run.name,
            parts: parts,
            rate: rate,
            jobs: jobs
        )
        let isWhole = try replay.run(signals, tally) { progress.show(Int(tally.now.offsets), of: total) }
        progress.finish()
        if isWhole { try runs.finish(run.name, at: Instant.now.microseconds) }
        let seconds = monotonicSeconds() - started
        let counts = tally.now.counts
        if arguments.has("json") {
            let members = ReplayText.members(counts, partitions: run.parts.count, seconds: seconds)
            context.console.print(JSONDocument.object([("finished", .bool(isWhole))] + members).text())
        } else {
            let lines = ReplayText.text(counts, partitions: run.parts.count, seconds: seconds, context.console.out)
            for line in lines { context.console.print(line) }
            if !isWhole { context.console.note("stopped before the end; the same call goes on") }
        }
        return isWhole ? .success : .temporaryFailure
    }

    private static func preview(
        _ run: PreviewRun,
        _ signals: StopSignals,
        _ arguments: Arguments,
        _ console: Console
    ) throws -> ExitCode {
        let sample = try arguments.integer("sample", in: 0...100_000) ?? 10
        let started = monotonicSeconds()
        let tally = ReplayTally()
        let progress = Progress(console, "preview", unit: "records")
        defer { progress.finish() }
        let total = Int(clamping: run.plan.records)
        let report = try run.run(signals, tally) { progress.show(Int(tally.now.offsets), of: total) }
        progress.finish()
        guard let report else {
            console.note("stopped before the end; a preview keeps nothing, so it begins anew")
            return .temporaryFailure
        }
        let seconds = monotonicSeconds() - started
        let partitions = run.plan.stretches.count
        if let path = arguments.value("csv") {
            let lines = [PreviewReport.csvHeading] + report.lines.map(PreviewReport.csv)
            try PrivateFile.write(lines.joined(separator: "\r\n") + "\r\n", to: path)
        }
        if arguments.has("json") {
            let members = report.members(sample: sample, partitions: partitions, seconds: seconds)
            console.print(JSONDocument.object(members).text())
        } else {
            let lines = report.text(sample: sample, partitions: partitions, seconds: seconds, console.out)
            for line in lines { console.print(line) }
        }
        return .success
    }

    private static func begin(
        _ request: ReplayRequest,
        _ runs: ToolRuns,
        _ access: StackAccess,
        _ admin: KafkaAdmin,
        fromStart: Bool,
        _ console: Console
    ) throws -> ToolRuns.Run {
        // Another cluster's offsets are others: a run belongs to its log.
        let words = "\(request.words) log=\(try admin.clusterID(timeoutMilliseconds: 10_000))"
        if !fromStart, let run = try runs.unfinished(kind: "replay", request: words) {
            let since = DayText.moment(Instant(microseconds: run.startedAt))
            console.note("going on with what began \(since); --from-start begins anew")
            return run
        }
        let plan = try request.plan(access, admin)
        let now = Instant.now.microseconds
        return try runs.begin(
            "replay-\(now)",
            kind: "replay",
            request: words,
            at: now,
            parts: plan.stretches.map(ReplayProgress.part)
        )
    }
}

import Aggregation
import AggregatorWorker
import Configuration
import DevelopmentStack
import Domain
import Kafka
import MessageContract
import Observability
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
            "It keeps how far it is in the database. Stopped (Ctrl-C) or killed, the same call with --continue goes on "
                + "there, in the stretches of that time; without it, it begins anew. `daybook rewind` is the other way: "
                + "it moves the workers themselves.",
            "With --preview it takes no locks and writes nothing: over one snapshot of the tables it works out what would "
                + "change, later records seeing what earlier ones would have written, and shows it by metric, by who "
                + "would win, and by example, without values unless --values is given. --csv writes every change as a "
                + "line; it holds health values, and only you can read it. It keeps in memory what would change (at "
                + "most \(grouped(PreviewRunner.dayLimit)) days), and as long as it runs, vacuum removes nothing that is "
                + "younger: see --max-time.",
        ],
        options: ReplayRequest.options + [
            .value("rate", "COUNT", "At most so many records a second.", default: "no limit"),
            .value("jobs", "COUNT", "Partitions that are read at once.", default: "as many as processors, at most 8"),
            .flag("continue", "Go on where the newest call with the same words was stopped."),
            .flag("preview", "Write nothing: say what would change."),
            .value("sample", "COUNT", "With --preview: so many changes as examples.", default: "10"),
            .flag("values", "With --preview: examples with their values, which are a person's health."),
            .value("max-time", "TIME", "With --preview: give up after this time.", default: "30m"),
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
            .init(.failure, "there is no such place in the log, or nothing to go on with"),
            .init(.cannotCreate, "the file for --csv exists, or can't be made"),
            .init(.temporaryFailure, "stopped before the end, or somebody holds locks for minutes"),
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
        try SchemaGate.check(connection, build: Int32(clamping: BuildInfo.current.number))
        let admin = try access.kafkaAdmin()
        if arguments.has("preview") {
            let plan = try request.plan(access, admin, preview: true)
            let run = PreviewRun(
                access: access,
                request: request,
                plan: plan,
                rate: rate,
                jobs: jobs,
                seconds: try arguments.duration("max-time") ?? 1800
            )
            return try preview(run, signals, arguments, context.console)
        }
        let runs = ToolRuns(connection)
        let run = try begin(request, runs, access, admin, continues: arguments.has("continue"), context.console)
        let all = try run.parts.map { saved -> ReplayRun.Part in
            guard let stretch = ReplayProgress.stretch(saved),
                let topic = request.topics.first(where: { $0.name(prefix: prefix) == stretch.place.topic })
            else {
                throw CommandFailure(
                    .software,
                    "the saved place of the run is not readable",
                    next: "Run it without --continue to begin anew."
                )
            }
            return ReplayRun.Part(stretch: stretch, topic: topic, saved: saved)
        }
        for line in ReplayText.stretches(all.map(\.stretch)) { context.console.note(line) }
        let parts = all.filter { !$0.saved.isFinished }
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
        let isWhole: Bool
        do {
            isWhole = try replay.run(signals, tally) { progress.show(Int(tally.now.offsets), of: total) }
        } catch let failure as SideReplay.GaveUp {
            progress.finish()
            throw CommandFailure(
                failure.isDatabaseAway ? .unavailable : .temporaryFailure,
                "a batch could not be applied for minutes: \(failure.description)",
                next: "`daybook status` shows what waits for locks. The same call with --continue goes on."
            )
        }
        progress.finish()
        // It was idle all the while, and may have been cut off.
        if isWhole { try connection.reconnecting { try runs.finish(run.name, at: Instant.now.microseconds) } }
        let seconds = monotonicSeconds() - started
        let counts = tally.now.counts
        if arguments.has("json") {
            let members = ReplayText.members(counts, partitions: run.parts.count, seconds: seconds)
            let stretches = ReplayText.json(all.map(\.stretch))
            let document = [("finished", .bool(isWhole))] + members + [("stretches", stretches)]
            context.console.print(JSONDocument.object(document).text())
        } else {
            let lines = ReplayText.text(counts, partitions: run.parts.count, seconds: seconds, context.console.out)
            for line in lines { context.console.print(line) }
            if !isWhole { context.console.note("stopped before the end; the same call with --continue goes on") }
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
        // Before the work: a file that is in the way should not be found out at its end.
        let file = try arguments.value("csv").map { try PrivateFile($0) }
        for line in ReplayText.stretches(run.plan.stretches) { console.note(line) }
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
        if let file {
            try file.write(PreviewReport.csvHeading + "\r\n")
            for line in report.lines { try file.write(PreviewReport.csv(line) + "\r\n") }
            try file.close()
        }
        let shows = PreviewReport.Shown(sample: sample, values: arguments.has("values"))
        if arguments.has("json") {
            let members = report.members(shows, partitions: partitions, seconds: seconds)
            let stretches = ReplayText.json(run.plan.stretches)
            console.print(JSONDocument.object(members + [("stretches", stretches)]).text())
        } else {
            let lines = report.text(shows, partitions: partitions, seconds: seconds, console.out)
            for line in lines { console.print(line) }
        }
        return .success
    }

    private static func begin(
        _ request: ReplayRequest,
        _ runs: ToolRuns,
        _ access: StackAccess,
        _ admin: KafkaAdmin,
        continues: Bool,
        _ console: Console
    ) throws -> ToolRuns.Run {
        // Another cluster's offsets are others: a run belongs to its log.
        let words = "\(request.words) log=\(try admin.clusterID(timeoutMilliseconds: 10_000))"
        if let run = try runs.unfinished(kind: "replay", request: words) {
            let since = DayText.moment(Instant(microseconds: run.startedAt))
            if continues {
                console.note("going on with what began \(since)")
                return run
            }
            console.note("beginning anew; what began \(since) was not finished (--continue would go on there)")
        } else if continues {
            throw CommandFailure(
                .failure,
                "no call with these words was stopped",
                next: "Run it without --continue."
            )
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

import DevelopmentStack
import Domain
import Foundation
import MessageContract
import Observability
import Postgres
import ServiceRuntime
import Storage
import Synchronization

/// Makes canonical days anew.
enum RecomputeCommand: Command {
    static let spec = CommandSpec(
        path: ["recompute"],
        summary: "makes canonical days anew where they are not what the rules make of their rows",
        description: [
            "Walks all users, makes their canonical days from the source rows and the pins, and writes those that differ "
                + "or were made by another version of the rules. Each page of users is a transaction under their "
                + "accounts' locks, where the workers meet each other, too: it may run beside them at any time.",
            "It keeps how far it is in the database. Stopped (Ctrl-C) or killed, a call with --continue goes on there; "
                + "what was looked at before is not looked at again then.",
            "With --rules the version becomes the active one first; from then on the workers compute by it, and the walk "
                + "brings the older days after. The order of an upgrade: migrate, workers, ingest, then this. It only "
                + "goes up, and only to a version that this build knows.",
        ],
        options: [
            .value("rules", "VERSION", "Make this version of the rules the active one first."),
            .flag("continue", "Go on where the newest call for these rules was stopped."),
            .value("jobs", "COUNT", "Connections that work at once.", default: "2"),
            .flag("json", "The outcome as JSON."),
        ],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's; for --rules the owner of the tables")],
        examples: [
            .init("daybook recompute", "Mends what `daybook verify` found."),
            .init("daybook recompute --rules \(MetricLedger.ruleVersion)", "After an upgrade that has new rules."),
        ],
        statuses: [
            .init(.failure, "there is nothing to go on with, or newer rules are active"),
            .init(.success, "all days are what the active rules make of their rows"),
            .init(.temporaryFailure, "stopped before the end, or old transactions do not end"),
            .init(.configuration, "this build does not know the active rules"),
            .init(.unavailable, "the database does not answer"),
        ]
    )

    /// Small, so that no worker waits long for a lock.
    static let pageUsers = 10
    private static let partCount = 64
    private static let barrierSeconds = 60.0

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let signals = StopSignals()
        let jobs = try arguments.integer("jobs", in: 1...64) ?? 2
        let wanted = try arguments.integer("rules", in: 1...Int(MetricLedger.ruleVersion)).map { Int32($0) }
        let access = try StackAccess(context)
        let connection = try access.connect()
        try SchemaGate.check(connection, build: Int32(clamping: BuildInfo.current.number))
        let active = try raise(to: wanted, CanonicalMending(connection), signals, context.console)
        let runs = ToolRuns(connection)
        let run = try begin(connection, rules: active, continues: arguments.has("continue"), context.console)
        let tally = Tally(run.parts)
        let progress = Progress(context.console, "recompute", unit: "users")
        defer { progress.finish() }
        let isWhole = try PartWorkers.run(
            run.parts.filter { !$0.isFinished },
            jobs: jobs,
            signals,
            setup: { _ in CanonicalMending(try access.connect()) },
            work: { part, mending, stop in
                try Self.mend(part, of: run.name, mending, tally, isStopped: { stop.isRaised })
            },
            tick: {
                let now = tally.now
                progress.show(now.users, of: 0, fraction: now.fraction)
            }
        )
        progress.finish()
        if isWhole { try connection.reconnecting { try runs.finish(run.name, at: Instant.now.microseconds) } }
        report(tally.now.outcome, rules: active, isWhole: isWhole, arguments, context.console)
        return isWhole ? .success : .temporaryFailure
    }

    private static func raise(
        to wanted: Int32?,
        _ mending: CanonicalMending,
        _ signals: StopSignals,
        _ console: Console
    ) throws -> Int32 {
        let before = try mending.activeRules()
        guard let wanted, wanted != before else { return before }
        guard wanted > before else {
            throw CommandFailure(
                .failure,
                "version \(before) of the rules is active, which is newer than \(wanted)",
                next: "Rules only go up: a day must not depend on when it was computed."
            )
        }
        let after = try mending.raiseRules(to: wanted)
        console.note("version \(after) of the rules is active now; the workers compute by it from their next batch on")
        // Somebody may have read the older ones a moment ago, for a user whom this walk could not see yet.
        let barrier = try mending.barrier()
        let deadline = monotonicSeconds() + barrierSeconds
        while try !mending.havePassed(barrier) {
            guard signals.wait(milliseconds: 50) == nil, monotonicSeconds() < deadline else {
                throw CommandFailure(
                    .temporaryFailure,
                    "transactions from before the new rules are still open",
                    next: "Look for them in pg_stat_activity; run `daybook recompute` once they have ended."
                )
            }
        }
        return after
    }

    private static func begin(
        _ connection: PostgresConnection,
        rules: Int32,
        continues: Bool,
        _ console: Console
    ) throws -> ToolRuns.Run {
        let runs = ToolRuns(connection)
        let request = "rules \(rules)"
        if let run = try runs.unfinished(kind: "recompute", request: request) {
            let since = DayText.moment(Instant(microseconds: run.startedAt))
            if continues {
                let users = run.parts.reduce(0) { $0 + Int(clamping: $1.counts.first ?? 0) }
                console.note(
                    "going on with what began \(since): \(counted(users, "user", "users")) looked at since then"
                )
                return run
            }
            console.note("beginning anew; what began \(since) was not finished (--continue would go on there)")
        } else if continues {
            throw CommandFailure(.failure, "there is nothing to go on with", next: "Run it without --continue.")
        }
        let bounds = try UserPages(connection).bounds()
        let ranges = bounds.map { UserRange.parts(partCount, between: $0.lowest, and: $0.highest) } ?? [.all]
        return try runs.begin(
            "recompute-\(Instant.now.microseconds)",
            kind: "recompute",
            request: request,
            at: Instant.now.microseconds,
            parts: ranges.map { ToolRuns.Part(name: name($0), position: $0.first.description) }
        )
    }

    /// A stretch as the name of a part, in the order of the stretches.
    static func name(_ range: UserRange) -> String { "\(range.first)..\(range.last)" }

    static func range(_ name: String) -> UserRange? {
        let ends = name.split(separator: ".", omittingEmptySubsequences: true)
        guard ends.count == 2, let first = UserID(String(ends[0])), let last = UserID(String(ends[1])), first <= last
        else { return nil }
        return UserRange(first: first, last: last)
    }

    private static func mend(
        _ part: ToolRuns.Part,
        of run: String,
        _ mending: CanonicalMending,
        _ tally: Tally,
        isStopped: () -> Bool
    ) throws {
        guard let whole = range(part.name), let start = UserID(part.position) else {
            throw CommandFailure(
                .software,
                "the saved place of the run is not readable",
                next: "Run it without --continue to begin anew."
            )
        }
        var part = part
        var range = UserRange(first: start, last: whole.last)
        var conflicts = 0
        while !isStopped() {
            do {
                let done = try mending.mend(range, limit: pageUsers, bucket: bucket) { runs, last, outcome in
                    var saved = part
                    Self.count(outcome, into: &saved)
                    saved.position = (last.successor ?? last).description
                    saved.isFinished = last >= range.last
                    try runs.save(saved, of: run)
                }
                conflicts = 0
                guard let done else { break }
                Self.count(done.outcome, into: &part)
                tally.note(part.name, done.outcome, fraction: whole.fraction(of: done.last))
                guard let next = done.last.successor, done.last < range.last else { break }
                range.first = next
            } catch let error as PostgresError where error.disposition == .retry && conflicts < 100 {
                // A worker was faster to a lock.
                conflicts += 1
            }
        }
        if !isStopped() { tally.finish(part.name) }
    }

    private static func bucket(_ user: UserID) -> Int16 { Int16(clamping: Partitioner.bucket(of: user)) }

    private static func count(_ outcome: CanonicalMending.Outcome, into part: inout ToolRuns.Part) {
        let new = [outcome.users, outcome.days, outcome.mended, outcome.moved]
        let old = part.counts + Array(repeating: 0, count: max(0, 4 - part.counts.count))
        part.counts = zip(old, new).map { $0 &+ Int64($1) }
    }

    private static func report(
        _ outcome: CanonicalMending.Outcome,
        rules: Int32,
        isWhole: Bool,
        _ arguments: Arguments,
        _ console: Console
    ) {
        if arguments.has("json") {
            console.print(
                JSONDocument.object([
                    ("finished", .bool(isWhole)), ("rules", .integer(Int(rules))), ("users", .integer(outcome.users)),
                    ("days", .integer(outcome.days)), ("mended", .integer(outcome.mended)),
                    ("moved", .integer(outcome.moved)),
                ]).text()
            )
            return
        }
        console.print(
            "\(counted(outcome.days, "day", "days")) of \(counted(outcome.users, "user", "users")) looked at with rules "
                + "\(rules): \(grouped(outcome.mended)) mended, \(grouped(outcome.moved)) moved to these rules"
        )
        if !isWhole { console.note("stopped before the end; --continue goes on there") }
    }

    private final class Tally: Sendable {
        private struct State: Sendable {
            var outcome = CanonicalMending.Outcome()
            var fractions: [String: Double] = [:]
            var new = 0
        }

        private let state: Mutex<State>

        init(_ parts: [ToolRuns.Part]) {
            var initial = State()
            for part in parts {
                let counts = part.counts.map { Int(clamping: $0) } + [0, 0, 0, 0]
                initial.outcome.users += counts[0]
                initial.outcome.days += counts[1]
                initial.outcome.mended += counts[2]
                initial.outcome.moved += counts[3]
                let place = range(part.name)
                let fraction = UserID(part.position).flatMap { place?.fraction(of: $0) }
                initial.fractions[part.name] = part.isFinished ? 1 : fraction ?? 0
            }
            state = Mutex(initial)
        }

        func note(_ part: String, _ outcome: CanonicalMending.Outcome, fraction: Double) {
            state.withLock { state in
                state.outcome.users += outcome.users
                state.outcome.days += outcome.days
                state.outcome.mended += outcome.mended
                state.outcome.moved += outcome.moved
                state.new += outcome.users
                state.fractions[part] = fraction
            }
        }

        func finish(_ part: String) { state.withLock { $0.fractions[part] = 1 } }

        var now: (outcome: CanonicalMending.Outcome, users: Int, fraction: Double) {
            state.withLock { state in
                let sum = state.fractions.values.reduce(0, +)
                return (state.outcome, state.new, sum / Double(max(1, state.fractions.count)))
            }
        }
    }
}

import DevelopmentStack
import Domain
import Foundation
import Postgres
import ServiceRuntime
import Storage
import Synchronization

/// Compares canonical days with what their source rows say.
enum VerifyCommand: Command {
    static let spec = CommandSpec(
        path: ["verify"],
        summary: "recomputes canonical days and says where they differ from what is stored",
        description: [
            "Makes the canonical days anew from the source rows and the pins, and compares them with the stored ones, by "
                + "metric. It only reads, in short snapshots, and may run beside the workers at any time. What it finds "
                + "is named by user and day, without values: `daybook day show` explains one.",
            "Days that were made by other rules than the active ones are counted apart: they are no drift, and `daybook "
                + "recompute` moves them. Days that retention is about to drop are left out.",
        ],
        options: [
            .value("sample", "COUNT", "So many users by chance instead of all."),
            .value("jobs", "COUNT", "Connections that read at once.", default: "as many as processors, at most 8"),
            .flag("json", "The outcome as JSON."),
        ],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's database")],
        examples: [
            .init("daybook verify", "Everything."),
            .init("daybook verify --sample 1000", "A thousand users by chance: for every hour."),
        ],
        statuses: [
            .init(.success, "no drift"),
            .init(.failure, "days are not what their rows say"),
            .init(.temporaryFailure, "stopped before the end"),
            .init(.unavailable, "the database does not answer"),
        ]
    )

    static let pageUsers = 50

    static func jobs(_ arguments: Arguments) throws -> Int {
        let processors = min(8, max(1, ProcessInfo.processInfo.activeProcessorCount))
        return try arguments.integer("jobs", in: 1...64) ?? processors
    }

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let signals = StopSignals()
        let jobs = try jobs(arguments)
        let sample = try arguments.integer("sample", in: 1...100_000_000)
        let access = try StackAccess(context)
        let connection = try access.connect()
        // Before threads are started: one clear error instead of several.
        try SchemaGate.checkRules(connection)
        let tally = Tally()
        let progress = Progress(context.console, "verify", unit: "users")
        defer { progress.finish() }
        let parts = try parts(UserPages(connection), sample: sample)
        let isWhole = try PartWorkers.run(
            parts,
            jobs: jobs,
            signals,
            setup: { _ in UserPages(try access.connect()) },
            work: { part, pages, stop in
                try Self.verify(part, pages, tally, isStopped: { stop.isRaised })
            },
            tick: {
                let (report, finished) = tally.now
                progress.show(report.users, of: 0, fraction: Double(finished) / Double(max(1, parts.count)))
            }
        )
        progress.finish()
        let report = tally.now.report
        if arguments.has("json") {
            context.console.print(report.json.text())
        } else {
            for line in report.text(context.console.out) { context.console.print(line) }
        }
        if report.drifted > 0 { return .failure }
        guard isWhole else {
            context.console.note("stopped before the end: the rest was not looked at")
            return .temporaryFailure
        }
        return .success
    }

    private enum Part: Sendable {
        case range(UserRange)
        case users([UserID])
    }

    private static func parts(_ pages: UserPages, sample: Int?) throws -> [Part] {
        guard let sample else {
            guard let bounds = try pages.bounds() else { return [.range(.all)] }
            return UserRange.parts(256, between: bounds.lowest, and: bounds.highest).map { .range($0) }
        }
        let users = try pages.sample(sample).sorted()
        return stride(from: 0, to: users.count, by: pageUsers).map { start in
            .users(Array(users[start..<min(start + pageUsers, users.count)]))
        }
    }

    private static func verify(
        _ part: Part,
        _ pages: UserPages,
        _ tally: Tally,
        isStopped: () -> Bool
    ) throws {
        switch part {
        case .users(let users): tally.add(try pages.snapshot(of: users))
        case .range(var range):
            while !isStopped(), let page = try pages.snapshot(range, limit: pageUsers) {
                tally.add(page)
                guard let next = page.last.successor, page.last < range.last else { break }
                range.first = next
            }
        }
        tally.finishPart()
    }

    private final class Tally: Sendable {
        private let state = Mutex<(report: DriftReport, finished: Int)>((DriftReport(), 0))

        /// Compared outside of the lock.
        func add(_ page: UserPage) {
            var report = DriftReport()
            report.add(page)
            state.withLock { [report] in $0.report += report }
        }

        func finishPart() { state.withLock { $0.finished += 1 } }

        var now: (report: DriftReport, finished: Int) { state.withLock { $0 } }
    }
}

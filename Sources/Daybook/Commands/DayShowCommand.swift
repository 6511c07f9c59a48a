import DevelopmentStack
import Domain
import Storage

/// A user's days, explained.
enum DayShowCommand: Command {
    static let spec = CommandSpec(
        path: ["day", "show"],
        summary: "shows a user's days and why each value counts",
        description: [
            "Shows a user's canonical days: for every metric each source's value, when it was read, whether the day was "
                + "over by then, and what became of it: the one that counts, and why the others do not. Where a stored "
                + "value is not what the rules make of the rows below it, that is said.",
            "The rules: zeros fall where a device has more; one origin counts for a source; a pin goes first; else the "
                + "metric's own rule decides, highest or first in order; check-ins and typed values count only where "
                + "no device has any.",
            "Reads the database; a person's health is on the screen afterwards.",
        ],
        arguments: [
            ArgumentSpec("USER", "The user's UUID. Default: the local demonstration's user.", required: false),
            ArgumentSpec("DATE", "One day, YYYY-MM-DD.", required: false),
        ],
        options: [
            .value("from", "DATE", "First day.", default: "six days before the last"),
            .value("to", "DATE", "Last day.", default: "tomorrow in UTC"),
            .flag("brief", "Only the values that count."),
            .flag("json", "Everything as JSON."),
        ],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's database")],
        examples: [
            .init("daybook day show", "The last seven days of the demonstration's user."),
            .init(
                "daybook day show 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 2026-09-02 --json",
                "One day of somebody, for a script."
            ),
        ],
        statuses: [
            .init(.failure, "the user has no such day, or a value is not what the rules make of its rows"),
            .init(.unavailable, "the database does not answer"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try StackAccess(context)
        guard let user = UserID(arguments.positional(0) ?? access.record?.user ?? "") else {
            throw CommandFailure.usage(
                "USER takes a UUID of 36 characters",
                next: "Without one the user of the local demonstration is shown, if there was a demonstration."
            )
        }
        let days = try range(arguments)
        let reads = DayReads(try access.connect())
        let preferences = try reads.account(user)?.preferences ?? Preferences()
        let records = try dayRecords(reads, user, days)
        let explanations = records.map { DayExplanation($0, preferences: preferences) }
        let console = context.console
        if arguments.has("json") {
            console.print(DayText.json(user: user, explanations).text())
        } else if records.isEmpty {
            console.note("\(user) has no day from \(days.lowerBound) to \(days.upperBound)")
            console.note("  --from and --to show others; a push is applied within about a second.")
        } else if arguments.has("brief") {
            var canonical: [CalendarDay: CanonicalDay] = [:]
            for record in records { canonical[record.day] = record.canonical }
            for line in DayText.summary(canonical, console.out) { console.print(line) }
        } else {
            for (index, explanation) in explanations.enumerated() {
                if index > 0 { console.print() }
                for line in DayText.explained(explanation, console.out) { console.print(line) }
            }
        }
        let hasDrifted = explanations.contains { $0.values.contains(where: \.hasDrifted) }
        return records.isEmpty || hasDrifted ? .failure : .success
    }

    /// The days that the command line asks for.
    static func range(_ arguments: Arguments, today: CalendarDay = Instant.now.day(secondsFromUTC: 0)) throws
        -> ClosedRange<CalendarDay>
    {
        if let text = arguments.positional(1) {
            guard let day = CalendarDay(text) else {
                throw CommandFailure.usage("DATE takes a day as YYYY-MM-DD", next: "Such as \(today).")
            }
            guard arguments.value("from") == nil, arguments.value("to") == nil else {
                throw CommandFailure.usage("DATE and --from or --to exclude each other", next: "Give one of them.")
            }
            return day...day
        }
        let from = try arguments.day("from")
        let to = try arguments.day("to")
        let last = to ?? max(from ?? today, today).advanced(by: 1)
        let first = from ?? last.advanced(by: -7)
        guard first <= last else {
            throw CommandFailure.usage("--from \(first) is after --to \(last)", next: "Exchange them.")
        }
        return first...last
    }

    static func dayRecords(
        _ reads: DayReads,
        _ user: UserID,
        _ days: ClosedRange<CalendarDay>
    ) throws -> [DayRecord] {
        var rows: [CalendarDay: [SourceRow]] = [:]
        for found in try reads.sourceRows(of: user, days) { rows[found.day] = found.rows }
        var canonical: [CalendarDay: DayReads.StoredCanonicalDay] = [:]
        for found in try reads.canonicalDays(of: user, days) { canonical[found.key.day] = found }
        return Set(rows.keys).union(canonical.keys).sorted().map { day in
            DayRecord(
                day: day,
                canonical: canonical[day]?.day,
                ruleVersion: canonical[day]?.ruleVersion,
                rows: rows[day] ?? []
            )
        }
    }
}

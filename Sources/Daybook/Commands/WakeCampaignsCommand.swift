import Domain
import Storage
import WakeRules

/// What became of the rounds of sends.
enum WakeCampaignsCommand: Command {
    static let spec = CommandSpec(
        path: ["wake", "campaigns"],
        summary: "shows how many wakes were sent, accepted and answered",
        description: [
            "Shows each hour's round of sends by platform and app version: wakes that a push server took up, or may "
                + "have; those that were not sent after all (a stop, a worker's end, a server that refused or could "
                + "not be reached), which count against nobody and are tried again; those that a push server accepted, "
                + "and how many of those a push of the phone answered within ten minutes, an hour, and four "
                + "hours. NEW DATA counts the accepted ones whose answer changed a value.",
            "Accepted is not delivered: the systems of the phones decide which wakes reach the app.",
        ],
        options: [
            .value("since", "TIME", "How far back.", default: "24h"), .flag("json", "All of it as JSON."),
        ],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's")],
        examples: [.init("daybook wake campaigns --since 7d", "A week.")],
        statuses: [.init(.unavailable, "the database does not answer")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let seconds = try arguments.duration("since") ?? 86_400
        let reports = WakeReports(try StackAccess(context).connect())
        let campaigns = try reports.campaigns(since: Instant.now.advanced(bySeconds: -seconds))
        if arguments.has("json") {
            context.console.print(JSONDocument.object([("campaigns", .array(campaigns.map(json)))]).text())
        } else if campaigns.isEmpty {
            context.console.note("no wakes in this time")
        } else {
            for line in lines(campaigns, context.console.out) { context.console.print(line) }
        }
        return .success
    }

    static func lines(_ campaigns: [WakeReports.Campaign], _ style: TextStyle) -> [String] {
        var table = TextTable([
            .left("ROUND"), .left("PLATFORM"), .left("APP"), .right("SENT"), .right("NOT SENT"), .right("ACCEPTED"),
            .right("10 MIN"),
            .right("1 H"), .right("4 H"), .right("NEW DATA"),
        ])
        for round in campaigns {
            table.add([
                round.began.short, round.platform, round.appVersion, grouped(round.sent), grouped(round.notSent),
                grouped(round.accepted), grouped(round.within10Minutes), grouped(round.within1Hour),
                grouped(round.within4Hours),
                grouped(round.broughtData),
            ])
        }
        return table.lines(style)
    }

    private static func json(_ round: WakeReports.Campaign) -> JSONDocument {
        .object([
            ("round", .string(round.began.description)), ("platform", .string(round.platform)),
            ("app_version", .string(round.appVersion)), ("sent", .integer(round.sent)),
            ("not_sent", .integer(round.notSent)),
            ("accepted", .integer(round.accepted)), ("answered_within_10_minutes", .integer(round.within10Minutes)),
            ("answered_within_1_hour", .integer(round.within1Hour)),
            ("answered_within_4_hours", .integer(round.within4Hours)),
            ("brought_data", .integer(round.broughtData)),
        ])
    }
}

import Domain
import Storage

/// What the tables mean, as a number each.
enum HashCommand: Command {
    static let spec = CommandSpec(
        path: ["hash"],
        summary: "prints what the tables mean as numbers to compare",
        description: [
            "Prints a hash of all source days (values, whether their day was over, and effective versions), one of "
                + "all canonical days (values and winners) and one of all device tokens (registrations, withdrawals and "
                + "owners), each with the number of rows. Two databases that applied the same records have the same "
                + "hashes, in whatever order and however often they did: compare before and after a replay.",
            "Reads the tables whole, in one snapshot. While workers write, two runs differ.",
        ],
        options: [.flag("json", "The hashes as JSON.")],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's database")],
        examples: [.init("daybook hash", "Before `daybook rewind`, and after the lag is gone again.")],
        statuses: [.init(.unavailable, "the database does not answer")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let hashes = try DayReads(try StackAccess(context).connect()).tableHashes()
        let rows = [
            ("source_days", hashes.sources), ("canonical_days", hashes.canonical), ("device_tokens", hashes.devices),
        ]
        if arguments.has("json") {
            let members = rows.map { name, hash in
                (
                    name,
                    JSONDocument.object([
                        ("hash", .string(String(hash.description.prefix { $0 != "/" }))), ("rows", .integer(hash.rows)),
                    ])
                )
            }
            context.console.print(JSONDocument.object(members).text())
        } else {
            for (name, hash) in rows { context.console.print("\(name) \(hash)") }
        }
        return .success
    }
}

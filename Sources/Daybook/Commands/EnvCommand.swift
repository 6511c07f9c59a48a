import Authentication
import DevelopmentStack
import Domain
import Foundation

/// The local stack's addresses for a shell.
enum EnvCommand: Command {
    static let spec = CommandSpec(
        path: ["env"],
        summary: "prints the local stack's addresses for a shell",
        description: [
            "Prints export lines for the running stack: DAYBOOK_URL, DAYBOOK_TOKEN (of the user whose days the "
                + "demonstration posted, for a day), DAYBOOK_DATABASE_URL, DAYBOOK_KAFKA_BROKERS, and PGHOST, PGPORT, "
                + "PGUSER and PGDATABASE, so that `psql` needs no argument.",
            "The database is reached over its socket, which only the user who started the stack may use and which "
                + "needs no password.",
        ],
        options: [
            .value("user", "UUID", "The user of the token. Default: the demonstration's."),
            .flag("json", "An object instead of export lines."),
        ],
        examples: [
            .init("eval \"$(daybook env)\"", "Sets them in this shell."),
            .init("curl -i $DAYBOOK_URL/v1/days -H \"Authorization: Bearer $DAYBOOK_TOKEN\" …", "What they are for."),
        ],
        statuses: [.init(.unavailable, "no local stack runs")]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try StackAccess(context)
        guard let record = access.record else {
            throw CommandFailure(
                .unavailable,
                "no stack runs in \(access.folder.path)",
                next: "Start one with `daybook up`; this command describes the stack of this folder only."
            )
        }
        let user = try arguments.user("user") ?? record.user.flatMap { UserID($0) } ?? newUser()
        let token = try access.tokenMinter().mint(subject: user.description, now: .now, validFor: 86_400)
        var pairs: [(String, String)] = []
        if let url = record.url { pairs.append(("DAYBOOK_URL", url)) }
        pairs.append(("DAYBOOK_TOKEN", token))
        if let brokers = record.kafkaBrokers {
            pairs.append(("DAYBOOK_KAFKA_BROKERS", brokers))
            // By this the next `daybook up` in the same shell knows that it has to start a broker again.
            if record.brokerIsOurs { pairs.append(("DAYBOOK_DEVELOPMENT_BROKER", "true")) }
        }
        if let url = record.databaseURL {
            pairs.append(("DAYBOOK_DATABASE_URL", url))
            pairs += pgVariables(url)
        }
        if arguments.has("json") {
            context.console.print(JSONDocument.object(pairs.map { ($0.0, .string($0.1)) }).text())
        } else {
            for (name, value) in pairs { context.console.print("export \(name)=\(shellQuoted(value))") }
        }
        return .success
    }

    /// libpq's variables for a URL. Pure.
    static func pgVariables(_ url: String) -> [(String, String)] {
        guard let parts = URLComponents(string: url) else { return [] }
        func query(_ name: String) -> String? { parts.queryItems?.first { $0.name == name }?.value }
        let host = query("host") ?? parts.host.flatMap { $0.isEmpty ? nil : $0 }
        let port = query("port") ?? parts.port.map(String.init)
        let database = parts.path.dropFirst()
        let found: [(String, String?)] = [
            ("PGHOST", host), ("PGPORT", port), ("PGUSER", parts.user),
            ("PGDATABASE", database.isEmpty ? nil : String(database)),
        ]
        return found.compactMap { name, value in value.map { (name, $0) } }
    }
}

/// Safe in any POSIX shell.
func shellQuoted(_ text: String) -> String {
    "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
}

import Authentication
import Domain

/// Mints a token.
enum TokenCommand: Command {
    static let spec = CommandSpec(
        path: ["token"],
        summary: "mints a token for a user",
        description: [
            "Prints a JWT that the ingest accepts, alone on a line: HS256, or RS256 or ES256 with --key. In production "
                + "your own identity server mints them, with a key that the ingest knows: `sub` is the user (a UUID; any other text is mapped to one), `exp` "
                + "is required, `role`, `time_zone` and `platform` are optional.",
            "A token is a key to a person's account: it belongs in no log and no chat.",
        ],
        options: [
            .value("user", "UUID", "Whose token. Default: a new random user, who is named on standard error."),
            .value(
                "role",
                "ROLE",
                "user (writes own days), connector (writes cloud sources) or operator.",
                default: "user"
            ),
            .value("ttl", "TIME", "How long it holds: 15m, 12h, 30d.", default: "12h"),
            .value("time-zone", "ZONE", "The claim time_zone: an IANA name, used where a request names none."),
            .value("platform", "NAME", "The claim platform: ios or android."),
            .value("key", "FILE", "Sign with this private key (PEM; RSA or P-256) instead of the shared secret."),
            .value("kid", "ID", "With --key: the key's id, as the ingest's JWKS has it."),
            .flag("json", "The token, its user and its end as JSON."),
        ],
        environment: [
            (
                "DAYBOOK_JWT_HS256_SECRET_FILE",
                "a file with the key (or the key itself, without _FILE); else the local stack's"
            ),
            ("DAYBOOK_JWT_ISSUER", "the claim iss; likewise DAYBOOK_JWT_AUDIENCE for aud"),
        ],
        examples: [
            .init("daybook token --user 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 --ttl 30d", "A token for a month."),
            .init("TOKEN=$(daybook token)", "A token for a new user."),
        ],
        statuses: [
            .init(.unavailable, "no key: no local stack runs, and none is set"),
            .init(.configuration, "the key is too short"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let access = try StackAccess(context)
        let user = try arguments.user("user") ?? newUser()
        let seconds = try arguments.duration("ttl") ?? 12 * 3600
        let role = try choice(arguments, "role", Role.init(rawValue:), Role.allCases.map(\.rawValue)) ?? .user
        let platform = try choice(arguments, "platform", Platform.init(rawValue:), ["ios", "android"])
        let now = Instant.now
        guard arguments.value("kid") == nil || arguments.value("key") != nil else {
            throw CommandFailure.usage("--kid names the key of --key", next: "Add --key FILE, or leave --kid out.")
        }
        let minter =
            if let path = arguments.value("key") {
                try access.tokenMinter(privateKey: path, keyID: arguments.value("kid"))
            } else {
                try access.tokenMinter()
            }
        let token = try minter.mint(
            subject: user.description,
            role: role,
            timeZone: arguments.value("time-zone"),
            platform: platform,
            now: now,
            validFor: seconds
        )
        if arguments.has("json") {
            let document = JSONDocument.object([
                ("token", .string(token)), ("user", .string(user.description)), ("role", .string(role.rawValue)),
                ("expires_at", .string(now.advanced(bySeconds: seconds).description)),
            ])
            context.console.print(document.text())
        } else {
            if arguments.value("user") == nil { context.console.note("user \(user)") }
            context.console.print(token)
        }
        return .success
    }

    private static func choice<Value>(
        _ arguments: Arguments,
        _ option: String,
        _ read: (String) -> Value?,
        _ names: [String]
    ) throws -> Value? {
        guard let text = arguments.value(option) else { return nil }
        if let value = read(text) { return value }
        throw CommandFailure.usage(
            "--\(option) takes \(names.joined(separator: ", ")), not '\(text)'",
            next: "`daybook token --help` says what each means."
        )
    }
}

/// A user that nobody has had before.
func newUser() -> UserID {
    var generator = SystemRandomNumberGenerator()
    return UserID(
        high: generator.next() & ~0xf000 | 0x4000,
        low: generator.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000
    )
}

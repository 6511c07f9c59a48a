import Domain
import Storage

/// A user's devices, as far as pushes are concerned.
enum UserDevicesCommand: Command {
    static let spec = CommandSpec(
        path: ["user", "devices"],
        summary: "shows a user's device tokens, without the tokens",
        description: [
            "Shows each device token that the user has registered or withdrawn, by the beginning of its SHA-256: live "
                + "(a push may be sent to it), withdrawn, dead (Apple or Google said so, and the app has not "
                + "registered it since), or gone (another user has registered it since, or the account was deleted).",
            "The token itself does not leave the database.",
        ],
        arguments: [ArgumentSpec("USER", "The user's UUID.")],
        options: [.flag("json", "All of it as JSON.")],
        environment: [("DAYBOOK_DATABASE_URL", "else the local stack's database")],
        examples: [.init("daybook user devices 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10", "Whether there is one to wake.")],
        statuses: [
            .init(.failure, "no token of the user is live"), .init(.unavailable, "the database does not answer"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let user = try arguments.requiredUser()
        let devices = try DeviceTokens(try StackAccess(context).connect()).shown(of: user)
        if arguments.has("json") {
            context.console.print(JSONDocument.array(devices.map(json)).text())
        } else if devices.isEmpty {
            context.console.note("\(user) has no device token")
            context.console.note("  Apps register theirs at every launch, by POST /v1/device-tokens.")
        } else {
            for line in text(devices, context.console.out) { context.console.print(line) }
        }
        return devices.contains { $0.isLive } ? .success : .failure
    }

    /// Enough to tell one user's tokens apart.
    static func name(_ hash: DeviceTokenHash) -> String { String(decoding: hash.hex.prefix(12), as: UTF8.self) }

    /// Pure.
    static func state(_ device: DeviceTokens.Shown) -> String {
        let entry = device.entry
        if device.isLive { return "live" }
        if entry.withdrawn >= entry.registered { return "withdrawn" }
        return entry.registration == nil ? "gone" : "dead"
    }

    private static func time(_ version: Version) -> String? {
        version.rawValue > 0 ? version.instant.description : nil
    }

    private static func text(_ devices: [DeviceTokens.Shown], _ style: TextStyle) -> [String] {
        var table = TextTable([
            .left("TOKEN"), .left("STATE"), .left("PLATFORM"), .left("ENVIRONMENT"), .left("APP"), .left("VERSION"),
            .left("REGISTERED"), .left("WITHDRAWN"),
        ])
        for device in devices {
            let known = device.entry.registration
            table.add([
                name(device.hash), state(device), known?.platform.rawValue ?? "", known?.environment.rawValue ?? "",
                known?.appID ?? "", known?.appVersion ?? "", time(device.entry.registered) ?? "never",
                time(device.entry.withdrawn) ?? "never",
            ])
        }
        return table.lines(style)
    }

    static func json(_ device: DeviceTokens.Shown) -> JSONDocument {
        let entry = device.entry
        func text(_ value: String?) -> JSONDocument { value.map { .string($0) } ?? .null }
        return .object([
            ("token_hash_prefix", .string(name(device.hash))), ("state", .string(state(device))),
            ("platform", text(entry.registration?.platform.rawValue)),
            ("environment", text(entry.registration?.environment.rawValue)),
            ("app_id", text(entry.registration?.appID)), ("app_version", text(entry.registration?.appVersion)),
            ("os_version", text(entry.registration?.osVersion)), ("time_zone", text(entry.registration?.timeZone)),
            ("registered_at", text(time(entry.registered))), ("withdrawn_at", text(time(entry.withdrawn))),
            (
                "deactivated_at",
                entry.deactivatedAt.microseconds > 0 ? .string(entry.deactivatedAt.description) : .null
            ),
        ])
    }
}

import DevelopmentStack
import Foundation
import PushStandIn

/// Our own server in the place of Apple's and Google's.
enum PushStandInCommand: Command {
    static let spec = CommandSpec(
        path: ["push-stand-in"],
        summary: "runs a stand-in for Apple's and Google's push servers",
        description: [
            "Runs a server on 127.0.0.1 that speaks HTTP/2 over TLS as APNs and FCM do, and answers every push with 200, "
                + "or as a script says. For development and tests only; `daybook up` runs one by itself.",
            "In its folder it leaves stand-in-authority.pem (DAYBOOK_PUSH_CA_FILE of a wake worker) and, unless there is "
                + "one, apns-key.p8 (DAYBOOK_APNS_KEY_FILE). A wake worker reaches it as localhost:PORT.",
            "Prints the address, then runs until SIGINT or SIGTERM.",
        ],
        options: [
            .value("folder", "DIR", "Where keys and certificates go; it is made."),
            .value("port", "PORT", "The port on 127.0.0.1; 0 takes a free one.", default: "0"),
            .value("script", "FILE", "What to answer, as JSON; read again whenever it has changed."),
            .value("record", "FILE", "Gets a line of JSON for each request that came."),
            .value("address-file", "FILE", "Writes host:port there once it can be reached; removed at the end."),
        ],
        examples: [
            .init("daybook push-stand-in --folder /tmp/stand-in --port 8443", "A stand-in under a port of your choice.")
        ],
        statuses: [
            .init(.unavailable, "the port is taken, or the server could not start"),
            .init(.cannotCreate, "the folder can't be made or written to"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let signals = StopSignals()
        guard let folder = arguments.value("folder") else {
            throw CommandFailure.usage("--folder is missing", next: "Name a folder for keys and certificates.")
        }
        var options = PushStandIn.Options()
        options.port = UInt16(clamping: try arguments.integer("port", in: 0...65_535) ?? 0)
        options.scriptFile = arguments.value("script")
        options.recordFile = arguments.value("record")
        try prepare(folder)
        let standIn: PushStandIn
        do throws(PushStandIn.Failure) {
            standIn = try PushStandIn(folder: folder, options: options)
        } catch {
            throw CommandFailure(
                .unavailable,
                error.description,
                next: "`daybook push-stand-in --port 0` takes a free port."
            )
        }
        let file = arguments.value("address-file")
        if let file { try write("127.0.0.1:\(standIn.port)\n", file) }
        context.console.print(
            "push stand-in listening on localhost:\(standIn.port), authority \(standIn.authorityFile)"
        )
        while signals.wait(milliseconds: 60_000) == nil {}
        if let file { try? FileManager.default.removeItem(atPath: file) }
        standIn.stop()
        return .success
    }

    private static func prepare(_ folder: String) throws {
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch {
            throw CommandFailure(
                .cannotCreate,
                "can't make \(folder): \(error.localizedDescription)",
                next: "Name a folder that you may write to."
            )
        }
        let key = folder + "/apns-key.p8"
        guard !FileManager.default.fileExists(atPath: key) else { return }
        try write(String(decoding: DevelopmentKeys.p256() ?? [], as: UTF8.self), key)
        try? FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key)
    }

    private static func write(_ text: String, _ file: String) throws {
        do {
            try Data(text.utf8).write(to: URL(fileURLWithPath: file), options: .atomic)
        } catch {
            throw CommandFailure(
                .cannotCreate,
                "can't write \(file): \(error.localizedDescription)",
                next: "Name a file in a folder that exists and that you may write to."
            )
        }
    }
}

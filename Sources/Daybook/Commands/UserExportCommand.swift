import Configuration
import Domain
import Kafka
import MessageContract
import Storage

/// Everything that is known of a user.
enum UserExportCommand: Command {
    static let spec = CommandSpec(
        path: ["user", "export"],
        summary: "writes everything that is known of a user as JSON",
        description: [
            "Reads every table of the database that has rows of the user, in one snapshot, and says where in Kafka "
                + "records of the user may still lie: the partition of each topic that is keyed by user, and the dead "
                + "letters. With --search these partitions are read to their end, and the user's records are named by "
                + "their offsets (a device's records are found by the user in them).",
            "After a deletion it shows what is left: the account's row with the time up to which everything is deleted, "
                + "and records that wait for their topic's retention. docs/PRIVACY.md says what is kept where.",
            "What it writes is a person's health. --output makes a file that only you can read.",
        ],
        arguments: [ArgumentSpec("USER", "The user's UUID.")],
        options: [
            .value("output", "FILE", "Write it there; the file must not exist yet.", default: "standard output"),
            .flag("search", "Also read the log, and name the user's records."),
            .flag("no-log", "Do not ask Kafka at all."),
        ],
        environment: [
            ("DAYBOOK_DATABASE_URL", "else the local stack's"), ("DAYBOOK_KAFKA_BROKERS", "else the local stack's"),
        ],
        examples: [
            .init(
                "daybook user export 3f0e8f9e-6a43-4c0b-9d0c-6f1f3b8f6f10 --output export.json --search",
                "For a person who asked for their data."
            )
        ],
        statuses: [
            .init(.success, "exported, also if nothing is known of the user"),
            .init(.cannotCreate, "the file exists, or can't be made"),
            .init(.unavailable, "PostgreSQL or Kafka does not answer; without Kafka the rest is written"),
        ]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let user = try arguments.requiredUser()
        let access = try StackAccess(context)
        let file = try arguments.value("output").map { try PrivateFile($0) }
        let connection = try access.connect()
        let export = try UserExport.read(user, connection)
        var log: [UserExportText.LogPlace]?
        var letters: [KnownLetter]?
        var failure: CommandFailure?
        if !arguments.has("no-log") {
            do {
                log = try places(of: user, access, searches: arguments.has("search"))
                letters = try DeadLetterDesk(access).open().letters.filter { $0.letter.user == user }
            } catch {
                failure = CommandFailure.from(error)
            }
        }
        let document = UserExportText.json(user, export, log: log, letters: letters, at: .now)
        if let file {
            try file.write(document.text() + "\n")
            try file.close()
        } else {
            context.console.print(document.text())
        }
        if let failure { throw failure }
        return .success
    }

    private static func places(
        of user: UserID,
        _ access: StackAccess,
        searches: Bool
    ) throws -> [UserExportText.LogPlace] {
        let admin = try access.kafkaAdmin()
        let scan = LogScan(try access.kafkaReader())
        var places: [UserExportText.LogPlace] = []
        for topic in Topic.allCases where topic != .deadLetters {
            let name = topic.name(prefix: access.configuration.topicPrefix)
            let stretches = try LogScan.everything(in: name, admin)
            for stretch in stretches {
                if topic.isKeyedByUser {
                    let own = Partitioner.partition(of: user, partitions: stretches.count)
                    // Before partitions were added, records lay elsewhere: only a search sees these.
                    guard searches || stretch.place.partition == Int32(own) else { continue }
                }
                var place = UserExportText.LogPlace(
                    topic: name,
                    partition: stretch.place.partition,
                    begin: stretch.start,
                    end: stretch.end,
                    retentionDays: topic.retentionDays
                )
                if searches {
                    place.found = try search(stretch, for: user, byKey: topic.isKeyedByUser, scan)
                }
                if place.found?.isEmpty == true { continue }
                places.append(place)
            }
        }
        return places
    }

    private static func search(
        _ stretch: LogScan.Stretch,
        for user: UserID,
        byKey: Bool,
        _ scan: LogScan
    ) throws -> [Int64] {
        let wanted = Array(user.description.utf8)
        var found: [Int64] = []
        try scan.read(stretch) { record in
            let isTheirs =
                byKey
                ? record.withKey { $0?.elementsEqual(wanted) ?? false }
                : record.withValue { value in value.map { contains($0, wanted) } ?? false }
            if isTheirs { found.append(record.offset) }
            return true
        }
        return found
    }

    /// Whether the bytes occur in there.
    static func contains(_ bytes: UnsafeRawBufferPointer, _ wanted: [UInt8]) -> Bool {
        guard !wanted.isEmpty, bytes.count >= wanted.count else { return false }
        return (0...(bytes.count - wanted.count)).contains { start in
            bytes[start] == wanted[0] && bytes[start..<(start + wanted.count)].elementsEqual(wanted)
        }
    }
}

import Domain
import Kafka
import MessageContract
import Storage

/// One dead letter with its headers.
enum DeadLettersShowCommand: Command {
    static let spec = CommandSpec(
        path: ["dead-letters", "show"],
        summary: "shows one dead letter: where it stood, why it is here, its headers",
        description: [
            "Shows where the record stood, why and by which build it was put aside, what was decided about it, and its "
                + "headers. With --value also what it holds, which may be a person's health; as text where it is text, "
                + "else in hexadecimal.",
            "A record that failed again after a redrive is another letter, with the next attempt's number.",
        ],
        arguments: [ArgumentSpec("LETTER", "TOPIC/PARTITION/OFFSET, as `daybook dead-letters list --each` shows it.")],
        options: [
            .flag("value", "Also what the record holds."),
            .flag("json", "The letter as JSON."),
        ],
        environment: DeadLetterDesk.environment,
        examples: [
            .init("daybook dead-letters show daybook.days.live.v1/3/1207", "Why it is here."),
            .init("daybook dead-letters show daybook.days.live.v1/3/1207 --value", "With what it holds."),
        ],
        statuses: [.init(.failure, "there is no such letter"), DeadLetterDesk.unavailable]
    )

    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode {
        let filter = try DeadLetterFilter(arguments, named: true, now: .now)
        guard filter.name != nil else {
            throw CommandFailure.usage("show takes one letter", next: "As TOPIC/PARTITION/OFFSET.")
        }
        let desk = try DeadLetterDesk(StackAccess(context))
        let letters = try desk.chosen(filter, all: true)
        let scan = LogScan(try desk.access.kafkaReader())
        let clusterID = try desk.clusterID()
        var documents: [JSONDocument] = []
        for (index, known) in letters.enumerated() {
            let record = try desk.record(of: known.letter, scan, clusterID: clusterID)
            let headers = record.map(Self.headers) ?? []
            let value = arguments.has("value") ? record.flatMap { $0.withValue { $0.map(Self.shown) } } : nil
            if arguments.has("json") {
                documents.append(json(known, headers, value))
                continue
            }
            if index > 0 { context.console.print() }
            for line in text(known, headers, value, context.console.out) { context.console.print(line) }
            if record == nil { context.console.note("the record itself is gone from the log") }
        }
        if arguments.has("json") { context.console.print(JSONDocument.array(documents).text()) }
        return .success
    }

    private static func headers(_ record: KafkaRecord) -> [(String, String)] {
        var headers: [(String, String)] = []
        record.forEachHeader { name, value in
            headers.append((String(decoding: name, as: UTF8.self), value.map(shown) ?? "null"))
        }
        return headers
    }

    /// Text as it is, anything else in hexadecimal; nothing that a terminal would obey.
    static func shown(_ bytes: UnsafeRawBufferPointer) -> String {
        let text = String(validating: bytes, as: UTF8.self)
        let isPlain = text?.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) }
        if let text, isPlain == true { return text }
        let digits = Array("0123456789abcdef")
        return "0x" + String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    static func text(
        _ known: KnownLetter,
        _ headers: [(String, String)],
        _ value: String?,
        _ style: TextStyle
    ) -> [String] {
        let letter = known.letter
        var lines = [
            style.heading(letter.name) + "  " + letter.reason,
            "  state      \(DeadLetterText.words(known.state))",
            "  attempt    \(letter.identity.attempt), put aside by \(letter.build)",
            "  key        \(letter.key ?? "none")",
            "  arrived    \(DayText.moment(letter.arrived))",
            "  size       \(grouped(letter.omittedBytes ?? letter.size)) bytes"
                + (letter.omittedBytes == nil ? "" : ", too large to be kept here"),
            "  lies at    partition \(letter.place.partition), offset \(letter.place.offset) of the dead letters",
            "  headers",
        ]
        lines += headers.map { "    \($0.0): \($0.1)" }
        if let value { lines += ["  value", "    " + value] }
        return lines
    }

    private static func json(_ known: KnownLetter, _ headers: [(String, String)], _ value: String?) -> JSONDocument {
        var members = DeadLetterText.members(known)
        members.append(("headers", .object(headers.map { ($0.0, .string($0.1)) })))
        if let value { members.append(("value", .string(value))) }
        return .object(members)
    }
}

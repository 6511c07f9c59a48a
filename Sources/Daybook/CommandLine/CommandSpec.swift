/// A value on the command line that has a place, not a name.
struct ArgumentSpec: Hashable, Sendable {
    let name: String
    let help: String
    let isRequired: Bool

    init(_ name: String, _ help: String, required: Bool = true) {
        self.name = name
        self.help = help
        isRequired = required
    }
}

struct OptionSpec: Hashable, Sendable {
    /// Without the dashes.
    let name: String
    /// How the value is called in the help; nil for a flag.
    let value: String?
    let help: String
    let defaultValue: String?
    let repeats: Bool

    static func flag(_ name: String, _ help: String) -> OptionSpec {
        OptionSpec(name: name, value: nil, help: help, defaultValue: nil, repeats: false)
    }

    static func value(
        _ name: String,
        _ value: String,
        _ help: String,
        default defaultValue: String? = nil,
        repeats: Bool = false
    ) -> OptionSpec {
        OptionSpec(name: name, value: value, help: help, defaultValue: defaultValue, repeats: repeats)
    }
}

/// What a command takes and does: the parser reads by it, and the help is made from it.
struct CommandSpec: Sendable {
    struct Example: Hashable, Sendable {
        let line: String
        let meaning: String

        init(_ line: String, _ meaning: String) {
            self.line = line
            self.meaning = meaning
        }
    }

    struct Status: Hashable, Sendable {
        let code: ExitCode
        let meaning: String

        init(_ code: ExitCode, _ meaning: String) {
            self.code = code
            self.meaning = meaning
        }
    }

    /// The words that call it: `["day", "show"]`.
    let path: [String]
    /// One line, for the overview.
    let summary: String
    /// Paragraphs; each is wrapped on its own.
    let description: [String]
    var arguments: [ArgumentSpec] = []
    var options: [OptionSpec] = []
    /// Environment variables that matter to this command, and what they do.
    var environment: [(name: String, help: String)] = []
    var examples: [Example] = []
    var statuses: [Status] = []

    var name: String { path.joined(separator: " ") }

    /// Every command takes these.
    static let commonOptions: [OptionSpec] = [
        .flag("help", "Show this help and end.")
    ]

    var allOptions: [OptionSpec] { options + Self.commonOptions }
}

/// One thing that `daybook` can do. A new command is a file in `Commands/` and a line in `CommandTable`.
protocol Command {
    static var spec: CommandSpec { get }

    /// Runs on the main thread and may block: the program does one thing at a time.
    static func run(_ arguments: Arguments, _ context: CommandContext) throws -> ExitCode
}

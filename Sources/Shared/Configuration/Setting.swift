/// One key: declared once, in a catalogue under `Settings`, and read through a `ConfigurationReader`.
public struct Setting<Value: Sendable>: Sendable {
    public let description: SettingDescription
    let format: Format<Value>

    init(
        _ key: String,
        _ format: Format<Value>,
        _ presence: SettingDescription.Presence,
        for programs: [Program],
        _ meaning: String
    ) {
        self.format = format
        description = SettingDescription(
            key: key,
            type: format.type,
            rule: format.rule,
            range: format.range,
            presence: presence,
            programs: programs,
            meaning: meaning,
            isSecret: Value.self == Secret.self,
            accepts: { format.parse($0) != nil }
        )
    }

    public var key: String { description.key }
}

/// What the documentation says of a setting.
public struct SettingDescription: Sendable {
    public enum Presence: Sendable {
        case required
        /// Without it, what it is for is left out.
        case optional
        /// Without it, the program works it out; the text says how.
        case derived(String)
        case defaults(to: String)
        case defaultsPerProgram([Program: String])
    }

    public let key: String
    public let type: String
    public let rule: String
    public let range: String
    public let presence: Presence
    public let programs: [Program]
    public let meaning: String
    public let isSecret: Bool
    let accepts: @Sendable (String) -> Bool

    /// The text that stands in where none is given, for this program.
    func defaultText(for program: Program) -> String? {
        switch presence {
        case .required, .optional, .derived: nil
        case .defaults(let text): text
        case .defaultsPerProgram(let texts): texts[program]
        }
    }

    /// Every default text there is, for tests and the table.
    var defaultTexts: [(program: Program?, text: String)] {
        switch presence {
        case .required, .optional, .derived: []
        case .defaults(let text): [(nil, text)]
        case .defaultsPerProgram(let texts):
            Program.allCases.compactMap { program in texts[program].map { (program, $0) } }
        }
    }
}

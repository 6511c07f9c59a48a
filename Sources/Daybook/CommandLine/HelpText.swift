/// The help as text, made from the specs alone.
enum HelpText {
    static let width = 100

    static func usage(_ spec: CommandSpec) -> String {
        var words = ["daybook"] + spec.path
        if !spec.options.isEmpty { words.append("[options]") }
        words += spec.arguments.map { $0.isRequired ? $0.name : "[\($0.name)]" }
        return words.joined(separator: " ")
    }

    static func command(_ spec: CommandSpec, _ style: TextStyle = .plain) -> String {
        var lines = ["daybook \(spec.name): \(spec.summary)"]
        func section(_ title: String, _ body: [String]) {
            guard !body.isEmpty else { return }
            lines += ["", style.heading(title)] + body
        }
        section("USAGE", ["  " + usage(spec)])
        var paragraphs: [String] = []
        for paragraph in spec.description {
            if !paragraphs.isEmpty { paragraphs.append("") }
            paragraphs += wrap(paragraph, width: width, indent: 2)
        }
        section("DESCRIPTION", paragraphs)
        section("ARGUMENTS", definitions(spec.arguments.map { ($0.name, $0.help) }))
        section("OPTIONS", definitions(spec.allOptions.map { (label($0), help($0)) }))
        section("ENVIRONMENT", definitions(spec.environment.map { ($0.name, $0.help) }))
        section(
            "EXAMPLES",
            spec.examples.flatMap { ["  " + style.strong($0.line)] + wrap($0.meaning, width: width, indent: 6) }
        )
        var meanings: [Int32: String] = [0: "done", ExitCode.usage.rawValue: "the command line was wrong"]
        for status in spec.statuses { meanings[status.code.rawValue] = status.meaning }
        section("EXIT STATUS", definitions(meanings.sorted { $0.key < $1.key }.map { (String($0.key), $0.value) }))
        return lines.joined(separator: "\n")
    }

    static func overview(_ specs: [CommandSpec], under words: [String] = [], _ style: TextStyle = .plain) -> String {
        let shown = specs.filter { $0.path.starts(with: words) }
        var lines = ["daybook: runs and inspects Daybook, the server side of health-day sync"]
        lines += ["", style.heading("USAGE")]
        lines.append("  daybook \((words + ["COMMAND"]).joined(separator: " ")) [options]")
        lines += ["", style.heading("COMMANDS")] + definitions(shown.map { ($0.name, $0.summary) })
        if words.isEmpty {
            lines += ["", style.heading("EVERYWHERE")]
            lines += definitions([
                ("COMMAND --help", "what it does, its options, examples and exit status"),
                ("--version", "which build this is"),
                ("NO_COLOR=1", "no colours; there are none anyway where the output is not a terminal"),
                ("DAYBOOK_STATE", "the folder of the local stack; else .daybook in the checkout"),
            ])
            lines += [
                "",
                "  Start with `daybook up`: it runs everything on this machine and shows it working.",
            ]
        }
        return lines.joined(separator: "\n")
    }

    private static func label(_ option: OptionSpec) -> String {
        "--" + option.name + (option.value.map { " " + $0 } ?? "") + (option.name == "help" ? ", -h" : "")
    }

    private static func help(_ option: OptionSpec) -> String {
        var help = option.help
        if option.repeats { help += " May be given several times." }
        if let value = option.defaultValue { help += " Default: \(value)." }
        return help
    }

    /// Names in one column, explanations wrapped in the next.
    private static func definitions(_ rows: [(name: String, help: String)]) -> [String] {
        let longest = rows.map(\.name.count).max() ?? 0
        let column = min(longest, 26) + 4
        return rows.flatMap { row -> [String] in
            var help = wrap(row.help, width: width, indent: column)
            let name = "  " + row.name
            guard name.count + 2 <= column, let first = help.first else { return [name] + help }
            help[0] = name + first.dropFirst(name.count)
            return help
        }
    }
}

/// Breaks at spaces so that no line is longer than `width`, unless one word is.
func wrap(_ text: String, width: Int, indent: Int = 0) -> [String] {
    let margin = String(repeating: " ", count: indent)
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
        if line.isEmpty {
            line = String(word)
        } else if indent + line.count + 1 + word.count <= width {
            line += " " + word
        } else {
            lines.append(margin + line)
            line = String(word)
        }
    }
    if !line.isEmpty { lines.append(margin + line) }
    return lines
}

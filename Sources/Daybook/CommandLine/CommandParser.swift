/// Reads the command line against the commands' specs; touches nothing outside.
struct CommandParser: Sendable {
    enum Result: Sendable {
        case run(CommandSpec, Arguments)
        case help(CommandSpec)
        /// The commands whose path starts with these words; all of them for no word.
        case overview([String])
        case version
        case failure(CommandFailure)
    }

    let specs: [CommandSpec]

    init(_ specs: [CommandSpec]) {
        self.specs = specs
    }

    /// Takes what stands behind the program's name.
    func parse(_ words: [String]) -> Result {
        guard let first = words.first else {
            return .failure(.usage("no command given", next: "`daybook --help` lists the commands."))
        }
        switch first {
        case "--help", "-h": return .overview([])
        case "--version", "version": return .version
        case "help": return help(Array(words.dropFirst()))
        default: break
        }
        if first.hasPrefix("-") {
            let next = suggestion(for: first, among: ["--help", "--version"])
            return .failure(
                .usage(
                    "unknown option '\(first)' before the command",
                    next: next + "Options of a command stand behind it."
                )
            )
        }
        let leading = Array(words.prefix { !$0.hasPrefix("-") })
        if let spec = command(leading) {
            return read(Array(words.dropFirst(spec.path.count)), spec)
        }
        if isGroup([first]) {
            if words.dropFirst().contains(where: { $0 == "--help" || $0 == "-h" }) { return .overview([first]) }
            return .failure(unknown(leading, in: first))
        }
        return .failure(unknown(leading, in: nil))
    }

    private func help(_ words: [String]) -> Result {
        if words.isEmpty { return .overview([]) }
        if let spec = command(words) { return .help(spec) }
        return isGroup(words) ? .overview(words) : .failure(unknown(words, in: nil))
    }

    /// The command with the longest path that the words start with.
    private func command(_ words: [String]) -> CommandSpec? {
        specs.filter { words.starts(with: $0.path) }.max { $0.path.count < $1.path.count }
    }

    private func isGroup(_ words: [String]) -> Bool {
        specs.contains { $0.path.count > words.count && $0.path.starts(with: words) }
    }

    private func unknown(_ words: [String], in group: String?) -> CommandFailure {
        let wanted = words.prefix(2).joined(separator: " ")
        if let group {
            let names = specs.filter { $0.path.first == group }.map(\.name)
            let message =
                words.count > 1 ? "there is no command '\(wanted)'" : "'\(group)' needs a second word"
            let list = names.map { "`daybook \($0)`" }.joined(separator: ", ")
            return .usage(message, next: suggestion(for: wanted, among: names) + "There is: \(list).")
        }
        let name = words.first ?? ""
        let names = Set(specs.compactMap(\.path.first)).sorted()
        return .usage(
            "there is no command '\(name)'",
            next: suggestion(for: name, among: names) + "`daybook --help` lists the commands."
        )
    }

    private func suggestion(for word: String, among words: [String]) -> String {
        guard let nearest = nearestWord(to: word, among: words) else { return "" }
        return "Did you mean '\(nearest)'? "
    }

    private func read(_ words: [String], _ spec: CommandSpec) -> Result {
        // Help wins over every mistake that stands beside it.
        let beforeEnd = words.prefix { $0 != "--" }
        if beforeEnd.contains("--help") || beforeEnd.contains("-h") { return .help(spec) }
        var arguments = Arguments(command: spec.name)
        var index = 0
        var optionsEnded = false
        while index < words.count {
            let word = words[index]
            index += 1
            if optionsEnded || word == "-" || !word.hasPrefix("-") {
                arguments.add(positional: word)
                continue
            }
            if word == "--" {
                optionsEnded = true
                continue
            }
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts.first?.dropFirst(2) ?? "")
            let attached = parts.count == 2 ? String(parts[1]) : nil
            guard word.hasPrefix("--"), let option = spec.allOptions.first(where: { $0.name == name }) else {
                let shown = parts.first.map(String.init) ?? word
                let next = suggestion(for: shown, among: spec.allOptions.map { "--\($0.name)" })
                return .failure(
                    .usage(
                        "unknown option '\(shown)' of 'daybook \(spec.name)'",
                        next: next + "`daybook \(spec.name) --help` lists its options."
                    )
                )
            }
            guard let valueName = option.value else {
                if attached != nil { return .failure(usage(spec, "--\(name) takes no value")) }
                arguments.set(flag: name)
                continue
            }
            var value = attached
            if value == nil, index < words.count, words[index] == "-" || !words[index].hasPrefix("--") {
                value = words[index]
                index += 1
            }
            guard let value, !value.isEmpty else {
                return .failure(usage(spec, "--\(name) needs a value: \(valueName)"))
            }
            if !option.repeats, arguments.value(name) != nil {
                return .failure(usage(spec, "--\(name) is given twice"))
            }
            arguments.add(value: value, to: name)
        }
        return checkCount(arguments, spec)
    }

    private func checkCount(_ arguments: Arguments, _ spec: CommandSpec) -> Result {
        let count = arguments.positionals.count
        let required = spec.arguments.filter(\.isRequired)
        if count < required.count { return .failure(usage(spec, "\(required[count].name) is missing")) }
        if count > spec.arguments.count {
            return .failure(usage(spec, "'\(arguments.positionals[spec.arguments.count])' is one argument too many"))
        }
        return .run(spec, arguments)
    }

    private func usage(_ spec: CommandSpec, _ message: String) -> CommandFailure {
        .usage(message, next: "Usage: \(HelpText.usage(spec)). `daybook \(spec.name) --help` says more.")
    }
}

/// The word that was probably meant: at most a third of its letters (and at least one, at most three) differ.
func nearestWord(to word: String, among words: [String]) -> String? {
    let limit = min(3, max(1, word.count / 3))
    let ranked = words.map { (distance: editDistance(word, $0), word: $0) }
    if let best = ranked.min(by: { ($0.distance, $0.word) < ($1.distance, $1.word) }), best.distance <= limit {
        return best.word
    }
    // Or the only one that begins like it: `--part` for `--partitions`.
    let longer = word.count >= 3 ? words.filter { $0.hasPrefix(word) } : []
    return longer.count == 1 ? longer[0] : nil
}

/// How many letters must be put in, taken out, replaced or swapped with their neighbour.
func editDistance(_ left: String, _ right: String) -> Int {
    let a = Array(left)
    let b = Array(right)
    guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
    var rows = [Array(0...b.count)]
    for i in 1...a.count {
        var row = [i]
        for j in 1...b.count {
            var best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
            if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
                best = min(best, rows[i - 2][j - 2] + 1)
            }
            row.append(best)
        }
        rows.append(row)
    }
    return rows[a.count][b.count]
}

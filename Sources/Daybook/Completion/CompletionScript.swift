/// Scripts by which a shell completes commands and options, made from the commands' specs alone. Pure.
enum CompletionScript {
    enum Shell: String, CaseIterable {
        case bash, zsh, fish
    }

    static func text(_ shell: Shell, _ specs: [CommandSpec]) -> String {
        switch shell {
        case .bash: bash(specs)
        case .zsh: zsh(specs)
        case .fish: fish(specs)
        }
    }

    /// First words, each once, in the order of the overview.
    private static func firstWords(_ specs: [CommandSpec]) -> [String] {
        var words: [String] = []
        for word in specs.compactMap(\.path.first) where !words.contains(word) { words.append(word) }
        return words
    }

    private static func secondWords(_ specs: [CommandSpec], behind first: String) -> [String] {
        specs.filter { $0.path.count == 2 && $0.path.first == first }.compactMap(\.path.last)
    }

    private static let helpSummary = "says what a command does, and its options"

    private static func options(_ spec: CommandSpec) -> [String] { spec.allOptions.map { "--\($0.name)" } }

    /// Within single quotes of a shell.
    private static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "'\\''") + "'" }

    private static func bash(_ specs: [CommandSpec]) -> String {
        var lines = [
            "# bash completion of daybook; made by `daybook completion bash`.",
            "_daybook() {",
            "    local current=${COMP_WORDS[COMP_CWORD]} words=''",
            "    local command=${COMP_WORDS[1]:-} second=${COMP_WORDS[2]:-}",
            "    COMPREPLY=()",
            "    if ((COMP_CWORD == 1)); then",
            "        words='\((firstWords(specs) + ["help", "--help", "--version"]).joined(separator: " "))'",
            "    else",
            "        case \"$command $second\" in",
        ]
        // Two words go first: their first may be a command of its own.
        for spec in specs.sorted(by: { $0.path.count > $1.path.count }) {
            let pattern = spec.path.count == 2 ? "'\(spec.name)'" : "'\(spec.name) '*"
            lines.append("            \(pattern)) words='\(options(spec).joined(separator: " "))' ;;")
        }
        lines += ["        esac", "        if ((COMP_CWORD == 2)); then", "            case $command in"]
        for first in firstWords(specs) {
            let seconds = secondWords(specs, behind: first)
            if !seconds.isEmpty {
                lines.append("                \(first)) words=\"$words \(seconds.joined(separator: " "))\" ;;")
            }
        }
        lines += [
            "                help) words='\(firstWords(specs).joined(separator: " "))' ;;",
            "            esac",
            "        fi",
            "    fi",
            "    # An option's value, or an argument: most are names of files or nothing that a shell can know.",
            "    if [[ $current != -* && COMP_CWORD -gt 2 ]]; then",
            "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")",
            "        return",
            "    fi",
            "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")",
            "}",
            "complete -o filenames -F _daybook daybook",
        ]
        return lines.joined(separator: "\n")
    }

    private static func zsh(_ specs: [CommandSpec]) -> String {
        var lines = [
            "#compdef daybook",
            "# zsh completion of daybook; made by `daybook completion zsh`.",
            "_daybook() {",
            "    local -a entries",
            "    if ((CURRENT == 2)); then",
            "        entries=(",
        ]
        for first in firstWords(specs) {
            let summary = specs.first { $0.path == [first] }?.summary ?? "several commands"
            lines.append("            \(quoted(first + ":" + summary.replacing(":", with: "\\:")))")
        }
        lines += [
            "            \(quoted("help:\(helpSummary)"))", "        )", "        _describe command entries",
            "        return",
            "    fi", "    case $words[2] in",
            "        help) entries=(\(firstWords(specs).joined(separator: " "))); _describe command entries ;;",
        ]
        for first in firstWords(specs) {
            let group = specs.filter { $0.path.count == 2 && $0.path.first == first }
            lines.append("        \(first))")
            if !group.isEmpty {
                lines += ["            if ((CURRENT == 3)); then", "                entries=("]
                lines += group.map { spec in
                    let word = spec.path.last ?? ""
                    return "                    \(quoted(word + ":" + spec.summary.replacing(":", with: "\\:")))"
                }
                lines += ["                )", "                _describe command entries", "                return"]
                lines += ["            fi", "            case $words[3] in"]
                for spec in group {
                    lines.append(
                        "                \(spec.path.last ?? "")) _arguments \(zshOptions(spec)) '*:file:_files' ;;"
                    )
                }
                lines.append("            esac")
            }
            if let spec = specs.first(where: { $0.path == [first] }) {
                lines.append("            _arguments \(zshOptions(spec)) '*:file:_files'")
            }
            lines.append("            ;;")
        }
        lines += [
            "    esac", "}",
            "if [ \"$funcstack[1]\" = _daybook ]; then _daybook \"$@\"; else compdef _daybook daybook; fi",
        ]
        return lines.joined(separator: "\n")
    }

    private static func zshOptions(_ spec: CommandSpec) -> String {
        spec.allOptions.map { option in
            let help = option.help.replacing("[", with: "(").replacing("]", with: ")").replacing(":", with: " ")
            let value = option.value.map { ":\($0.lowercased()):_files" } ?? ""
            return quoted("\(option.repeats ? "*" : "")--\(option.name)[\(help)]\(value)")
        }.joined(separator: " ")
    }

    private static func fish(_ specs: [CommandSpec]) -> String {
        var lines = [
            "# fish completion of daybook; made by `daybook completion fish`.",
            "complete -c daybook -e",
        ]
        for first in firstWords(specs) {
            let summary = specs.first { $0.path == [first] }?.summary ?? "several commands"
            lines.append("complete -c daybook -n __fish_use_subcommand -f -a \(first) -d \(quoted(summary))")
            let group = specs.filter { $0.path.count == 2 && $0.path.first == first }
            let seconds = secondWords(specs, behind: first).joined(separator: " ")
            for spec in group {
                let condition =
                    "__fish_seen_subcommand_from \(first); and not __fish_seen_subcommand_from \(seconds)"
                lines.append(
                    "complete -c daybook -n \(quoted(condition)) -f -a \(spec.path.last ?? "") -d \(quoted(spec.summary))"
                )
            }
        }
        let names = firstWords(specs).joined(separator: " ")
        lines += [
            "complete -c daybook -n __fish_use_subcommand -f -a help -d \(quoted(helpSummary))",
            "complete -c daybook -n '__fish_seen_subcommand_from help' -f -a \(quoted(names))",
        ]
        for spec in specs {
            let condition = spec.path.map { "__fish_seen_subcommand_from \($0)" }.joined(separator: "; and ")
            for option in spec.allOptions {
                lines.append(
                    "complete -c daybook -n \(quoted(condition)) -l \(option.name)\(option.value == nil ? "" : " -r") "
                        + "-d \(quoted(option.help))"
                )
            }
        }
        return lines.joined(separator: "\n")
    }
}

import Foundation
import Testing

@testable import Daybook

/// What documents say of the tool, held against the tool.
struct DocumentsTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().path

    static let documents: [String] = {
        let manager = FileManager.default
        var found = ["README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "compose/README.md"]
        for folder in ["docs", "deploy"] {
            let names = manager.enumerator(atPath: root + "/" + folder)?.allObjects as? [String] ?? []
            found += names.filter { $0.hasSuffix(".md") || $0.hasSuffix("rules.yml") }.map { "\(folder)/\($0)" }
        }
        return found.sorted()
    }()

    private let parser = CommandParser(CommandTable.commands.map { $0.spec })

    static func text(_ path: String) throws -> String {
        try String(contentsOfFile: root + "/" + path, encoding: .utf8)
    }

    /// The blocks between fences that are marked as a shell's.
    private static func shellBlocks(_ text: String) -> [String] {
        var blocks: [String] = []
        var block: [Substring]?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let bare = line.drop { $0 == " " }
            if var lines = block {
                if bare.hasPrefix("```") {
                    blocks.append(lines.joined(separator: "\n"))
                    block = nil
                } else {
                    lines.append(line)
                    block = lines
                }
            } else if bare == "```sh" || bare == "```text" {
                block = []
            } else if bare.hasPrefix("```") {
                // An output: skipped up to its end.
                block = []
                blocks.append("")
            }
        }
        return blocks
    }

    /// The words behind `daybook` where that is what a command runs.
    private static func daybook(_ command: [String]) -> [String]? {
        var words = command[...]
        let leading: Set<String> = ["until", "while", "if", "then", "do", "!", "eval", "exec", "sudo", "time"]
        while let first = words.first {
            let isAssignment = first.contains("=") && first.prefix { $0 != "=" }.allSatisfy { $0.isLetter || $0 == "_" }
            guard leading.contains(first) || isAssignment else { break }
            words = words.dropFirst()
        }
        // As a container's: `docker compose … run --rm tool daybook status`.
        if words.first == "docker" || words.first == "kubectl",
            let place = words.firstIndex(where: { $0 == "daybook" }), place > words.startIndex,
            words[place - 1] == "tool" || words[place - 1] == "--"
        {
            words = words[place...]
        }
        guard let program = words.first, ["daybook", "Scripts/daybook", ".build/release/daybook"].contains(program)
        else { return nil }
        return Array(words.dropFirst())
    }

    @Test func `every command in a block of a document is one that the tool takes`() throws {
        var count = 0
        for path in Self.documents {
            for block in Self.shellBlocks(try Self.text(path)) {
                for command in ShellWords.commands(in: block) {
                    guard let words = Self.daybook(command), !words.isEmpty else { continue }
                    count += 1
                    if case .failure(let failure) = parser.parse(words) {
                        Issue.record("\(path): daybook \(words.joined(separator: " ")): \(failure.message)")
                    }
                }
            }
        }
        #expect(count >= 80, "only \(count) commands were found")
    }

    @Test func `every example of a help page is one that the tool takes`() {
        for spec in CommandTable.commands.map({ $0.spec }) {
            for example in spec.examples {
                for command in ShellWords.commands(in: example.line) {
                    guard let words = Self.daybook(command) else { continue }
                    if case .failure(let failure) = parser.parse(words) {
                        Issue.record("\(spec.name): \(example.line): \(failure.message)")
                    }
                }
            }
        }
    }

    /// In the running text a command may be shortened: its name and its options have to be right.
    @Test func `a command that a sentence names exists, with the options that it names`() throws {
        let specs = CommandTable.commands.map { $0.spec }
        var count = 0
        for path in Self.documents {
            // A span may go on in the next line.
            let text = try Self.text(path).replacing("\n", with: " ")
            for match in text.matches(of: /`(?:Scripts\/)?daybook ([^`]+)`/) {
                let words = String(match.1).split(separator: " ").map(String.init)
                let names = words.prefix { !$0.hasPrefix("-") }
                guard let first = names.first, first != "…" else { continue }
                count += 1
                let spec = specs.filter { names.starts(with: $0.path) }.max { $0.path.count < $1.path.count }
                guard let spec else {
                    let isGroup = names.count == 1 && specs.contains { $0.path.count == 2 && $0.path[0] == first }
                    #expect(isGroup, "\(path): there is no `daybook \(match.1)`")
                    continue
                }
                for word in words where word.hasPrefix("--") {
                    let option = word.dropFirst(2).prefix { $0 != "=" }
                    #expect(spec.allOptions.contains { $0.name == option }, "\(path): `daybook \(match.1)` \(word)")
                }
            }
        }
        #expect(count >= 50, "only \(count) were found")
    }

    @Test func `SCALING has the very figures that the plan is made from, and what the plan prints`() throws {
        let text = try Self.text("docs/SCALING.md")
        for row in CapacityPlan.Figures().rows {
            let line = "| \(row.what) | \(row.figure) | `\(row.command)` |"
            #expect(text.contains(line), "docs/SCALING.md lacks: \(line)")
        }
        let million = CapacityPlan(.init(phones: 1_000_000, syncsPerDay: 12)).table.lines().joined(separator: "\n")
        #expect(text.contains("```\n\(million)\n```"), "docs/SCALING.md shows another plan than:\n\(million)")
        let figures = CapacityPlan.Figures()
        let lane = figures.workerPerChangedDay + figures.databasePerChangedDay
        #expect(text.contains("the \(Int(lane.rounded())) µs of both"), "\(lane)")
    }

    @Test func `the shell's words are read as a shell reads them`() {
        let commands = ShellWords.commands(
            in: """
                eval "$(daybook env)"   # comment daybook x
                until daybook status --json | grep -q '^ "lag": 0,'; do sleep 1; done
                a=$(daybook list 'b c' >f 2>&1 | sed -n 's/x/\\1/p') && daybook show "$a" \\
                  --rate 5
                """
        )
        #expect(
            commands == [
                ["daybook", "env"], ["eval", "x"], ["until", "daybook", "status", "--json"],
                ["grep", "-q", "^ \"lag\": 0,"], ["do", "sleep", "1"], ["done"], ["daybook", "list", "b c"],
                ["sed", "-n", "s/x/\\1/p"], ["a=x"], ["daybook", "show", "$a", "--rate", "5"],
            ],
            "\(commands)"
        )
    }
}

import Foundation
import Testing

@testable import Daybook

struct CompletionTests {
    private let specs = CommandTable.commands.map { $0.spec }

    private static func path(of shell: CompletionScript.Shell) -> String? {
        ["/bin/\(shell.rawValue)", "/usr/bin/\(shell.rawValue)"]
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// What bash offers behind these words.
    private func offered(_ words: String...) throws -> Set<String> {
        let script = CompletionScript.text(.bash, specs)
        let list = words.map { "'\($0)'" }.joined(separator: " ")
        let program = """
            \(script)
            COMP_WORDS=(daybook \(list)); COMP_CWORD=\(words.count); _daybook
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-euc", program]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return Set(String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init))
    }

    @Test func `bash completes commands, second words and options`() throws {
        #expect(try offered("").isSuperset(of: ["up", "status", "dead-letters", "user", "help"]))
        #expect(try offered("sta") == ["status"])
        #expect(try offered("dead-letters", "re") == ["redrive", "release"])
        #expect(try offered("user", "").isSuperset(of: ["delete", "pin"]))
        #expect(try offered("status", "--w") == ["--watch"])
        #expect(try offered("dead-letters", "redrive", "all", "--dr") == ["--dry-run"])
        #expect(try offered("day", "show", "--br") == ["--brief"])
    }

    @Test(arguments: CompletionScript.Shell.allCases)
    func `every command and every option is in the script of each shell`(shell: CompletionScript.Shell) {
        let script = CompletionScript.text(shell, specs)
        for spec in specs {
            for word in spec.path { #expect(script.contains(word), "\(shell.rawValue): \(word)") }
            for option in spec.allOptions {
                let name = shell == .fish ? "-l \(option.name)" : "--\(option.name)"
                #expect(script.contains(name), "\(shell.rawValue): \(name)")
            }
        }
    }

    /// Runs a shell's program to its end.
    private func run(_ shell: String, _ arguments: [String]) throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: shell)
        process.arguments = arguments
        // No settings of whoever runs the tests.
        let home = FileManager.default.temporaryDirectory.path
        process.environment = ["HOME": home, "PATH": "/usr/bin:/bin", "TERM": "xterm", "LC_ALL": "C.UTF-8"]
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, output)
    }

    private func withScript<Result>(_ shell: CompletionScript.Shell, _ body: (String) throws -> Result) throws -> Result
    {
        let file = FileManager.default.temporaryDirectory.path + "/completion-\(UUID().uuidString)"
        try CompletionScript.text(shell, specs).write(toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        return try body(file)
    }

    /// Nothing but the shell itself can say whether it reads the script: those that are installed are asked.
    @Test(arguments: CompletionScript.Shell.allCases.filter { path(of: $0) != nil })
    func `the shell reads its script`(shell: CompletionScript.Shell) throws {
        let path = try #require(Self.path(of: shell))
        let result = try withScript(shell) { try run(path, ["-n", $0]) }
        #expect(result.status == 0 && result.output.isEmpty, "\(result.output)")
    }

    /// What every shell has to offer: a line up to the cursor, and some or all of what is offered there.
    private static let expected: [(line: String, offered: Set<String>, isAll: Bool)] = [
        ("daybook ", ["up", "status", "dead-letters", "user", "help"], false), ("daybook sta", ["status"], true),
        ("daybook dead-letters re", ["redrive", "release"], true),
        ("daybook user ", ["delete", "pin", "export"], false),
        ("daybook help reco", ["recompute"], true), ("daybook status --w", ["--watch"], true),
        ("daybook dead-letters redrive all --dr", ["--dry-run"], true), ("daybook day show --br", ["--brief"], true),
    ]

    private func expect(_ shell: CompletionScript.Shell, _ offers: (String) throws -> Set<String>) throws {
        for (line, offered, isAll) in Self.expected {
            let found = try offers(line)
            let isRight = isAll ? found == offered : found.isSuperset(of: offered)
            #expect(isRight, "\(shell.rawValue) offers \(found.sorted()) behind '\(line)'")
        }
    }

    @Test(.enabled(if: path(of: .fish) != nil, "fish is not installed: Scripts/install-packages --with-tests"))
    func `fish completes commands, second words and options`() throws {
        let fish = try #require(Self.path(of: .fish))
        try withScript(.fish) { file in
            try expect(.fish) { line in
                let result = try run(fish, ["--no-config", "-c", "source \(file); complete -C '\(line)'"])
                #expect(result.status == 0, "\(result.output)")
                return Set(
                    result.output.split(separator: "\n").compactMap { $0.split(separator: "\t").first.map(String.init) }
                )
            }
        }
    }

    /// A terminal of its own, in which the Tab key is pressed; what the completion adds is printed.
    private static let zshProgram = #"""
        zmodload zsh/zpty || exit 3
        zpty inner zsh -f -i
        zpty -w inner "RPROMPT=; autoload -Uz compinit; compinit -u -D; source $1"
        zpty -w inner 'compadd() {
            if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
            typeset -a found; builtin compadd -A found "$@"; print -l -- "<offer "${^found}">"; builtin compadd "$@"
        }'
        zpty -w inner "bindkey '^I' complete-word '^U' kill-whole-line; PROMPT='<pro''mpt>'"
        zpty -r inner text '*<prompt>*'
        zpty -w -n inner "$2"$'\t\x15'
        zpty -w inner "print '<end'ed\>"
        zpty -r inner text '*<ended>*'
        print -r -- "$text"
        zpty -d inner
        """#

    @Test(.enabled(if: path(of: .zsh) != nil, "zsh is not installed: Scripts/install-packages --with-tests"))
    func `zsh completes commands, second words and options`() throws {
        let zsh = try #require(Self.path(of: .zsh))
        try withScript(.zsh) { file in
            try expect(.zsh) { line in
                let result = try run(zsh, ["-f", "-c", Self.zshProgram, "zsh", file, line])
                #expect(result.status == 0, "\(result.output)")
                return Set(result.output.matches(of: /<offer ([a-z-]+)>/).map { String($0.1) })
            }
        }
    }
}

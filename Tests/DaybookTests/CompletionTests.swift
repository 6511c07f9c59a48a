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

    /// Nothing but the shell itself can say whether it reads the script: those that are installed are asked.
    @Test(arguments: CompletionScript.Shell.allCases.filter { path(of: $0) != nil })
    func `the shell reads its script`(shell: CompletionScript.Shell) throws {
        let path = try #require(Self.path(of: shell))
        let file = FileManager.default.temporaryDirectory.path + "/completion-\(UUID().uuidString)"
        try CompletionScript.text(shell, specs).write(toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = ["-n", file]
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }
}

import Foundation
import TestSupport
import Testing

/// docs/RUNBOOK.md, block by block, as an operator would do it.
@Suite(.serialized, .timeLimit(.minutes(5))) struct `The runbook` {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().path

    @Test func `a bad deploy and back, then every other command: each block does what the text says`() throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["\(Self.root)/Scripts/drill", "--bin", ServiceProcess.productsFolder]
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(output)")
        #expect(output.contains("RESULT drill.hash_mismatches 0"), "\(output)")
        // What the text promises of single steps; the lines that show a command don't count.
        let said = output.split(separator: "\n").filter { !$0.hasPrefix("$ ") }.joined(separator: "\n")
        for words in [
            "still; `daybook dead-letters list`", "database_refused", "released", "would change; nothing was written",
            "records sent", "no canonical day would change", "the hashes are the same", "no drift",
            #"{"status":"ready","reasons":[]}"#, "deleted (daybook.accounts.v1/",
        ] { #expect(said.contains(words), "'\(words)' is missing in:\n\(output)") }
        // Blocks that are only read would pass as well: all but a few are run.
        let count = said.firstMatch(of: /RUNBOOK: (\d+) blocks did what they should, (\d+) can not be run here/)
        let run = try #require(count.flatMap { Int($0.1) })
        let skipped = try #require(count.flatMap { Int($0.2) })
        #expect(run >= 20 && skipped <= 1, "\(run) run, \(skipped) not")
    }
}

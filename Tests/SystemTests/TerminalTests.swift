import Foundation
import TestSupport
import Testing

/// What the programs print, on a terminal and elsewhere.
struct `On a terminal` {
    private static let escape = "\u{1B}["

    /// A terminal of its own: the program `script` makes one.
    private func onTerminal(_ arguments: [String], _ environment: [String: String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/script")
        let command = (["\(ServiceProcess.productsFolder)/daybook"] + arguments).joined(separator: " ")
        process.arguments = ["--quiet", "--return", "--command", command, "/dev/null"]
        process.environment = ["PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "TERM": "xterm"].merging(environment) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return output
    }

    @Test func `colours are there on a terminal alone, and never with NO_COLOR or a dumb terminal`() throws {
        let plan = ["plan", "--phones", "1000"]
        for words in [["--help"], ["status", "--help"], plan, ["nonsense"]] {
            let shown = try onTerminal(words, [:])
            #expect(shown.contains(Self.escape), "\(words): \(shown)")
            for more in [["NO_COLOR": "1"], ["TERM": "dumb"]] {
                let plain = try onTerminal(words, more)
                #expect(!plain.contains(Self.escape) && plain.count > 20, "\(words) \(more): \(plain)")
            }
            let piped = try ServiceProcess("daybook", words, environment: [:])
            _ = try piped.waitForExit(seconds: 20)
            #expect(!piped.output.contains(Self.escape) && piped.output.count > 20, "\(words): \(piped.output)")
        }
    }

    @Test func `a watch redraws itself and long work shows how far it is, and elsewhere there is neither`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        try pipeline.publish(0..<60, over: try pipeline.publisher())
        var settings = pipeline.environment
        settings["DAYBOOK_STATE"] = "/nonexistent/daybook"
        settings["NO_COLOR"] = "1"
        let watch = ["status", "--watch", "--count", "2", "--interval", "1s", "--max-lag", "2h"]
        let replay = ["replay", "--from", "beginning", "--rate", "40"]
        let clear = Self.escape + "H" + Self.escape + "2J"
        let watched = try onTerminal(watch, settings)
        #expect(watched.components(separatedBy: clear).count == 3 && watched.contains("lag: 60 records"), "\(watched)")
        let worked = try onTerminal(replay, settings)
        let bar = /replay  \[#+-+\]  [1-9][0-9]? %  [0-9]+ records  [0-9]+\/s  [0-9]+s left/
        #expect(worked.firstMatch(of: bar) != nil, "\(worked)")
        // The line is taken away, so that the outcome stands alone.
        #expect(worked.contains("\r" + Self.escape + "K60 records read"), "\(worked)")
        for words in [watch, replay] {
            let piped = try ServiceProcess("daybook", words, environment: settings)
            #expect(try piped.waitForExit(seconds: 30) == 0, "\(piped.output)")
            #expect(!piped.output.contains(Self.escape) && !piped.output.contains("\r"), "\(piped.output)")
        }
    }

    @Test func `every program says its version, and all say the same`() throws {
        var versions: Set<Substring> = []
        for name in ["ingest-service", "aggregator-worker", "wake-worker", "daybook"] {
            let program = try ServiceProcess(name, ["--version"], environment: [:])
            #expect(try program.waitForExit(seconds: 20) == 0)
            let words = program.output.split(whereSeparator: \.isWhitespace)
            #expect(words.first == name[...] && words.count > 1, "\(program.output)")
            versions.formUnion(words.dropFirst().prefix(1))
        }
        #expect(versions.count == 1, "\(versions)")
    }
}

import Testing

@testable import Daybook

struct CommandParserTests {
    private static let up = CommandSpec(
        path: ["up"],
        summary: "starts it",
        description: ["Starts everything."],
        options: [
            .flag("fresh", "Start empty."), .value("workers", "N", "How many.", default: "1"),
            .value("user", "UUID", "Who.", repeats: true),
        ],
        statuses: [.init(.failure, "a figure was wrong")]
    )
    private static let show = CommandSpec(
        path: ["day", "show"],
        summary: "shows a day",
        description: ["Shows."],
        arguments: [ArgumentSpec("USER", "Whose."), ArgumentSpec("DATE", "Which.", required: false)],
        options: [.flag("json", "As JSON.")]
    )
    private let parser = CommandParser([up, show])

    private func arguments(_ words: String...) throws -> Arguments {
        guard case .run(_, let arguments) = parser.parse(words) else {
            throw Unexpected(result: "\(parser.parse(words))")
        }
        return arguments
    }

    private func failure(_ words: String...) throws -> CommandFailure {
        guard case .failure(let failure) = parser.parse(words) else {
            throw Unexpected(result: "\(parser.parse(words))")
        }
        return failure
    }

    private struct Unexpected: Error {
        let result: String
    }

    @Test func `options come as two words or one, before and behind arguments`() throws {
        let first = try arguments("up", "--workers", "3", "--fresh")
        #expect(try first.integer("workers", in: 1...8) == 3)
        #expect(first.has("fresh"))
        let second = try arguments("up", "--workers=4")
        #expect(try second.integer("workers", in: 1...8) == 4)
        let third = try arguments("day", "show", "u", "--json", "2026-09-01")
        #expect(third.positionals == ["u", "2026-09-01"])
        #expect(third.has("json"))
    }

    @Test func `an option that repeats keeps all its values`() throws {
        let arguments = try arguments("up", "--user", "a", "--user=b")
        #expect(arguments.values("user") == ["a", "b"])
    }

    @Test func `after two dashes everything is an argument`() throws {
        #expect(try arguments("day", "show", "--", "--json").positionals == ["--json"])
        #expect(try arguments("day", "show", "-").positionals == ["-"])
    }

    @Test func `an unknown option is refused with the nearest one`() throws {
        let failure = try failure("up", "--worker", "3")
        #expect(failure.exitCode == .usage)
        #expect(failure.message.contains("--worker"))
        #expect(failure.nextStep.contains("--workers"))
        #expect(try self.failure("up", "-x").exitCode == .usage)
    }

    @Test func `an unknown command is refused with the nearest one`() throws {
        #expect(try failure("pu").nextStep.contains("'up'"))
        #expect(try failure("day", "shwo").nextStep.contains("'day show'"))
        #expect(try failure("day").message.contains("second word"))
        #expect(try failure("nonsense").nextStep.hasPrefix("`daybook --help`"))
    }

    @Test func `what is missing or too much is said with the usage`() throws {
        #expect(try failure("up", "--workers").message.contains("needs a value"))
        #expect(try failure("up", "--workers", "1", "--workers", "2").message.contains("twice"))
        #expect(try failure("up", "--fresh=yes").message.contains("no value"))
        #expect(try failure("day", "show").message.contains("USER"))
        #expect(try failure("up", "more").message.contains("too many"))
        #expect(try failure("day", "show").nextStep.contains("daybook day show [options] USER [DATE]"))
    }

    @Test func `help wins wherever it stands`() throws {
        for words in [["up", "--nonsense", "--help"], ["help", "up"], ["up", "-h"]] {
            guard case .help(let spec) = parser.parse(words) else {
                Issue.record("no help for \(words)")
                continue
            }
            #expect(spec.name == "up")
        }
        guard case .overview(let group) = parser.parse(["day", "--help"]) else {
            Issue.record("no overview of a group")
            return
        }
        #expect(group == ["day"])
    }

    @Test func `values are checked against what they should be`() throws {
        let words = try arguments("up", "--workers", "0")
        #expect(throws: CommandFailure.self) { try words.integer("workers", in: 1...8) }
        var durations = Arguments(command: "token")
        durations.add(value: "15m", to: "ttl")
        #expect(try durations.duration("ttl") == 900)
        for text in ["", "m", "-3h", "1.5h", "99999999999999999999d", "9223372036854775807d"] {
            var wrong = Arguments(command: "token")
            wrong.add(value: text, to: "ttl")
            #expect(throws: CommandFailure.self) { try wrong.duration("ttl") }
        }
    }

    @Test func `a command's help names everything it takes`() {
        let help = HelpText.command(Self.up)
        for text in ["USAGE", "daybook up [options]", "--workers N", "Default: 1.", "--help, -h", "EXIT STATUS", "64"] {
            #expect(help.contains(text))
        }
        #expect(help.split(separator: "\n").allSatisfy { $0.count <= HelpText.width })
    }

    @Test func `every real command has a help page that says all`() {
        for spec in CommandTable.commands.map({ $0.spec }) {
            let help = HelpText.command(spec)
            #expect(help.contains("EXAMPLES"), "\(spec.name)")
            #expect(!spec.summary.isEmpty && !spec.description.isEmpty, "\(spec.name)")
            #expect(help.split(separator: "\n").allSatisfy { $0.count <= HelpText.width }, "\(spec.name)")
        }
        let paths = CommandTable.commands.map { $0.spec.path }
        #expect(Set(paths).count == paths.count)
    }

    @Test func `distances count a swap as one`() {
        #expect(editDistance("pu", "up") == 1)
        #expect(editDistance("", "abc") == 3)
        #expect(editDistance("status", "status") == 0)
        #expect(nearestWord(to: "--prot", among: ["--port", "--partitions"]) == "--port")
        #expect(nearestWord(to: "--xyzzy", among: ["--port"]) == nil)
    }
}

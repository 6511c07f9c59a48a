import DevelopmentStack
import Domain
import Foundation
import Glibc
import TestSupport
import Testing

/// A local stack in a folder of its own, run by the built `daybook`.
final class StackUnderTest {
    let folder: StateFolder
    private let parent: String
    /// What every command gets.
    let environment: [String: String]
    /// The port that the ingest is asked to take.
    let port: UInt16

    init() throws {
        var template = Array("/tmp/daybook-stack-\(getpid())-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        parent = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // PostgreSQL's user has to get through.
        chmod(parent, 0o755)
        folder = StateFolder(path: parent + "/state")
        environment = ["DAYBOOK_STATE": folder.path, "NO_COLOR": "1"]
        guard let port = PortChoice.any() else { throw Eventually.TimedOut(what: "a free port") }
        self.port = port
    }

    deinit {
        if folder.exists { _ = try? run("down", "--purge", seconds: 60) }
        try? FileManager.default.removeItem(atPath: parent)
    }

    /// Runs a command to its end.
    @discardableResult
    func run(
        _ arguments: String...,
        environment more: [String: String] = [:],
        seconds: Int = 30
    ) throws -> (status: Int32, output: String) {
        let process = try ServiceProcess("daybook", arguments, environment: environment.merging(more) { $1 })
        return (try process.waitForExit(seconds: seconds), process.output)
    }

    /// Starts `daybook up`.
    func begin(_ arguments: String..., environment more: [String: String] = [:]) throws -> ServiceProcess {
        try ServiceProcess(
            "daybook",
            ["up", "--port", "\(port)"] + arguments,
            environment: environment.merging(more) { $1 }
        )
    }

    /// Starts `daybook up` without the demonstration, and waits until it invites to try it.
    func up(_ arguments: String...) throws -> ServiceProcess {
        let process = try ServiceProcess(
            "daybook",
            ["up", "--port", "\(port)", "--no-demo"] + arguments,
            environment: environment
        )
        do {
            try Eventually.holds("the stack is up", seconds: 60) {
                process.output.contains("Ctrl-C stops everything") || !process.isRunning
            }
        } catch {
            throw Eventually.TimedOut(what: "\(error)\n\(process.output)")
        }
        guard process.isRunning else { throw Eventually.TimedOut(what: "the stack to stay up:\n\(process.output)") }
        return process
    }

    func record() throws -> StackRecord { try #require(try folder.record()) }

    func process(of part: String) throws -> ProcessIdentity {
        try #require(try record().parts.first { $0.name == part }?.process)
    }

    /// What a command says with `--json`.
    func json(_ arguments: String..., expecting status: Int32 = 0) throws -> [String: Any] {
        let process = try ServiceProcess("daybook", arguments + ["--json"], environment: environment)
        let ended = try process.waitForExit(seconds: 30)
        #expect(ended == status, "\(arguments): \(process.output)")
        let object = try JSONSerialization.jsonObject(with: Data(process.output.utf8))
        return try #require(object as? [String: Any])
    }

    /// Posts steps of a day until they are accepted.
    func post(_ steps: Int, _ day: CalendarDay, user: UserID, seconds: Int = 30) throws {
        let token = try #require(try json("token", "--user", user.description)["token"] as? String)
        let body = #"{"source":"apple_health","time_zone":"UTC","days":[{"date":"\#(day)","steps":\#(steps)}]}"#
        let port = port
        try Eventually.holds("a post is accepted", seconds: seconds) {
            guard let connection = try? HTTPConnection(port: port),
                let answer = try? connection.request("POST", "/v1/days", token: token, body: Array(body.utf8))
            else { return false }
            return answer.status == 202
        }
    }

    /// Waits until `daybook day show` says so many steps.
    func expectSteps(_ steps: Int, _ day: CalendarDay, user: UserID) throws {
        try Eventually.holds("\(steps) steps are shown", seconds: 40) {
            let shown = try self.run("day", "show", user.description, day.description, "--json")
            guard shown.status == 0 else { return false }
            let object = try JSONSerialization.jsonObject(with: Data(shown.output.utf8)) as? [String: Any]
            let days = object?["days"] as? [[String: Any]]
            let values = days?.first?["values"] as? [[String: Any]]
            let value = values?.first { $0["metric"] as? String == "steps" }
            return value?["value"] as? Int == steps && value?["source"] as? String == "apple_health"
        }
    }

    func waitUntilFine() throws {
        try Eventually.holds("`daybook status` is content", seconds: 40) { try self.run("status").status == 0 }
    }
}

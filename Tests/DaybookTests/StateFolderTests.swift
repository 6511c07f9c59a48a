import Foundation
import Testing

@testable import DevelopmentStack

struct StateFolderTests {
    private func withFolder(_ body: (StateFolder) throws -> Void) throws {
        let path = NSTemporaryDirectory() + "/daybook-state-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let folder = StateFolder(path: path + "/deep/state")
        try folder.create()
        try body(folder)
    }

    private func mode(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return (attributes[.posixPermissions] as? NSNumber)?.intValue ?? -1
    }

    @Test func `a second one in the same folder is told who is running`() throws {
        try withFolder { folder in
            let lock = try StateLock.take(folder)
            #expect(StateLock.isHeld(folder))
            var record = StackRecord(supervisor: .current, startedAt: "2026-09-02T21:14:05Z", brokerIsOurs: true)
            record.update(.init(name: "ingest", process: .current, address: "127.0.0.1:8080"))
            try folder.write(record)
            let failure = #expect(throws: StackFailure.self) { try StateLock.take(folder) }
            #expect(failure?.code == .alreadyRunning)
            let message = failure?.message ?? ""
            #expect(message.contains("pid \(record.supervisor.pid)"))
            #expect(message.contains("2026-09-02T21:14:05Z"))
            #expect(message.contains("127.0.0.1:8080"))
            withExtendedLifetime(lock) {}
        }
    }

    @Test func `the lock goes with its holder`() throws {
        try withFolder { folder in
            _ = try StateLock.take(folder)
            #expect(!StateLock.isHeld(folder))
            _ = try StateLock.take(folder)
        }
    }

    @Test func `the record comes back as it was written`() throws {
        try withFolder { folder in
            #expect(try folder.record() == nil)
            var record = StackRecord(supervisor: .current, startedAt: "now", brokerIsOurs: false)
            record.url = "http://127.0.0.1:8080"
            record.update(.init(name: "a", process: nil))
            record.update(.init(name: "a", process: .current))
            try folder.write(record)
            #expect(try folder.record() == record)
            #expect(record.parts.count == 1)
            try Data("{".utf8).write(to: URL(fileURLWithPath: folder.recordPath))
            #expect(throws: StackFailure.self) { try folder.record() }
        }
    }

    @Test func `secrets are generated once and only their owner can read them`() throws {
        try withFolder { folder in
            let first = try folder.secret("jwt")
            let text = try String(contentsOfFile: first, encoding: .utf8)
            #expect(text.count == 48)
            #expect(try folder.secret("jwt") == first)
            #expect(try String(contentsOfFile: first, encoding: .utf8) == text)
            #expect(try mode(first) == 0o600)
            #expect(try mode(folder.secretsPath) == 0o700)
            let other = try folder.secret("database")
            #expect(try String(contentsOfFile: other, encoding: .utf8) != text)
        }
    }

    @Test func `the folder is found by setting, by checkout, or beside us`() throws {
        let named = StateFolder.locate(
            environment: ["DAYBOOK_STATE": "x/../y"],
            workingDirectory: "/tmp",
            executable: "/bin/x"
        )
        #expect(named.path == "/tmp/y")
        let path = NSTemporaryDirectory() + "/daybook-checkout-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let files = FileManager.default
        try files.createDirectory(atPath: path + "/Sources/Daybook", withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: path + "/Package.swift"))
        let inside = StateFolder.locate(environment: [:], workingDirectory: path + "/Sources", executable: "/bin/x")
        #expect(inside.path.hasSuffix("/.daybook") && inside.path.contains("daybook-checkout-"))
        let byProgram = StateFolder.locate(
            environment: [:],
            workingDirectory: "/",
            executable: path + "/.build/daybook"
        )
        #expect(byProgram == inside)
        let nowhere = StateFolder.locate(environment: [:], workingDirectory: "/", executable: "/bin/x")
        #expect(nowhere.path.hasSuffix("/.daybook"))
    }

    @Test func `a full disk and missing rights have their own way out`() {
        let full = StackFailure.system(ENOSPC, "can't write /x", elsewhere: "Set DAYBOOK_STATE.")
        #expect(full.code == .noSpace)
        #expect(full.nextStep.contains("df -h") && full.nextStep.contains("set DAYBOOK_STATE"))
        #expect(StackFailure.system(EACCES, "can't write /x", elsewhere: "Y.").code == .noPermission)
    }

    @Test func `a process is known by its number and its start`() {
        let current = ProcessIdentity.current
        #expect(current.isRunning)
        #expect(!ProcessIdentity(pid: current.pid, startTicks: current.startTicks + 1).isRunning)
        #expect(!ProcessIdentity(pid: current.pid, startTicks: current.startTicks + 1).send(SIGKILL))
        #expect(ProcessIdentity(pid: -1) == nil)
        let stat = "17 (a) b (c)) S " + (1...18).map(String.init).joined(separator: " ") + " 4711 0"
        #expect(ProcessIdentity.parse(stat: stat)?.startTicks == 4711)
        #expect(ProcessIdentity.parse(stat: "17 (a") == nil)
    }
}

import DevelopmentStack
import Domain
import Foundation
import MessageContract
import Postgres
import Storage
import TestSupport
import Testing

/// A database that is restored from a backup while a worker runs.
@Suite(.serialized, .timeLimit(.minutes(3))) struct `Restored from a backup` {
    private let today = PipelineUnderTest.today
    private let now = PipelineUnderTest.now

    /// A program of PostgreSQL, to its end.
    private func run(_ program: String, _ arguments: String...) throws {
        let folder = "/usr/lib/postgresql/15/bin"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "\(folder)/\(program)")
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(program)")
    }

    private func publish(_ users: Range<Int>, round: Int, over publisher: RecordPublisher) throws {
        for number in users {
            for lane in [Lane.live, .history] {
                let first = lane == .live ? 0 : 50
                let days = (0..<10).map { offset -> (CalendarDay, MetricValues) in
                    let steps = Int32(1000 + number * 7 + offset * 3 + round) * 10
                    return (today.advanced(by: -first - offset), [.steps: steps, .sleepMinutes: 4000 + Int32(round)])
                }
                try publisher.publish(
                    UserID(high: 8, low: UInt64(number)),
                    number.isMultiple(of: 2) ? .appleHealth : .oura,
                    receivedAt: now.advanced(bySeconds: round * 60),
                    localDate: today,
                    lane: lane,
                    days
                )
            }
        }
        try publisher.flush()
    }

    @Test func `the worker goes back with it by itself, and ends with the same hash (C25)`() throws {
        let pipeline = try PipelineUnderTest(.mock)
        defer { pipeline.kafka.stop() }
        let publisher = try pipeline.publisher()
        let worker = try pipeline.startWorker()
        try publish(0..<60, round: 0, over: publisher)
        try pipeline.waitUntilApplied(worker: worker)
        let dump = FileManager.default.temporaryDirectory.path + "/backup-\(UUID().uuidString).sql"
        defer { try? FileManager.default.removeItem(atPath: dump) }
        try run("pg_dump", "--dbname", pipeline.databaseURL, "--file", dump, "--no-owner")
        let positions = try pipeline.positions()

        // What comes after the backup: newer days, a pin, a deletion, and more of the same.
        try publish(30..<90, round: 1, over: publisher)
        let deleted = UserID(high: 8, low: 3)
        try publisher.publish(deleted, .delete, receivedAt: now.advanced(bySeconds: 90))
        try publisher.publish(
            UserID(high: 8, low: 4),
            .preference(.steps, source: .oura),
            receivedAt: now.advanced(bySeconds: 90)
        )
        try publisher.flush()
        try pipeline.waitUntilApplied(worker: worker)
        let hash = try pipeline.hash()

        let name = try #require(pipeline.databaseURL.firstMatch(of: /@\/([^?]+)\?/)?.1.removingPercentEncoding)
        let cluster = try PrivatePostgres.cluster()
        try cluster.dropDatabase(named: name)
        _ = try cluster.createDatabase(named: name, template: "template0")
        try run("psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", pipeline.databaseURL, "--file", dump)
        try pipeline.connection.reconnect()
        // As of the backup, unless the worker was faster than this look.
        for (name, position) in try pipeline.positions() { #expect(position >= positions[name] ?? 0) }
        #expect(worker.isRunning)
        try pipeline.waitUntilApplied(seconds: 90, worker: worker)
        #expect(try pipeline.hash() == hash)
        #expect(try pipeline.reads.connections(of: deleted).isEmpty)
        #expect(try pipeline.daybook("verify").status == 0)
        #expect(try pipeline.deadLetters().isEmpty)
        #expect(try worker.stop() == 0)
    }
}

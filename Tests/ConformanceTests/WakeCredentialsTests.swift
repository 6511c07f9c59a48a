import DevelopmentStack
import Domain
import Foundation
import Postgres
import Push
import PushStandIn
import ServiceRuntime
import Storage
import TestSupport
import Testing
import WakeRules

@testable import WakeWorker

/// Claims, senders and provider tokens of three workers, in one database and against one stand-in; only time is made up.
@Suite(.serialized, .timeLimit(.minutes(4))) struct `Provider tokens of many workers` {
    private typealias Reply = StandInScript.Reply

    /// A worker that can be thrown away.
    private final class Running {
        let parts: WakeTurnsUnderTest.Worker
        let sender: PushSender

        init(_ test: WakeTurnsUnderTest, _ configuration: PushConfiguration) throws {
            let url = test.database.url
            let time = test.time
            var made: PushSender?
            parts = try test.worker(batch: 20) { dispatcher in
                let tokens = SharedTokens { try PostgresConnection(url: url, applicationName: "tokens") }
                let sender = try PushSender(configuration, tokens: tokens, delegate: dispatcher, time: time)
                made = sender
                return sender
            }
            sender = try #require(made)
            try sender.start()
        }

        /// Turns until everything that it has claimed is written down.
        func turn() throws {
            _ = try parts.work.turn(claims: true)
            try Eventually.holds("every push has ended") {
                _ = try parts.work.turn(claims: false)
                return parts.work.isIdle
            }
        }

        func stop() {
            sender.beginStop()
            _ = sender.waitStopped(until: .after(milliseconds: 10_000))
        }
    }

    /// When a provider token was made, from the header that it came in.
    private func issuedAt(_ header: String) throws -> Instant {
        let parts = header.dropFirst("bearer ".count).split(separator: ".")
        var text = String(parts[1]).replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while !text.utf8.count.isMultiple(of: 4) { text += "=" }
        let claims = try JSONSerialization.jsonObject(with: try #require(Data(base64Encoded: text))) as? [String: Any]
        let seconds = try #require(claims?["iat"] as? Int)
        return Instant(microseconds: Int64(seconds) * 1_000_000)
    }

    @Test
    func `W8: 5,000 pushes, three workers, restarts: provider tokens at least 20 minutes apart, none over an hour`()
        throws
    {
        let test = try WakeTurnsUnderTest()
        let folder = NSTemporaryDirectory() + "daybook-credentials-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let standIn = try PushStandIn(folder: folder)
        defer { standIn.stop() }
        var apns = PushConfiguration.APNs(
            keyID: "KEY1234567",
            teamID: "TEAM123456",
            privateKey: try #require(DevelopmentKeys.p256()),
            defaultTopic: "com.example"
        )
        apns.production = .init(host: "localhost", port: standIn.port)
        apns.sandbox = apns.production
        var configuration = PushConfiguration()
        configuration.apns = apns
        configuration.certificateFile = standIn.authorityFile

        // Three wakes each that nobody answers; the first ones spread over four hours.
        let users = 1667
        let pushes = 3 * users
        try test.database.add(0..<users, pushedAt: test.database.at(hours: 0), dueAt: test.database.at(hours: 4))
        try test.database.connection.simpleQuery(
            """
            UPDATE wake_schedule SET due_at = due_at + number * 14400000000 / \(users)
            FROM (SELECT user_id, row_number() OVER (ORDER BY user_id) AS number FROM accounts) AS place
            WHERE place.user_id = wake_schedule.user_id
            """
        )
        var workers = try (0..<3).map { _ in try Running(test, configuration) }
        defer { for worker in workers { worker.stop() } }
        var random = SplitMix64(seed: 8)
        var ages: [Int] = []
        var refused = 0
        var (checked, restarts) = (0, 0)
        try test.pass(4 * 3600)
        for step in 0..<300 {
            guard try test.database.acceptedWakes() < pushes else { break }
            try test.pass(Int.random(in: 120...300, using: &random))
            if step % 7 == 3 {
                let place = Int.random(in: 0..<3, using: &random)
                workers[place].stop()
                workers[place] = try Running(test, configuration)
                restarts += 1
            }
            for worker in workers { worker.sender.resume() }
            try Eventually.holds("every worker has a token that is to be used") {
                workers.allSatisfy { $0.sender.figures.providerTokenAge.map { $0 < .seconds(45 * 60) } ?? false }
            }
            // Apple calls a token expired that is not yet to be renewed: allowed from 20 minutes on.
            let age = try #require(workers[0].sender.figures.providerTokenAge)
            let isRefused = step % 3 == 0 && step % 48 < 24 && age >= .seconds(21 * 60) && age < .seconds(40 * 60)
            if isRefused { standIn.use(StandInScript(others: [Reply(403, "ExpiredProviderToken"), Reply()])) }
            for worker in workers.shuffled(using: &random) { try worker.turn() }
            let requests = standIn.received[checked...]
            checked += requests.count
            let now = test.time.now
            for request in requests {
                ages.append(try issuedAt(try #require(request.header("authorization"))).seconds(until: now))
            }
            guard isRefused else { continue }
            if !requests.isEmpty { refused += 1 }
            standIn.use(StandInScript())
        }
        let rows = try test.database.connection.executeUnprepared(
            """
            SELECT count(*) FILTER (WHERE outcome = 'accepted'), count(*), count(DISTINCT worker),
                min(wake_at - before) / 1000000
            FROM (
                SELECT outcome, worker, wake_at, lag(wake_at) OVER (PARTITION BY user_id ORDER BY wake_at) AS before
                FROM push_sends
            ) AS wakes
            """
        )
        #expect(try rows.int8(0, 0) == Int64(pushes) && rows.int8(0, 1) == Int64(pushes) && rows.int8(0, 2) > 10)
        #expect(try rows.int8(0, 3) >= 4 * 3600)
        #expect(standIn.received.count == pushes + refused)
        let tokens = Set(standIn.received.compactMap { $0.header("authorization") })
        let made = try Set(tokens.map(issuedAt)).sorted()
        // Two tokens of one second would be two that are too near.
        #expect(
            made.count == tokens.count && made.count > 12 && refused > 3 && restarts > 15,
            "\(made.count) \(refused)"
        )
        let distances = zip(made, made.dropFirst()).map { $0.seconds(until: $1) }
        #expect(distances.allSatisfy { $0 >= 20 * 60 }, "\(distances)")
        // Renewed early where Apple asked for it, else at 45 minutes.
        #expect(distances.contains { $0 < 44 * 60 } && distances.contains { $0 >= 45 * 60 }, "\(distances)")
        #expect(ages.allSatisfy { (0..<3600).contains($0) })
        let stored = try ProviderTokenRows(test.database.connection).row(keyID: "KEY1234567")
        #expect(stored.issuedAt.map { made.contains($0) || $0 > made[made.count - 1] } == true)
    }
}

extension WakesUnderTest {
    func acceptedWakes() throws -> Int {
        let count = try connection.executeUnprepared("SELECT count(*) FROM push_sends WHERE outcome = 'accepted'")
        return Int(try count.int8(0, 0))
    }
}

import DevelopmentStack
import Domain
import Foundation
import Glibc
import Kafka
import MessageContract
import Postgres
import TestSupport

/// A replay and a preview beside the worker that reads the same records again: one Kafka, one durable PostgreSQL,
/// taking turns, each with as many threads as there are processors.
final class ReplayBenchmark {
    private let kafka: AggregatorKafka
    private let database: BenchmarkDatabase
    private let publisher: DayPublisher
    private let people = People()
    private let ours: OurWorker
    private let users: Int
    private let lanes: Int
    private let turns: Int

    init(isQuick: Bool) throws {
        kafka = try AggregatorKafka()
        // The development broker holds 5 MiB of a partition.
        users = kafka.isReal ? (isQuick ? 4000 : 12_000) : 800
        turns = isQuick ? 2 : 3
        lanes = min(8, max(1, ProcessInfo.processInfo.activeProcessorCount))
        database = try BenchmarkDatabase()
        try database.migrated("ours", today: people.today)
        publisher = try DayPublisher(kafka, topic: kafka.liveTopic())
        ours = OurWorker(kafka, database, name: "ours")
    }

    func run() throws {
        defer {
            kafka.stop()
            database.stop()
        }
        say(kafka.introduction)
        say("PostgreSQL: \(try database.settings). \(users) users, \(lanes) lanes or threads.")
        // Everybody's thirty days, and the same three times more: what is in a log of some hours.
        for round in 0..<4 {
            for user in People.shuffled(users, seed: round) {
                let days = (0..<History.days).reversed().map { age -> DaysRecord.Day in
                    let date = people.today.advanced(by: -age)
                    return .init(date: date, values: People.values(user, date, round: 0))
                }
                try publisher.publish(people, user: user, round: round, days)
            }
        }
        try publisher.flush()
        let records = publisher.ends.reduce(0, +)
        let days = users * 4 * History.days
        _ = try ours.drain(to: publisher.ends, days: days, lanes: lanes)
        var worker: [Double] = []
        var replay: [Double] = []
        var preview: [Double] = []
        for turn in 0..<turns {
            try database.checkpoint()
            try database.look(into: "ours").simpleQuery(
                "UPDATE consumer_offsets SET next_offset = 0, last_record = NULL, epoch = epoch + 1"
            )
            worker.append(try ours.drain(to: publisher.ends, days: days, lanes: lanes).seconds)
            for isPreview in turn.isMultiple(of: 2) ? [false, true] : [true, false] {
                try database.checkpoint()
                let seconds = try self.replay(isPreview: isPreview, records: Int(records))
                if isPreview { preview.append(seconds) } else { replay.append(seconds) }
            }
        }
        guard let best = worker.min(), let replayed = replay.min(), let previewed = preview.min() else { return }
        for (name, seconds) in [("worker, reading again", best), ("replay", replayed), ("preview", previewed)] {
            let rate = format(Double(days) / seconds, 0)
            say(cell(name, 24) + cell(format(seconds, 2), -8) + " s" + cell(rate, -12) + " days/s")
        }
        for (goal, value) in [(Goal.replayOverAggregator, best / replayed), (.previewOverReplay, previewed / replayed)]
        {
            say(goal.line(value))
        }
        let live = try measureLive(replaySeconds: replayed)
        say(
            "live, end to end, p95: \(format(live.idle * 1000, 1)) ms idle, \(format(live.loaded * 1000, 1)) ms while "
                + "everything is replayed"
        )
        say(Goal.liveBesideReplay.line(live.loaded / live.idle))
        say("RESULT drill.replay_over_aggregator \(format(best / replayed, 3))")
        say("RESULT drill.preview_over_replay \(format(previewed / replayed, 3))")
        say("RESULT drill.live_p95_over_idle \(format(live.loaded / live.idle, 3))")
    }

    // MARK: Live records

    /// From the moment that a phone's record is handed to Kafka until its rows are committed, at an even pace: while
    /// nothing else happens, and while everything is replayed again and again.
    private func measureLive(replaySeconds: Double) throws -> (idle: Double, loaded: Double) {
        let worker = try ours.start(lanes: lanes)
        defer { try? worker.stop() }
        // Until it has its partitions.
        _ = try live(seconds: 3, round: 5) { true }
        let idle = try live(seconds: 6, round: 6) { true }
        var replay: ServiceProcess?
        defer { try? replay?.kill() }
        let deadline = monotonicSeconds() + max(6, replaySeconds)
        let loaded = try live(seconds: 1, round: 7) {
            if replay?.isRunning != true {
                guard monotonicSeconds() < deadline else { return true }
                replay = try start(["replay", "--from", "beginning", "--json"])
            }
            return false
        }
        return (idle, loaded)
    }

    /// The 95th percentile in seconds; goes on until `isOver` says so, at least as long as given.
    private func live(seconds: Double, round: Int, until isOver: () throws -> Bool) throws -> Double {
        try LiveTraffic(publisher: publisher, worker: ours, people: people, topic: kafka.liveTopic()).slowestTwentieth(
            users: People.shuffled(users, seed: round),
            round: round,
            limit: 120,
            until: { elapsed in try isOver() && elapsed >= seconds },
            days: { user in
                (0..<History.days).reversed().map { age -> DaysRecord.Day in
                    let date = people.today.advanced(by: -age)
                    return .init(date: date, values: People.values(user, date, round: age < 2 ? round : 0))
                }
            }
        )
    }

    /// Its own clock, from the first record on, as the worker's begins with the claim.
    private func replay(isPreview: Bool, records: Int) throws -> Double {
        let topic = kafka.liveTopic()
        var words = ["replay", "--from", "beginning", "--topic", topic, "--json", "--jobs", "\(lanes)"]
        if isPreview { words.append("--preview") }
        let process = try start(words)
        let status = try process.waitForExit(seconds: 300)
        // What is said to people comes first, in the same file.
        let result = process.output.drop { $0 != "{" }
        let object = try? JSONSerialization.jsonObject(with: Data(result.utf8)) as? [String: Any]
        guard status == 0, let seconds = object?["seconds"] as? Double, object?["read"] as? Int == records else {
            throw BenchmarkFailure("daybook \(words.joined(separator: " ")) did not read all:\n\(process.output)")
        }
        return seconds
    }

    private func start(_ words: [String]) throws -> ServiceProcess {
        try ServiceProcess(
            "daybook",
            words,
            environment: [
                "DAYBOOK_KAFKA_BROKERS": kafka.bootstrapServers,
                "DAYBOOK_TOPIC_PREFIX": AggregatorKafka.prefix,
                "DAYBOOK_DATABASE_URL": try database.url("ours"),
                "DAYBOOK_STATE": "/nonexistent/daybook",
                "DAYBOOK_DEVELOPMENT_BROKER": kafka.isReal ? "false" : "true",
            ]
        )
    }
}

extension Goal {
    fileprivate static let replayOverAggregator = Goal(
        name: "replay_over_aggregator",
        what: "records that were applied before: replay / worker",
        limit: 1,
        isLeast: true
    )
    fileprivate static let previewOverReplay = Goal(
        name: "preview_over_replay",
        what: "time of a preview / of the replay",
        limit: 1.2
    )
    fileprivate static let liveBesideReplay = Goal(
        name: "live_p95_over_idle",
        what: "live p95 while everything is replayed / idle",
        limit: 2
    )
}

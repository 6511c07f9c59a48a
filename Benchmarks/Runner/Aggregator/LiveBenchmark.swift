import DevelopmentStack
import Domain
import Foundation
import Glibc
import MessageContract
import Postgres
import TestSupport

/// From the moment that a phone's record is handed to Kafka until the rows are committed: while nothing else happens,
/// and while a year of a thousand users' history drains.
struct LiveBenchmark {
    struct Outcome {
        let idle, loaded: Double
        let drained: Int
        var ratio: Double { loaded / idle }

        var summary: String {
            "Live, end to end, p95: \(format(idle * 1000, 1)) ms idle; \(format(loaded * 1000, 1)) ms while "
                + "\(drained) of the history's days drained."
        }
    }

    private let bench: AggregatorBenchmark
    private let users: Int
    private let looking: PostgresConnection
    private let live: DayPublisher

    init(_ bench: AggregatorBenchmark) throws {
        self.bench = bench
        users = bench.kafka.isReal ? (bench.isQuick ? 300 : 1000) : 30
        looking = try bench.database.look(into: "ours")
        live = bench.publisher
    }

    func run() throws -> Outcome {
        let worker = try bench.ours.start(lanes: nil)
        defer { try? worker.stop() }
        // Until it has its partitions.
        _ = try measure(seconds: 2)
        let idle = try measure(seconds: bench.isQuick ? 4 : 6)
        let history = try DayPublisher(bench.kafka, topic: Topic.daysHistory.name(prefix: AggregatorKafka.prefix))
        bench.round += 1
        for user in People.shuffled(users, seed: 5) {
            let days = (36..<401).reversed().map { age -> DaysRecord.Day in
                let date = bench.people.today.advanced(by: -age)
                return .init(date: date, values: People.values(user, date, round: 0))
            }
            try history.publish(bench.people, user: user, round: bench.round, days)
        }
        try history.flush()
        let topic = Topic.daysHistory.name(prefix: AggregatorKafka.prefix)
        let ends = history.ends
        let loaded = try measure(seconds: 120) {
            let positions = try bench.ours.positions(topic)
            return ends.indices.allSatisfy { positions[$0]?.next == ends[$0] }
        }
        guard worker.isRunning else { throw BenchmarkFailure("the worker ended:\n\(worker.log.suffix(2000))") }
        return Outcome(idle: idle, loaded: loaded, drained: users * 365)
    }

    /// At an even pace; returns the 95th percentile in seconds.
    private func measure(seconds: Double, until isOver: () throws -> Bool = { false }) throws -> Double {
        bench.round += 1
        bench.history.change(newest: 2, to: bench.round)
        let topic = bench.kafka.liveTopic()
        return try LiveTraffic(publisher: live, worker: bench.ours, people: bench.people, topic: topic)
            .slowestTwentieth(
                users: People.shuffled(bench.users, seed: bench.round),
                round: bench.round,
                limit: seconds + 60,
                until: { elapsed in try elapsed >= seconds || isOver() },
                days: { user in
                    (0..<History.days).reversed().map { age -> DaysRecord.Day in
                        let date = bench.people.today.advanced(by: -age)
                        let round = bench.history.round(ofAge: age)
                        return .init(date: date, values: People.values(user, date, round: round))
                    }
                }
            )
    }
}

/// A worker in front of a topic with 1 GiB that nobody has read.
struct BacklogBenchmark {
    private static let bytes = 1 << 30
    private let bench: AggregatorBenchmark
    private let publisher: DayPublisher

    init(_ bench: AggregatorBenchmark) throws {
        self.bench = bench
        publisher = try DayPublisher(bench.kafka, topic: bench.kafka.liveTopic(AggregatorKafka.backlogPrefix))
    }

    /// MiB at the peak.
    func run() throws -> Double {
        bench.round += 1
        let order = People.shuffled(bench.users, seed: bench.round)
        var index = 0
        while publisher.bytes < Self.bytes {
            let user = order[index % order.count]
            let days = (0..<History.days).reversed().map { age -> DaysRecord.Day in
                let date = bench.people.today.advanced(by: -age)
                return .init(date: date, values: People.values(user, date, round: bench.round + index / order.count))
            }
            try publisher.publish(bench.people, user: user, round: bench.round, days)
            index += 1
        }
        try publisher.flush()
        let worker = try bench.ours.start(lanes: nil, prefix: AggregatorKafka.backlogPrefix)
        defer { try? worker.stop() }
        let topic = bench.kafka.liveTopic(AggregatorKafka.backlogPrefix)
        let ends = publisher.ends
        let limit = monotonicSeconds() + (bench.isQuick ? 10 : 25)
        var peak = 0.0
        while monotonicSeconds() < limit {
            peak = max(peak, ProcessTimes.peakMebibytes(worker.process))
            guard worker.isRunning else { throw BenchmarkFailure("the worker ended:\n\(worker.log.suffix(2000))") }
            let positions = try bench.ours.positions(topic)
            if ends.indices.allSatisfy({ positions[$0]?.next == ends[$0] }) { break }
            poll(nil, 0, 100)
        }
        return peak
    }
}

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

    private static let interval = 0.01
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

    /// Publishes at an even pace; returns the 95th percentile in seconds.
    private func measure(seconds: Double, until isOver: () throws -> Bool = { false }) throws -> Double {
        bench.round += 1
        bench.history.change(newest: 2, to: bench.round)
        let topic = bench.kafka.liveTopic()
        var open: [[(offset: Int64, at: Double)]] = Array(repeating: [], count: AggregatorKafka.partitions)
        var latencies: [Double] = []
        let order = People.shuffled(bench.users, seed: bench.round)
        var next = 0
        let begun = monotonicSeconds()
        var due = begun
        var nextQuestion = begun
        var isEnding = false
        while true {
            let now = monotonicSeconds()
            if !isEnding && now - begun >= seconds { isEnding = true }
            if now >= nextQuestion {
                nextQuestion = now + 0.1
                if try isOver() { isEnding = true }
            }
            if !isEnding && now >= due {
                due += Self.interval
                let user = order[next % order.count]
                next += 1
                let days = (0..<History.days).reversed().map { age -> DaysRecord.Day in
                    let date = bench.people.today.advanced(by: -age)
                    let round = bench.history.round(ofAge: age)
                    return .init(date: date, values: People.values(user, date, round: round))
                }
                let place = try live.publish(bench.people, user: user, round: bench.round, days)
                open[place.partition].append((place.offset, monotonicSeconds()))
                try live.drain()
            }
            let positions = try bench.ours.positions(topic)
            let seen = monotonicSeconds()
            for partition in open.indices {
                let position = positions[partition]?.next ?? 0
                while let first = open[partition].first, first.offset < position {
                    latencies.append(seen - first.at)
                    open[partition].removeFirst()
                }
            }
            if isEnding && open.allSatisfy(\.isEmpty) { break }
            guard now - begun < seconds + 60 else { throw BenchmarkFailure("live records are not applied") }
            poll(nil, 0, 1)
        }
        latencies.sort()
        return latencies.isEmpty ? .nan : latencies[min(latencies.count - 1, latencies.count * 95 / 100)]
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

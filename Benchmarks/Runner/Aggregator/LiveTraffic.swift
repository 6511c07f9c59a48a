import DevelopmentStack
import Glibc
import MessageContract

/// Phones' records at an even pace, and how long each takes from Kafka until its rows are committed.
struct LiveTraffic {
    private static let interval = 0.01
    /// Between two questions whether it is over.
    private static let questionInterval = 0.05

    let publisher: DayPublisher
    let worker: OurWorker
    let people: People
    let topic: String

    /// - Parameters:
    ///   - order: in which users push, again and again.
    ///   - round: whose time the records have.
    ///   - limit: after so many seconds it is given up.
    ///   - isOver: told how many seconds it has taken.
    ///   - days: of a user's record.
    /// - Returns: the 95th percentile in seconds.
    /// - Throws: `BenchmarkFailure` at the limit.
    func slowestTwentieth(
        users order: [Int],
        round: Int,
        limit: Double,
        until isOver: (Double) throws -> Bool,
        days: (Int) -> [DaysRecord.Day]
    ) throws -> Double {
        var open: [[(offset: Int64, at: Double)]] = Array(repeating: [], count: AggregatorKafka.partitions)
        var latencies: [Double] = []
        var next = 0
        let begun = monotonicSeconds()
        var due = begun
        var nextQuestion = begun
        var isEnding = false
        while true {
            let now = monotonicSeconds()
            if !isEnding && now >= nextQuestion {
                nextQuestion = now + Self.questionInterval
                isEnding = try isOver(now - begun)
            }
            if !isEnding && now >= due {
                due += Self.interval
                let user = order[next % order.count]
                next += 1
                let place = try publisher.publish(people, user: user, round: round, days(user))
                open[place.partition].append((place.offset, monotonicSeconds()))
                try publisher.drain()
            }
            let positions = try worker.positions(topic)
            let seen = monotonicSeconds()
            for partition in open.indices {
                let position = positions[partition]?.next ?? 0
                while let first = open[partition].first, first.offset < position {
                    latencies.append(seen - first.at)
                    open[partition].removeFirst()
                }
            }
            if isEnding && open.allSatisfy(\.isEmpty) { break }
            guard now - begun < limit else { throw BenchmarkFailure("live records are not applied") }
            poll(nil, 0, 1)
        }
        latencies.sort()
        return latencies.isEmpty ? .nan : latencies[min(latencies.count - 1, latencies.count * 95 / 100)]
    }
}

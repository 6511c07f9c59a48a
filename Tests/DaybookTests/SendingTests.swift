import DevelopmentStack
import Domain
import Foundation
import Glibc
import Kafka
import Synchronization
import Testing

@testable import Daybook
@testable import Storage

struct SendingTests {
    private let today = CalendarDay(daysSinceEpoch: 20_600)

    @Test func `so many are under way at a time as were asked for, whatever the processors`() throws {
        final class Meeting: Sendable {
            let state = Mutex<(inside: Int, most: Int, done: Set<Int>)>((0, 0, []))
        }
        let meeting = Meeting()
        let width = 24
        try Parallel.forEach(below: 100, width: width) { index in
            meeting.state.withLock { state in
                state.inside += 1
                state.most = max(state.most, state.inside)
                state.done.insert(index)
            }
            // Until all are there, with a limit: if they never are, the number says so.
            let deadline = ContinuousClock.now + .seconds(5)
            while meeting.state.withLock({ $0.most }) < width, ContinuousClock.now < deadline { sched_yield() }
            meeting.state.withLock { $0.inside -= 1 }
        }
        let (inside, most, done) = meeting.state.withLock { $0 }
        #expect(inside == 0 && most == width && done == Set(0..<100))
        try Parallel.forEach(below: 0, width: 4) { _ in Issue.record("nothing was to be done") }
    }

    @Test func `the same seed gives the same history, another one another`() {
        let users = GeneratedHistory.users(3, seed: 7)
        #expect(users == GeneratedHistory.users(3, seed: 7))
        #expect(Set(users).count == 3)
        let first = GeneratedHistory(users: users, days: 45, lastDay: today, seed: 7).requests
        let again = GeneratedHistory(users: users, days: 45, lastDay: today, seed: 7).requests
        #expect(first.map(\.body) == again.map(\.body))
        let other = GeneratedHistory(users: users, days: 45, lastDay: today, seed: 8).requests
        #expect(first.map(\.body) != other.map(\.body))
        // Two of the three have a second source; 45 days are two requests.
        #expect(first.count == 10)
        #expect(first.map(\.days).reduce(0, +) == 5 * 45)
    }

    @Test func `a made-up history is what the interface takes`() throws {
        let history = GeneratedHistory(users: [UserID(high: 1, low: 2)], days: 60, lastDay: today, seed: 1)
        var dates: Set<String> = []
        for request in history.requests {
            let object = try JSONSerialization.jsonObject(with: Data(request.body.utf8)) as? [String: Any]
            for day in try #require(object?["days"] as? [[String: Any]]) {
                for (key, value) in day where key != "date" {
                    let metric = try #require(Metric(name: key))
                    let tenths = try #require(value as? Double) * 10
                    #expect(
                        Double(MetricLedger[metric].tenths.lowerBound)...Double(MetricLedger[metric].tenths.upperBound)
                            ~= tenths
                    )
                }
                dates.insert(try #require(day["date"] as? String))
            }
        }
        #expect(dates.count == 60)
        #expect(dates.contains(today.description))
    }

    @Test func `totals count what was accepted, refused and unanswered`() {
        var totals = SendTotals()
        let accepted =
            #"{"accepted":2,"skipped":[{"index":0,"field":"steps","code":"zero"}],"errors":[{"index":1,"field":"days[1].steps","code":"out_of_range"}]}"#
        totals.add(.success(.init(status: 202, body: Data(accepted.utf8), contentType: nil)), bytes: 10, seconds: 0.1)
        let problem = #"{"title":"No","status":401,"code":"expired"}"#
        totals.add(.success(.init(status: 401, body: Data(problem.utf8), contentType: nil)), bytes: 10, seconds: 0.3)
        totals.add(.failure(.timedOut), bytes: 10, seconds: 0.2)
        #expect(totals.accepted == 2)
        #expect(totals.skipped == 1)
        #expect(totals.refusals == ["401 expired": 1])
        #expect(totals.itemErrors == ["days[1].steps out_of_range": 1])
        #expect(totals.unreachable == 1)
        #expect(!totals.isFine)
        #expect(totals.percentile(0.5) == 200)
        #expect(totals.json(seconds: 1).text().contains("\"unanswered\": 1"))
    }

    @Test func `a file holds one document or one a line`() {
        #expect(SendCommand.split(Data("{\"a\":1}\n\n{\"b\":2}\n".utf8)) == ["{\"a\":1}", "{\"b\":2}"])
        #expect(SendCommand.split(Data("{\n\"a\":1\n}\n".utf8)) == ["{\n\"a\":1\n}\n"])
        #expect(SendCommand.split(Data("not json".utf8)) == ["not json"])
    }

    @Test func `shells and libpq get what they can read`() {
        #expect(shellQuoted("it's $HOME") == "'it'\\''s $HOME'")
        let socket = EnvCommand.pgVariables("postgres://daybook@/daybook?host=%2Ftmp%2Fx&port=5433")
        #expect(
            socket.map { "\($0.0)=\($0.1)" } == [
                "PGHOST=/tmp/x", "PGPORT=5433", "PGUSER=daybook", "PGDATABASE=daybook",
            ]
        )
        let remote = EnvCommand.pgVariables("postgres://u:p@db:5432/d")
        #expect(remote.map { "\($0.0)=\($0.1)" } == ["PGHOST=db", "PGPORT=5432", "PGUSER=u", "PGDATABASE=d"])
    }

    @Test func `the days to show follow from what is given`() throws {
        func range(_ positionals: [String], from: String? = nil, to: String? = nil) throws -> ClosedRange<CalendarDay> {
            var arguments = Arguments(command: "day show")
            for text in ["user"] + positionals { arguments.add(positional: text) }
            if let from { arguments.add(value: from, to: "from") }
            if let to { arguments.add(value: to, to: "to") }
            return try DayShowCommand.range(arguments, today: today)
        }
        let date = "2026-01-05"
        let day = try #require(CalendarDay(date))
        #expect(try range([date]) == day...day)
        #expect(try range([]).upperBound == today.advanced(by: 1))
        #expect(try range([], from: date).lowerBound == day)
        #expect(try range([], to: date).upperBound == day)
        #expect(throws: CommandFailure.self) { try range([date], from: date) }
        #expect(throws: CommandFailure.self) { try range([], from: "2026-01-06", to: date) }
        #expect(throws: CommandFailure.self) { try range(["2026-02-30"]) }
    }

    @Test func `lag is counted in this log, and a position in another counts for nothing`() {
        let place = TopicPartitionName.live
        let log = (low: Int64(10), high: Int64(50))
        #expect(place.lag(next: nil, cluster: "a", log) == 40)
        #expect(place.lag(next: 45, cluster: "a", log) == 5)
        #expect(place.lag(next: 50, cluster: "a", log) == 0)
        #expect(place.lag(next: 45, cluster: "b", log) == 40)
        #expect(place.lag(next: 60, cluster: "a", log) == 40)
        #expect(place.lag(next: 3, cluster: "a", log) == 40)
    }
}

private enum TopicPartitionName {
    case live

    func lag(next: Int64?, cluster: String, _ log: (low: Int64, high: Int64)) -> Int64 {
        let state = next.map {
            PartitionState(
                clusterID: cluster,
                owner: UUID128(high: 0, low: 1),
                epoch: 1,
                nextOffset: $0,
                lastRecord: nil,
                appliedThrough: 0,
                brake: nil,
                brakedAt: nil
            )
        }
        let place = TopicPartition(topic: "t", partition: 0)
        return StatusCommand.lag(state, place, KafkaWatermarks(low: log.low, high: log.high), "a").records
    }
}

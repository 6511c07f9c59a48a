import DevelopmentStack
import Domain
import Foundation
import Glibc
import Kafka
import MessageContract
import Postgres
import TestSupport

/// The aggregator beside, where `PEERS_HOME` names them, a Go worker on the same topic and a JDBC sink on the same
/// days, and beside what the database takes at all: one Kafka, one durable PostgreSQL, taking turns.
final class AggregatorBenchmark {
    enum Contender: String, CaseIterable {
        case ours, ours2 = "2 lanes", goPeer = "go", jdbc, limit
    }

    enum Workload: String, CaseIterable {
        case load = "load, 1 day"
        case new = "new, 15 days"
        case unchanged = "same 30 days"
        case resync = "30 days, 2 new"
        case changed = "changed, 15"
    }

    let isQuick: Bool
    let users: Int
    let rounds: Int
    let kafka: AggregatorKafka
    let database: BenchmarkDatabase
    let publisher: DayPublisher
    let people = People()
    let ours: OurWorker
    private let goPeer: GoWorker?
    private let peersHome: String?
    private var limit: UpsertLimit?
    private var sink: JDBCSink?
    var history = History()
    /// Counts up with everything that is published, so that each reading is newer than the ones before.
    var round = 0
    private var turns: [Workload: [Contender: [Turn]]] = [:]

    init(isQuick: Bool) throws {
        self.isQuick = isQuick
        rounds = isQuick ? 2 : 3
        kafka = try AggregatorKafka()
        // The development broker holds 5 MiB of a partition.
        let most = kafka.isReal ? (isQuick ? 4000 : 40_000) : 800
        users = Int(ProcessInfo.processInfo.environment["BENCH_USERS"] ?? "") ?? most
        database = try BenchmarkDatabase()
        try database.migrated("ours", today: people.today)
        publisher = try DayPublisher(kafka, topic: kafka.liveTopic())
        ours = OurWorker(kafka, database, name: "ours")
        let home = ProcessInfo.processInfo.environment["PEERS_HOME"].flatMap { $0.isEmpty ? nil : $0 }
        peersHome = home
        if let home { goPeer = try GoWorker(home, kafka, database, name: "go") } else { goPeer = nil }
    }

    func run() throws {
        defer {
            try? sink?.stop()
            kafka.stop()
            database.stop()
        }
        say(kafka.introduction)
        say("PostgreSQL: \(try database.settings).")
        if goPeer == nil {
            say("PEERS_HOME names no folder with bin/aggregator-go: figures beside the peers are left out.")
        }
        if !kafka.isReal {
            say("Without a real Kafka there is neither a JDBC sink nor 1 GiB of lag: their figures are left out.")
        } else if !(peersHome.map(JDBCSink.isThere) ?? false) {
            say("PEERS_HOME names no folder with connect/run: the figure beside the JDBC sink is left out.")
        }
        say("\(users) users, a quarter of them with a ring too; days up to \(people.today).")
        let parts = ProcessInfo.processInfo.environment["BENCH_PARTS"]?.split(separator: ",").map(String.init)
        if let parts { say("Only these parts: \(parts.joined(separator: ", ")).") }
        func wants(_ part: String) -> Bool { parts?.contains(part) ?? true }
        try loadHistory()
        if wants("new") { for number in 0..<rounds { try newDays(number) } }
        if wants("unchanged") { for _ in 0..<rounds { try again(changing: 0, .unchanged) } }
        if wants("resync") { for _ in 0..<rounds { try again(changing: 2, .resync) } }
        if wants("jdbc") { try measureSink() }
        if wants("changed") { for _ in 0..<rounds { try changeAll() } }
        if wants("lanes") { for _ in 0..<rounds { try changeAllInTwoLanes() } }
        let live = wants("live") ? try LiveBenchmark(self).run() : nil
        let memory = wants("memory") && kafka.isReal ? try BacklogBenchmark(self).run() : nil
        printTable()
        if let live { say(live.summary) }
        printGoals(live?.ratio, memory)
    }

    // MARK: Workloads

    private func note(_ workload: Workload, _ contender: Contender, _ turn: Turn) {
        turns[workload, default: [:]][contender, default: []].append(turn)
        say(
            "  " + cell(workload.rawValue, 16) + cell(contender.rawValue, 8) + cell(format(turn.rate, 0), -9)
                + " days/s" + cell(format(turn.workerMicroseconds ?? .nan, 2), -8) + " us worker"
                + cell(format(turn.postgresMicroseconds ?? .nan, 2), -8) + " us postgres",
            to: STDERR_FILENO
        )
    }

    /// Each of those who read the topic, in another order every time.
    private func takeTurns(_ workload: Workload, days: Int, skip: GoWorker.Skip, seed: Int) throws {
        try publisher.flush()
        let takeOurs = { [self] in
            try database.checkpoint()
            note(workload, .ours, try ours.drain(to: publisher.ends, days: days, lanes: 1))
        }
        let takeGo = { [self] in
            guard let goPeer else { return }
            try database.checkpoint()
            note(workload, .goPeer, try goPeer.drain(skip))
        }
        for take in seed % 2 == 0 ? [takeOurs, takeGo] : [takeGo, takeOurs] { try take() }
    }

    private func day(_ user: Int, age: Int) -> DaysRecord.Day {
        let date = people.today.advanced(by: -age)
        return .init(date: date, values: People.values(user, date, round: history.round(ofAge: age)))
    }

    /// As in real life: a day after the other, so that the days of one user lie on different pages.
    private func loadHistory() throws {
        var days = 0
        for age in (0..<History.days).reversed() {
            for user in People.shuffled(users, seed: age) {
                try publisher.publish(people, user: user, round: round, [day(user, age: age)])
                days += 1
                guard user % 4 == 0 else { continue }
                let date = people.today.advanced(by: -age)
                let values = People.values(user + 1_000_000_000, date, round: 0)
                try publisher.publish(
                    people,
                    user: user,
                    source: .oura,
                    round: round,
                    [.init(date: date, values: values)]
                )
                days += 1
            }
        }
        try takeTurns(.load, days: days, skip: .writesAll, seed: 0)
        try database.copy("limit", from: "ours")
        limit = try UpsertLimit(database, name: "limit")
    }

    private func newDays(_ number: Int) throws {
        round += 1
        let count = users / 2
        for index in People.shuffled(count, seed: round) {
            let user = users + number * count + index
            try publisher.publish(people, user: user, round: round, (0..<15).reversed().map { day(user, age: $0) })
        }
        try takeTurns(.new, days: count * 15, skip: .writesAll, seed: number)
    }

    private func again(changing changed: Int, _ workload: Workload) throws {
        round += 1
        history.change(newest: changed, to: round)
        for user in People.shuffled(users, seed: round) {
            let days = (0..<History.days).reversed().map { day(user, age: $0) }
            try publisher.publish(people, user: user, round: round, days)
        }
        try takeTurns(workload, days: users * History.days, skip: .comparesFirst, seed: round)
    }

    private func publishChanges() throws -> [Int] {
        round += 1
        history.change(newest: 15, to: round)
        let order = People.shuffled(users, seed: round)
        for user in order {
            try publisher.publish(people, user: user, round: round, (0..<15).reversed().map { day(user, age: $0) })
        }
        return order
    }

    private func changeAll() throws {
        let order = try publishChanges()
        try takeTurns(.changed, days: users * 15, skip: .writesAll, seed: round)
        guard let limit else { return }
        try database.checkpoint()
        note(.changed, .limit, try limit.write(users: order, people, days: 15, round: round))
    }

    /// One lane and two in turns; the Go worker, which would have to read it too, is done by then.
    private func changeAllInTwoLanes() throws {
        for (lanes, contender) in [(2, Contender.ours2), (1, .ours)] {
            _ = try publishChanges()
            try publisher.flush()
            try database.checkpoint()
            let turn = try ours.drain(to: publisher.ends, days: users * 15, lanes: lanes)
            note(.changed, contender, turn)
        }
    }

    /// A quarter of the users, so that it does not take all the time; a smaller table can only help it.
    private func measureSink() throws {
        guard let peersHome, JDBCSink.isThere(peersHome), kafka.isReal else { return }
        let sink = try JDBCSink(peersHome, kafka, database, people)
        self.sink = sink
        let count = max(1000, users / 4)
        var past = History()
        var order: [(user: Int, age: Int)] = []
        for age in (0..<History.days).reversed() {
            for user in People.shuffled(count, seed: age) { order.append((user, age)) }
        }
        note(.load, .jdbc, try sink.take(order, history: past, round: 0))
        for number in 1...rounds {
            past.change(newest: 2, to: number)
            order.removeAll()
            for user in People.shuffled(count, seed: number) {
                for age in (0..<History.days).reversed() { order.append((user, age)) }
            }
            note(.resync, .jdbc, try sink.take(order, history: past, round: number))
        }
        try sink.stop()
        self.sink = nil
    }

    // MARK: What is printed

    /// The best turn, figure by figure: whatever else ran only made them worse.
    private func best(_ workload: Workload, _ contender: Contender, _ figure: (Turn) -> Double?) -> Double? {
        turns[workload]?[contender]?.compactMap(figure).min()
    }

    private func printTable() {
        say(
            "\n" + cell("workload", 17) + cell("who", 8) + cell("days/s", -10) + cell("worker us/day", -15)
                + cell("postgres us/day", -17) + cell("turns", -7)
        )
        for workload in Workload.allCases {
            for contender in Contender.allCases {
                guard let list = turns[workload]?[contender] else { continue }
                let worker = best(workload, contender, \.workerMicroseconds)
                say(
                    cell(workload.rawValue, 17) + cell(contender.rawValue, 8)
                        + cell(format(list.map(\.rate).max() ?? .nan, 0), -10)
                        + cell(worker.map { format($0, 2) } ?? "", -15)
                        + cell(format(best(workload, contender, \.postgresMicroseconds) ?? .nan, 2), -17)
                        + cell("\(list.count)", -7)
                )
            }
        }
        say(
            """
            Each figure is the best turn's. Go: PEER_SKIP_UNCHANGED=0 where days are new or change, 2 where most do \
            not. limit: two upserts of arrays that were encoded before the clock ran. jdbc: source rows only, a \
            quarter of the users.
            """
        )
    }

    private func printGoals(_ live: Double?, _ memory: Double?) {
        var figures: [(Goal, Double)] = []
        func rate(_ workload: Workload, _ contender: Contender) -> Double? {
            turns[workload]?[contender]?.map(\.rate).max()
        }
        func add(_ goal: Goal, _ above: Double?, over below: Double?) {
            if let above, let below { figures.append((goal, above / below)) }
        }
        add(.newOverGo, rate(.new, .ours), over: rate(.new, .goPeer))
        add(.changedOverGo, rate(.changed, .ours), over: rate(.changed, .goPeer))
        add(.changedOverLimit, rate(.changed, .ours), over: rate(.changed, .limit))
        add(.resyncOverGo, rate(.resync, .ours), over: rate(.resync, .goPeer))
        add(.unchangedOverGo, rate(.unchanged, .ours), over: rate(.unchanged, .goPeer))
        add(.resyncOverJDBC, rate(.resync, .ours), over: rate(.resync, .jdbc))
        add(.twoLanesOverOne, rate(.changed, .ours2), over: rate(.changed, .ours))
        add(
            .workerCPUOverGo,
            best(.changed, .ours, \.workerMicroseconds),
            over: best(.changed, .goPeer, \.workerMicroseconds)
        )
        add(
            .postgresCPUOverGo,
            best(.unchanged, .ours, \.postgresMicroseconds),
            over: best(.unchanged, .goPeer, \.postgresMicroseconds)
        )
        if let live { figures.append((.liveOverIdle, live)) }
        if let memory { figures.append((.aggregatorMemory, memory)) }
        say("")
        for (goal, value) in figures { say(goal.line(value)) }
        say("")
        for (goal, value) in figures { say("RESULT aggregator.\(goal.name) \(format(value, 3))") }
    }
}

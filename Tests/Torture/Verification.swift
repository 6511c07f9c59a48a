import Foundation
import Kafka
import TestSupport

/// Compares what PostgreSQL and the dead letters hold with what the log says that they have to hold.
struct Verification {
    private let surroundings: Surroundings
    private let workers: Workers
    private let believesAppendTimes: Bool

    init(_ surroundings: Surroundings, _ workers: Workers, believesAppendTimes: Bool) {
        self.surroundings = surroundings
        self.workers = workers
        self.believesAppendTimes = believesAppendTimes
    }

    func ends() throws -> [TopicPartition: Int64] {
        try LogContents.ends(surroundings.topics, partitions: surroundings.partitions, over: surroundings.kafka)
    }

    /// Every partition has got to where the log ends now.
    func waitUntilApplied(_ goal: [TopicPartition: Int64]? = nil) throws {
        let goal = try goal ?? ends()
        let reader = TableReader(try surroundings.connect())
        var last: [String] = []
        // Longer than a debug build takes that has everything to read again.
        let seconds = 150 + Int(goal.values.reduce(0, +)) / 50
        do {
            try Eventually.holds("all records are applied", seconds: seconds) {
                try workers.keep(2)
                var reached: [TopicPartition: Int64] = [:]
                last = []
                for position in try reader.positions() {
                    reached[TopicPartition(topic: position.topic, partition: position.partition)] = position.next
                    if position.isBraked { last.append("\(position.topic)/\(position.partition) is braked") }
                }
                for (place, end) in goal where reached[place] ?? 0 < end {
                    last.append("\(place) is at \(reached[place] ?? 0) of \(end)")
                }
                return last.isEmpty
            }
        } catch {
            throw Eventually.TimedOut(
                what: "\(error): \(last.sorted().joined(separator: "; "))\n\(workers.tails(4000))"
            )
        }
    }

    func hash(ofGroup group: String) throws -> UInt64 {
        let state = try TableReader(try surroundings.connect()).read()
        return state.hash { $0.hasPrefix("0000\(group)-") }
    }

    /// Everything: tables, positions, confirmed records and dead letters. Ingest has to stand still.
    func compare(_ load: Load.Outcome, _ report: inout Report) throws -> LogContents {
        let log = try LogContents.read(
            surroundings.topics,
            partitions: surroundings.partitions,
            over: surroundings.kafka
        )
        let reader = TableReader(try surroundings.connect())
        var model = Model(floor: try reader.floor(), believesAppendTimes: believesAppendTimes)
        for record in log.records { model.apply(record) }
        let state = try reader.read()
        compareTables(state, model, &report)
        let times = try reader.times()
        report.check("times", times.lastData.count + times.due.count, times.violations(model))
        compareConfirmed(load, log, &report)
        try comparePositions(reader, log, &report)
        try compareDeadLetters(model, &report)
        return log
    }

    private func compareTables(_ state: TableState, _ model: Model, _ report: inout Report) {
        let expected = model.state()
        let differences = state.differences(from: expected)
        var violations: [String: [String]] = [:]
        for difference in differences {
            violations[difference.table == .canonicalDays ? "D6" : "D2", default: []].append("\(difference)")
        }
        let registers = expected.rows(.sourceDays).values.reduce(0) { $0 + $1.count }
        let others = [.accounts, .accountSources, .connections, .devices].reduce(0) { $0 + expected.rows($1).count }
        report.check("D2", registers + others, violations["D2"] ?? [])
        report.check("D6", expected.rows(.canonicalDays).count, violations["D6"] ?? [])
        let missing = differences.filter { $0.table == .sourceDays && $0.what.contains("missing") }
        report.lost += missing.count
        report.check("D4", model.counts.leftOut, missing.map { "\($0)" })
        compareWinners(state, &report)
        let hidden = model.hidden()
        var back: [String] = []
        for register in hidden {
            let columns = state.rows(.sourceDays)[register.row]
            guard let parts = columns?[register.metric]?.split(separator: "/"), parts.count > 1,
                let version = Int64(parts[1]), version < register.watermark
            else { continue }
            back.append("sourceDays [\(register.row)] \(register.metric) is older than a deletion")
        }
        report.check("D7", hidden.count, back)
    }

    /// Each canonical value has to be that of the one row that it names.
    private func compareWinners(_ state: TableState, _ report: inout Report) {
        var checked = 0
        var violations: [String] = []
        for (key, columns) in state.rows(.canonicalDays) {
            for (metric, text) in columns where metric != "final" {
                checked += 1
                let parts = text.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
                guard parts.count == 3, let source = Int(parts[1]), ModelSource.names.indices.contains(source) else {
                    continue
                }
                let row = state.rows(.sourceDays)["\(key) \(ModelSource.names[source]) '\(parts[2])'"]
                if row?[metric]?.hasPrefix(parts[0] + "/") == true { continue }
                violations.append("canonicalDays [\(key)] \(metric) is in no row of its winner")
            }
        }
        report.check("D5", checked, violations)
    }

    private func compareConfirmed(_ load: Load.Outcome, _ log: LogContents, _ report: inout Report) {
        var events: [String: String] = [:]
        for record in log.records { events[record.place] = record.header("event-id") ?? "" }
        var lost: [String] = []
        for confirmed in load.confirmed {
            guard let event = events[confirmed.place] else {
                lost.append("\(confirmed.place) was confirmed and is not in the log")
                continue
            }
            if let expected = confirmed.eventID, expected != event {
                lost.append("\(confirmed.place) holds another record than the confirmed one")
            }
        }
        report.check("D1", load.confirmed.count, lost)
        report.lost += lost.count
    }

    private func comparePositions(_ reader: TableReader, _ log: LogContents, _ report: inout Report) throws {
        var reached: [TopicPartition: Int64] = [:]
        for position in try reader.positions() {
            reached[TopicPartition(topic: position.topic, partition: position.partition)] = position.next
        }
        let wrong = log.ends.filter { reached[$0.key] ?? 0 != $0.value }
        report.check("D2", log.ends.count, wrong.map { "\($0.key): the position is not the end of the log" })
    }

    private func compareDeadLetters(_ model: Model, _ report: inout Report) throws {
        let letters = try LogContents.read([surroundings.deadLetterTopic], partitions: 1, over: surroundings.kafka)
        let found = Set(
            letters.records.map { letter in
                ["origin-topic", "origin-partition", "origin-offset"].map { letter.header($0) ?? "?" }
                    .joined(separator: "/")
            }
        )
        let missing = model.poison.subtracting(found).map { "\($0) is poison and no dead letter" }
        let extra = found.subtracting(model.poison).map { "\($0) is a dead letter and no poison" }
        report.check("D9", model.poison.count, (missing + extra).sorted())
    }
}

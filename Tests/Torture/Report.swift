import Foundation

/// What a run found: an invariant is a count of what was looked at, and of what was wrong.
struct Report {
    struct Invariant {
        let name: String
        let text: String
        var checked = 0
        var violations: [String] = []
    }

    private(set) var invariants: [Invariant] = [
        Invariant(name: "D1", text: "confirmed positions are in the log"),
        Invariant(name: "D2", text: "rows are as if each record had been applied once; offsets add up"),
        Invariant(name: "D3", text: "replays in the order of the log and in another one change no hash"),
        Invariant(name: "D4", text: "a value that a payload leaves out stands"),
        Invariant(name: "D5", text: "no value that no source gave"),
        Invariant(name: "D6", text: "canonical days are what rows and preferences say"),
        Invariant(name: "D7", text: "deleted stays deleted, newer stays"),
        Invariant(name: "D8", text: "accepted with the database away, and applied afterwards"),
        Invariant(name: "D9", text: "poison is a dead letter, nothing else is"),
        Invariant(name: "times", text: "when a value last changed and when a phone may be woken, as the log allows"),
        Invariant(name: "C5", text: "the locks of a frozen worker are gone within ten seconds"),
        Invariant(name: "C15", text: "a worker ends within fifteen seconds of SIGTERM"),
    ]
    /// Confirmed records that are not in the log, and what the log says and the tables lack.
    var lost = 0
    /// What the run had to go through and did not: it fails for that.
    var shortfalls: [String] = []
    /// What only a longer run has to go through.
    var notAsked: [String] = []
    private(set) var results: [(name: String, value: String)] = []

    mutating func check(_ name: String, _ count: Int, _ violations: [String] = []) {
        guard let index = invariants.firstIndex(where: { $0.name == name }) else { return }
        invariants[index].checked += count
        invariants[index].violations += violations
    }

    mutating func result(_ name: String, _ value: Int) {
        results.append((name, "\(value)"))
    }

    mutating func result(_ name: String, seconds: Double) {
        results.append((name, String(format: "%.1f", seconds)))
    }

    var unchecked: [String] { invariants.filter { $0.checked == 0 }.map(\.name) }

    var isGood: Bool { invariants.allSatisfy { $0.violations.isEmpty } && shortfalls.isEmpty }

    func lines() -> [String] {
        var lines: [String] = []
        for invariant in invariants {
            let verdict = invariant.violations.isEmpty ? "held" : "VIOLATED \(invariant.violations.count) times"
            lines.append("\(invariant.name) \(invariant.text): \(verdict), \(invariant.checked) checked")
            lines += invariant.violations.prefix(12).map { "    \($0)" }
            if invariant.violations.count > 12 { lines.append("    … and \(invariant.violations.count - 12) more") }
        }
        lines += results.map { "RESULT torture.\($0.name) \($0.value)" }
        lines += notAsked.map { "not reached, nor asked of a run this short: \($0)" }
        lines += shortfalls.map { "NOT REACHED: \($0)" }
        return lines
    }
}

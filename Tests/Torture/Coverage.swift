/// What a run has to have gone through before its verdict counts: where nothing was broken, nothing was proved.
struct Coverage {
    static let kills = 50
    static let rebalances = 20

    var kills: Int
    var rebalances: Int
    var faults: [Nemesis.Fault: Int]
    var oddities: [Oddity: Int]
    /// Those that can come over this Kafka.
    var expectedOddities: [Oddity]
    /// Invariants for which there was nothing to look at.
    var unchecked: [String] = []

    /// What was not reached, in words.
    var shortfalls: [String] {
        var found: [String] = []
        if kills < Self.kills { found.append("\(kills) kills of at least \(Self.kills)") }
        if rebalances < Self.rebalances { found.append("\(rebalances) rebalances of at least \(Self.rebalances)") }
        let faults = Nemesis.Fault.allCases.filter { self.faults[$0] == nil }.map(\.rawValue)
        if !faults.isEmpty { found.append("faults that never came: \(faults.joined(separator: ", "))") }
        let odd = expectedOddities.filter { oddities[$0] == nil }.map(\.rawValue)
        if !odd.isEmpty { found.append("odd records that never came: \(odd.joined(separator: ", "))") }
        if !unchecked.isEmpty { found.append("nothing to look at for \(unchecked.joined(separator: ", "))") }
        return found
    }
}

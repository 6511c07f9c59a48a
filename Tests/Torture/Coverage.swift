/// What a run has to have gone through before its verdict counts: where nothing was broken, nothing was proved.
struct Coverage {
    /// What is asked of a run; of every one, that no invariant was left without anything to look at.
    struct Goal {
        let kills: Int
        let rebalances: Int
        /// Different ones.
        let faults: Int
        let asksForEveryOddity: Bool

        /// Of ten minutes.
        static let whole = Goal(
            kills: 50,
            rebalances: 20,
            faults: Nemesis.Fault.allCases.count,
            asksForEveryOddity: true
        )
        /// Of the gate's forty seconds, which play 12 to 14 faults, 5 kills among them: less than that, since a busy machine
        /// gets less far, and what the first nine faults of the plan bring along.
        static let short = Goal(kills: 2, rebalances: 0, faults: 9, asksForEveryOddity: false)
    }

    var kills: Int
    var rebalances: Int
    var faults: [Nemesis.Fault: Int]
    var oddities: [Oddity: Int]
    /// Those that can come over this Kafka.
    var expectedOddities: [Oddity]
    /// Invariants for which there was nothing to look at.
    var unchecked: [String]

    /// What was not reached, in words.
    func shortfalls(of goal: Goal) -> [String] {
        var found: [String] = []
        if kills < goal.kills { found.append("\(kills) kills of at least \(goal.kills)") }
        if rebalances < goal.rebalances { found.append("\(rebalances) rebalances of at least \(goal.rebalances)") }
        let missing = Nemesis.Fault.allCases.filter { faults[$0] == nil }.map(\.rawValue)
        let count = Nemesis.Fault.allCases.count - missing.count
        if count < goal.faults {
            let names = missing.joined(separator: ", ")
            found.append("\(count) different faults of at least \(goal.faults); these never came: \(names)")
        }
        let odd = expectedOddities.filter { oddities[$0] == nil }.map(\.rawValue)
        if goal.asksForEveryOddity && !odd.isEmpty {
            found.append("odd records that never came: \(odd.joined(separator: ", "))")
        }
        if !unchecked.isEmpty { found.append("nothing to look at for \(unchecked.joined(separator: ", "))") }
        return found
    }
}

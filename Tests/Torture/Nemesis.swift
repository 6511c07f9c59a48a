import Foundation
import ServiceRuntime
import TestSupport

/// Breaks one thing after another, and mends it. What comes when, and how each fault is played, is made of the seed.
final class Nemesis {
    enum Fault: String, CaseIterable {
        case killBurst, killInTransaction, killBehindCommit
        case freeze, freezePastPoll, freezeInTransaction, freezeInTransactionPastPoll
        case join, leave
        case cutBeforeCommit, cutDuringCommit, cutAfterCommit, rollbackForCommit, cutAll
        case databaseRestart, databaseCrash, databaseReadOnly
        case brokerKill, brokerPause, brokerRestart
        case ingestKill, rewind
    }

    let surroundings: Surroundings
    let workers: Workers
    let load: Load
    private let seed: UInt64
    private let say: (String) -> Void
    /// Of the fault that is played.
    var random: SplitMix64
    private var played: UInt64 = 0
    private(set) var done: [Fault: Int] = [:]
    /// Faults whose moment did not come, such as a COMMIT to be cut while nothing was to be written.
    private(set) var missed: [Fault: Int] = [:]
    var brokerKills = 0
    /// For how many seconds the locks of each worker were there that was frozen in a transaction.
    var locks: [Double] = []
    /// The longest that they may be there (C5).
    static let lockLimit = 10.0
    /// Positions that were confirmed to requests while the database was away, for each time that it was.
    var acceptedWithoutDatabase: [Int] = []

    init(
        _ surroundings: Surroundings,
        _ workers: Workers,
        _ load: Load,
        seed: UInt64,
        say: @escaping (String) -> Void
    ) {
        self.surroundings = surroundings
        self.workers = workers
        self.load = load
        self.seed = seed
        self.say = say
        random = SplitMix64(seed: seed)
    }

    /// The faults of a run: each one once in a deck, and kills between them.
    ///
    /// - Parameters:
    ///   - end: when it is enough.
    ///   - short: the plan of the gate.
    ///   - goesOn: asked from then on, whether something is still to come.
    /// - Throws: when what was broken can't be mended.
    func run(until end: Date, short: Bool, goesOn: () -> Bool) throws {
        var decks: UInt64 = 0
        while Date() < end || goesOn() {
            for fault in deck(decks, short: short) where Date() < end || goesOn() {
                // Whatever the ones before have met with, this one is played as the seed says.
                played += 1
                random = SplitMix64(seed: seed &+ played &* 0xd134_2543_de82_ef95)
                try perform(fault)
                try workers.keep(2)
                pause(short ? 200...900 : 500...2000)
            }
            decks += 1
        }
    }

    /// All faults in an order of the seed, kills between them, or the short plan; after the first time, those whose moment
    /// has not come yet before the others.
    private func deck(_ number: UInt64, short: Bool) -> [Fault] {
        var random = SplitMix64(seed: seed ^ number &* 0x9fb2_1c65_1e98_df25)
        let all = (Fault.allCases + Array(repeating: .killBurst, count: 5)).shuffled(using: &random)
        let deck = short ? Self.shortDeck : all
        return number == 0 ? deck : deck.filter { done[$0] == nil } + deck.filter { done[$0] != nil }
    }

    /// The most telling faults, in an order in which one recovers while the next strikes.
    private static let shortDeck: [Fault] = [
        .cutAfterCommit, .rollbackForCommit, .killInTransaction, .cutBeforeCommit, .killBehindCommit, .cutDuringCommit,
        .freezeInTransaction, .databaseCrash, .rewind, .brokerKill, .killBurst, .databaseReadOnly, .join, .cutAll,
    ]

    private func perform(_ fault: Fault) throws {
        say("nemesis: \(fault.rawValue)")
        let isDone =
            switch fault {
            case .killBurst: try killBurst()
            case .killInTransaction: try atCommit(.holdCommit) { try workers.kill($0) }
            case .killBehindCommit: try atCommit(.cutAfterCommit) { try workers.kill($0) }
            case .freeze: freeze(pastPoll: false)
            case .freezePastPoll: freeze(pastPoll: true)
            case .freezeInTransaction: try freezeInTransaction(pastPoll: false)
            case .freezeInTransactionPastPoll: try freezeInTransaction(pastPoll: true)
            case .join: try join()
            case .leave: try leave()
            case .cutBeforeCommit: try atCommit(.cutBeforeCommit)
            case .cutDuringCommit: try atCommit(.cutDuringCommit)
            case .cutAfterCommit: try atCommit(.cutAfterCommit)
            case .rollbackForCommit: try atCommit(.rollbackForCommit)
            case .cutAll: cutAll()
            case .databaseRestart: try restartDatabase(crash: false)
            case .databaseCrash: try restartDatabase(crash: true)
            case .databaseReadOnly: try readOnly()
            case .brokerKill: try breakBroker(.kill)
            case .brokerPause: try breakBroker(.pause)
            case .brokerRestart: try breakBroker(.restart)
            case .ingestKill: try killIngest()
            case .rewind: try rewind()
            }
        if isDone { done[fault, default: 0] += 1 } else { missed[fault, default: 0] += 1 }
    }

    func pause(_ milliseconds: ClosedRange<Int>) { usleep(UInt32(random.int(milliseconds)) * 1000) }

    /// Nothing is broken any more.
    func heal() throws {
        for slot in workers.slots {
            slot.proxy.disarm()
            if slot.isFrozen { workers.thaw(slot) }
        }
        try workers.keep(2)
    }
}

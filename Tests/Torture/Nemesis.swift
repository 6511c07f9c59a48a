import Foundation
import Glibc
import Kafka
import Postgres
import ServiceRuntime
import TestSupport

/// Breaks one thing after another, and mends it. What comes when is made of the seed.
final class Nemesis {
    enum Fault: String, CaseIterable {
        case killBurst, killInTransaction, killBehindCommit, freeze, freezeInTransaction
        case join, leave
        case cutBeforeCommit, cutDuringCommit, cutAfterCommit, rollbackForCommit, cutAll
        case databaseRestart, databaseCrash, databaseReadOnly
        case brokerKill, brokerPause
        case ingestKill, rewind
    }

    private let surroundings: Surroundings
    private let workers: Workers
    private let load: Load
    private let say: (String) -> Void
    private var random: SplitMix64
    private(set) var done: [Fault: Int] = [:]
    /// Faults whose moment did not come, such as a COMMIT to be cut while nothing was to be written.
    private(set) var missed: [Fault: Int] = [:]
    private(set) var brokerKills = 0
    private(set) var rewinds = 0
    private(set) var longestLock = 0.0
    /// Positions that were confirmed while the database was away.
    private(set) var acceptedWithoutDatabase = 0

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
        self.say = say
        random = SplitMix64(seed: seed)
    }

    /// The faults of a run: each one once in a deck, and kills between them.
    func run(until end: Date, short: Bool) throws {
        while Date() < end {
            var deck = short ? Self.shortDeck : Fault.allCases + Array(repeating: .killBurst, count: 4)
            if !short { deck.shuffle(using: &random) }
            for fault in deck where Date() < end {
                try perform(fault)
                try workers.keep(2)
                usleep(UInt32(random.int(short ? 200...900 : 500...2500)) * 1000)
            }
        }
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
            case .freeze: try freeze()
            case .freezeInTransaction: try freezeInTransaction()
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
            case .brokerKill: try breakBroker(kill: true)
            case .brokerPause: try breakBroker(kill: false)
            case .ingestKill: try killIngest()
            case .rewind: try rewind()
            }
        if isDone { done[fault, default: 0] += 1 } else { missed[fault, default: 0] += 1 }
    }

    private func pause(_ milliseconds: ClosedRange<Int>) { usleep(UInt32(random.int(milliseconds)) * 1000) }

    private func victim() -> Workers.Slot? {
        let running = workers.running
        return running.isEmpty ? nil : random.pick(running)
    }

    // MARK: Workers

    private func killBurst() throws -> Bool {
        var kills = 0
        for _ in 0..<random.int(2...4) {
            guard let slot = victim() else { break }
            pause(0...700)
            try workers.kill(slot)
            kills += 1
            pause(0...300)
            try workers.start(slot)
        }
        return kills > 0
    }

    /// Waits for the next COMMIT of any worker, which meets the fault.
    private func atCommit(_ fault: DatabaseProxy.Fault, then: (Workers.Slot) throws -> Void = { _ in }) throws -> Bool {
        let slots = workers.running
        let before = slots.map { $0.proxy.fired(fault) }
        for slot in slots { slot.proxy.arm(fault) }
        defer { for slot in slots { slot.proxy.disarm() } }
        let until = Date().addingTimeInterval(12)
        while Date() < until {
            for (slot, count) in zip(slots, before) where slot.proxy.fired(fault) > count {
                for other in slots where other !== slot { other.proxy.disarm() }
                try then(slot)
                return true
            }
            usleep(1000)
        }
        return false
    }

    private func freeze() throws -> Bool {
        guard let slot = victim() else { return false }
        workers.freeze(slot)
        pause(7000...13_000)
        workers.thaw(slot)
        return true
    }

    /// Frozen while it holds the locks of its batch; they have to be gone within ten seconds (C5).
    private func freezeInTransaction() throws -> Bool {
        try atCommit(.holdTransaction) { slot in
            workers.freeze(slot)
            let begun = Date()
            let connection = try surroundings.connect()
            try Eventually.holds("a frozen worker's locks are gone", seconds: 15) {
                let idle = try connection.executeUnprepared(
                    """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE state LIKE 'idle in transaction%' AND application_name LIKE 'daybook-aggregator%'
                        AND now() - xact_start > interval '1 second'
                    """
                )
                return try idle.int8(0, 0) == 0 && Date().timeIntervalSince(begun) > 2
            }
            longestLock = max(longestLock, Date().timeIntervalSince(begun))
            pause(3000...8000)
            slot.proxy.release()
            workers.thaw(slot)
        }
    }

    private func join() throws -> Bool {
        guard let slot = workers.slots.first(where: { !$0.isRunning }) else { return try leave() }
        try workers.start(slot)
        pause(1000...4000)
        return true
    }

    private func leave() throws -> Bool {
        guard let slot = victim() else { return false }
        try workers.stop(slot)
        return true
    }

    // MARK: Connections and servers

    private func cutAll() -> Bool {
        workers.running.reduce(0) { $0 + $1.proxy.cutAll() } > 0
    }

    private func restartDatabase(crash: Bool) throws -> Bool {
        let before = load.outcome.confirmed.count
        try surroundings.restartPostgres(crash: crash, awayFor: Double(random.int(500...3000)) / 1000)
        acceptedWithoutDatabase += load.outcome.confirmed.count - before
        return true
    }

    private func readOnly() throws -> Bool {
        try surroundings.setReadOnly(true)
        pause(1500...4000)
        try surroundings.setReadOnly(false)
        return true
    }

    private func breakBroker(kill: Bool) throws -> Bool {
        let kafka = surroundings.kafka
        if let mock = kafka.mock {
            if kill {
                try mock.setDown(broker: 1)
                pause(1500...5000)
                try mock.setUp(broker: 1)
            } else {
                try mock.setRoundTrip(broker: 1, milliseconds: 700)
                pause(3000...6000)
                try mock.setRoundTrip(broker: 1, milliseconds: 0)
            }
        } else if let real = kafka.real {
            let node = random.int(1...real.nodes)
            if kill {
                try real.kill(node: node)
                pause(1000...4000)
                try real.restart(node: node)
            } else {
                try real.pause(node: node)
                pause(3000...9000)
                try real.resume(node: node)
            }
        }
        if kill { brokerKills += 1 }
        return true
    }

    private func killIngest() throws -> Bool {
        try surroundings.killIngest()
        pause(100...1500)
        try surroundings.restartIngest()
        load.setPort(surroundings.ingestPort)
        return true
    }

    // MARK: Positions

    private func rewind() throws -> Bool {
        let partition = random.int(0...(surroundings.partitions - 1))
        let changed = try surroundings.connect().simpleQuery(
            Self.rewindStatement + " WHERE partition = \(partition)"
        )
        rewinds += 1
        return changed.first?.affectedRows ?? 0 > 0
    }

    /// As an operator does, while the workers run.
    static let rewindStatement =
        "UPDATE consumer_offsets SET next_offset = 0, last_record = NULL, epoch = epoch + 1"

    /// Nothing is broken any more.
    func heal() throws {
        for slot in workers.slots {
            slot.proxy.disarm()
            if slot.isFrozen { workers.thaw(slot) }
        }
        try workers.keep(2)
    }
}

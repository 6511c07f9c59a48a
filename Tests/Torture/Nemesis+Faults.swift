import Foundation
import Glibc
import Kafka
import Postgres
import ServiceRuntime
import TestSupport

/// How each fault is played. Every one says whether it came about.
extension Nemesis {
    private func victim() -> Workers.Slot? {
        let running = workers.running
        return running.isEmpty ? nil : random.pick(running)
    }

    // MARK: Workers

    func killBurst() throws -> Bool {
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
    func atCommit(_ fault: DatabaseProxy.Fault, then: (Workers.Slot) throws -> Void = { _ in }) throws -> Bool {
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

    /// Longer than its session, or longer than it may go without a poll.
    func freeze(pastPoll: Bool) -> Bool {
        guard let slot = victim() else { return false }
        workers.freeze(slot)
        pause(pastPoll ? Self.pastPoll : Self.pastSession)
        workers.thaw(slot)
        return true
    }

    private static let pastSession = (Surroundings.sessionMilliseconds + 500)...(Surroundings.pollMilliseconds - 1000)
    private static let pastPoll = (Surroundings.pollMilliseconds + 500)...(Surroundings.pollMilliseconds + 3000)

    /// Frozen while it holds the locks of its batch; they have to be gone within ten seconds (C5).
    func freezeInTransaction(pastPoll: Bool) throws -> Bool {
        try atCommit(.holdTransaction) { slot in
            workers.freeze(slot)
            let begun = Date()
            let connection = try surroundings.connect()
            do {
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
            } catch is Eventually.TimedOut {
                // Longer than it may be, which the report says; the run goes on.
            }
            locks.append(Date().timeIntervalSince(begun))
            let wanted = Double(random.int(pastPoll ? Self.pastPoll : Self.pastSession)) / 1000
            let left = wanted - Date().timeIntervalSince(begun)
            if left > 0 { usleep(UInt32(left * 1_000_000)) }
            slot.proxy.release()
            workers.thaw(slot)
        }
    }

    func join() throws -> Bool {
        guard let slot = workers.slots.first(where: { !$0.isRunning }) else {
            // All are there: one leaves, and comes again.
            guard let slot = victim() else { return false }
            try workers.stop(slot)
            try workers.start(slot)
            return true
        }
        try workers.start(slot)
        pause(1000...4000)
        return true
    }

    func leave() throws -> Bool {
        guard let slot = victim() else { return false }
        try workers.stop(slot)
        return true
    }

    // MARK: Connections and servers

    func cutAll() -> Bool {
        workers.running.reduce(0) { $0 + $1.proxy.cutAll() } > 0
    }

    /// Counts what ingest accepts between the server's end and its start: of requests that were sent after the one and
    /// confirmed before the other (D8).
    func restartDatabase(crash: Bool) throws -> Bool {
        let milliseconds = random.int(500...3000)
        try surroundings.restartPostgres(crash: crash) {
            let begun = Date()
            usleep(UInt32(milliseconds) * 1000)
            var accepted = 0
            // On a slow machine that may have been too short for a request: it stays away until one comes through, and
            // at some time it is certain that none does.
            try? Eventually.holds("a request is accepted while the database is away", seconds: 10) {
                accepted = load.accepted(askedSince: begun)
                return accepted > 0
            }
            acceptedWithoutDatabase.append(accepted)
        }
        return true
    }

    func readOnly() throws -> Bool {
        try surroundings.setReadOnly(true)
        pause(1500...4000)
        try surroundings.setReadOnly(false)
        return true
    }

    enum BrokerFault { case kill, pause, restart }

    func breakBroker(_ fault: BrokerFault) throws -> Bool {
        if fault == .kill { brokerKills += 1 }
        if let mock = surroundings.kafka.mock { return try breakMock(mock, fault) }
        guard let real = surroundings.kafka.real else { return false }
        let node = random.int(1...real.nodes)
        switch fault {
        case .kill:
            try real.kill(node: node)
            pause(1000...4000)
            try real.restart(node: node)
        case .pause:
            try real.pause(node: node)
            pause(3000...9000)
            try real.resume(node: node)
        case .restart:
            // In good order: it hands its partitions over first.
            try real.shutDown(node: node)
            try real.restart(node: node)
        }
        return true
    }

    private func breakMock(_ mock: MockKafkaCluster, _ fault: BrokerFault) throws -> Bool {
        switch fault {
        case .kill, .restart:
            try mock.setDown(broker: 1)
            pause(fault == .kill ? 1500...5000 : 200...600)
            try mock.setUp(broker: 1)
        case .pause:
            try mock.setRoundTrip(broker: 1, milliseconds: 700)
            pause(3000...6000)
            try mock.setRoundTrip(broker: 1, milliseconds: 0)
        }
        return true
    }

    func killIngest() throws -> Bool {
        try surroundings.killIngest()
        pause(100...1500)
        try surroundings.restartIngest()
        load.setPort(surroundings.ingestPort)
        return true
    }

    // MARK: Positions

    func rewind() throws -> Bool {
        let partition = random.int(0...(surroundings.partitions - 1))
        let changed = try surroundings.connect().simpleQuery(
            Self.rewindStatement + " WHERE partition = \(partition)"
        )
        return changed.first?.affectedRows ?? 0 > 0
    }

    /// As an operator does, while the workers run.
    static let rewindStatement =
        "UPDATE consumer_offsets SET next_offset = 0, last_record = NULL, epoch = epoch + 1"
}
